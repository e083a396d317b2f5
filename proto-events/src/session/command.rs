//! Commands to a session, and the reasons to reject them.

use crate::call::TokenUsage;
use crate::id::Version;
use crate::json::JsonText;
use crate::model::CompactionStrategy;
use crate::model::llm_message::LlmMessage;
use crate::session::event::SummaryRequested;
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
    /// Open the session with a system message, unless it has a history.
    Open {
        /// The session id chosen by the caller.
        session_id: String,
        /// The leading system message.
        system_prompt: LlmMessage,
    },
    /// Clear the history.
    Clear,
    /// Remove the oldest messages of the history.
    Compact(Compaction),
    /// Note that a model is about to be asked for a summary. It takes the place of an earlier call that has no outcome.
    RequestSummary(Box<SummaryRequested>),
    /// Note a model's summary, and put it in place of what it sums up unless the history was rewritten meanwhile.
    ReceiveSummary {
        /// The id of the call.
        call_id: String,
        /// The model's reply.
        reply: JsonText,
        /// The token usage, if the provider reports it.
        usage: Option<TokenUsage>,
        /// The summary as a message of the history; `None` if the reply has none.
        summary: Option<LlmMessage>,
        /// The estimated tokens of the history before and after.
        tokens: (u64, u64),
    },
    /// Note that a call for a summary failed.
    FailSummary {
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

/// A compaction without a summary, as it was computed from the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The strategy.
    pub strategy: CompactionStrategy,
    /// The version of the session that was read.
    pub read_through: Version,
    /// The number of messages to remove, the oldest ones after a leading system message.
    pub removed: u32,
    /// The estimated tokens of the history before.
    pub before_tokens: u64,
    /// The estimated tokens of the history after.
    pub after_tokens: u64,
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
    /// The session was never opened.
    #[error("the session does not exist")]
    NotOpened,
    /// The history has fewer messages than are to be removed.
    #[error("{removed} messages cannot be removed: the history has {there} after its system message")]
    TooFewMessages {
        /// The number of messages to be removed.
        removed: u32,
        /// The number of messages after a leading system message.
        there: u32,
    },
    /// A call would be removed without its answer.
    #[error("message {0} of the history answers a call that would be removed; both are kept, or none")]
    PartsCall(u32),
    /// The call for a summary has its outcome, or was never intended.
    #[error("no summary is awaited from the call `{0}`")]
    NoSuchSummary(String),
    /// A tool call has no result yet.
    #[error(transparent)]
    IllFormed(#[from] IllFormed),
}
