//! Commands to a session, and the reasons to reject them.

use crate::model::llm_message::LlmMessage;
use crate::turn::{IllFormed, TurnMessage};

/// A command to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionCommand {
    /// Start the turn of a run; opens the session if it is new.
    StartTurn {
        /// The session id chosen by the caller.
        session_id: String,
        /// The turn's id, unique in the session.
        turn_id: String,
        /// The stream of the running task.
        task: String,
        /// The leading system message, from this turn on.
        system_prompt: LlmMessage,
    },
    /// Append the turn's next message.
    AppendMessage {
        /// The id of the turn.
        turn_id: String,
        /// The message.
        message: TurnMessage,
    },
    /// Fold the turn into the history.
    CommitTurn {
        /// The id of the turn.
        turn_id: String,
    },
    /// Drop the turn.
    AbortTurn {
        /// The id of the turn.
        turn_id: String,
        /// The reason.
        reason: String,
    },
}

/// The reason why a session rejects a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionRejection {
    /// A turn is already open, possibly of the same run.
    #[error("turn `{turn_id}` of {task} is open; a session has at most one open turn")]
    TurnInProgress {
        /// The open turn.
        turn_id: String,
        /// The task that holds it.
        task: String,
    },
    /// The named turn is not open.
    #[error("turn `{0}` is not open")]
    NoSuchTurn(String),
    /// A tool call has no result yet.
    #[error(transparent)]
    IllFormed(#[from] IllFormed),
}
