//! Events of a session.

use crate::call::TokenUsage;
use crate::id::{Digest, Version};
use crate::json::JsonText;
use crate::model::CompactionStrategy;
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
    /// The oldest messages of the history were removed, perhaps for a summary.
    HistoryCompacted(Box<HistoryCompacted>),
    /// The history was cleared. The messages of a turn that is open are not folded into it.
    Cleared {
        /// The number of messages that the history had.
        messages: u32,
    },
    /// A model is about to be asked for a summary: the intent of that call.
    SummaryRequested(Box<SummaryRequested>),
    /// The model answered with a summary.
    SummaryReceived {
        /// The id of the call.
        call_id: String,
        /// The model's reply.
        reply: JsonText,
        /// The token usage, if the provider reports it.
        usage: Option<TokenUsage>,
        /// The reason why the summary was not put in place; `None` if it was, by the event that follows.
        dropped: Option<String>,
    },
    /// The call for a summary failed.
    SummaryFailed {
        /// The id of the call.
        call_id: String,
        /// The error's type.
        error_type: String,
        /// The error message.
        message: String,
        /// The token usage, if the provider reports it.
        usage: Option<TokenUsage>,
    },
}

/// A compaction: messages of the history after its leading system message were removed.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryCompacted {
    /// The strategy that chose them.
    pub strategy: CompactionStrategy,
    /// The version of the session that was read for it.
    pub read_through: Version,
    /// The number of removed messages, the oldest ones after a leading system message.
    pub removed: u32,
    /// The message that stands in their place.
    pub summary: Option<LlmMessage>,
    /// The call that brought the summary.
    pub call_id: Option<String>,
    /// The estimated tokens of the history before.
    pub before_tokens: u64,
    /// The estimated tokens of the history after.
    pub after_tokens: u64,
}

/// The intent of a call for a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryRequested {
    /// The id of the call, unique in the session.
    pub call_id: String,
    /// The model that is asked.
    pub target: String,
    /// The version of the session that was read for it.
    pub read_through: Version,
    /// The number of messages to be replaced, the oldest ones after a leading system message.
    pub messages: u32,
    /// The requested length of the summary, in tokens.
    pub max_tokens: u64,
    /// The digest of what is sent.
    pub digest: Digest,
}
