//! What happens to a session.

use crate::model::LlmMessage;
use crate::turn::TurnMessage;

/// A fact about one conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// The session came to be.
    Opened {
        /// The caller's id of it.
        session_id: String,
    },
    /// The leading system message was set. During a turn it belongs to the turn.
    SystemPromptSet(LlmMessage),
    /// A run took the turn.
    TurnStarted {
        /// Unique in the session.
        turn_id: String,
        /// The stream of the task that runs.
        task: String,
    },
    /// The turn's next message.
    MessageAppended(TurnMessage),
    /// The turn is over: its messages are part of the history from now on.
    TurnCommitted {
        /// Which turn.
        turn_id: String,
    },
    /// The turn is over: the history stays as it was before it.
    TurnAborted {
        /// Which turn.
        turn_id: String,
        /// Why.
        reason: String,
    },
}
