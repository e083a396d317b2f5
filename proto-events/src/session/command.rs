//! What may be wished of a session, and how it says no.

use crate::model::LlmMessage;
use crate::turn::{IllFormed, TurnMessage};

/// A wish.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionCommand {
    /// Take the turn for a run; opens the session if it is new.
    StartTurn {
        /// The caller's id of the session.
        session_id: String,
        /// Unique in the session.
        turn_id: String,
        /// The stream of the task that runs.
        task: String,
        /// The leading system message as it should be from now on.
        system_prompt: LlmMessage,
    },
    /// Add the turn's next message.
    AppendMessage {
        /// Which turn.
        turn_id: String,
        /// The message.
        message: TurnMessage,
    },
    /// Fold the turn into the history.
    CommitTurn {
        /// Which turn.
        turn_id: String,
    },
    /// Drop the turn.
    AbortTurn {
        /// Which turn.
        turn_id: String,
        /// Why.
        reason: String,
    },
}

/// A session's "no".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionRejection {
    /// Another turn is open, and the same run holds it or it has not ended yet.
    #[error("turn `{turn_id}` of {task} is open; turns of one session run one after another")]
    TurnInProgress {
        /// The open turn.
        turn_id: String,
        /// The task that holds it.
        task: String,
    },
    /// That turn is not open.
    #[error("turn `{0}` is not open")]
    NoSuchTurn(String),
    /// A tool call has no answer yet.
    #[error(transparent)]
    IllFormed(#[from] IllFormed),
}
