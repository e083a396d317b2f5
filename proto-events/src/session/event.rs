//! Events of a session.

use crate::model::llm_message::LlmMessage;
use crate::turn::TurnMessage;

/// An event of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// The session was opened.
    Opened {
        /// The session id chosen by the caller.
        session_id: String,
    },
    /// The leading system message was set. During a turn it belongs to the turn.
    SystemPromptSet(LlmMessage),
    /// A run started the turn.
    TurnStarted {
        /// The turn's id, unique in the session.
        turn_id: String,
        /// The stream of the running task.
        task: String,
    },
    /// The next message of the turn was appended.
    MessageAppended(TurnMessage),
    /// The turn was committed: its messages are part of the history from now on.
    TurnCommitted {
        /// The id of the turn.
        turn_id: String,
    },
    /// The turn was aborted: the history stays as it was before the turn.
    TurnAborted {
        /// The id of the turn.
        turn_id: String,
        /// The reason.
        reason: String,
    },
}
