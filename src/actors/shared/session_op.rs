//! The operations on a session's history beside its turns: clearing and compacting. The session's actor decides them, or the
//! task that holds the session's turn does: a session has one writer at a time.

use proto_events::call::TokenUsage;
use proto_events::envelope::Committed;
use proto_events::id::StreamId;
use proto_events::json::JsonText;
use proto_events::model::{CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult};
use proto_events::task::command_content;
use tokio::sync::mpsc::UnboundedSender;

use crate::models::backend::InferRequest;

/// An operation on a session's history.
#[derive(Debug, Clone)]
pub(crate) enum SessionOp {
    /// Clear the history.
    Clear,
    /// Compact the history. `opens` says that a session without a history is opened with the agent's system prompt.
    Compact { request: Box<HistoryCompactionRequest>, opens: bool, attempt: u32 },
    /// Note the end of a call for a summary.
    EndSummary { call_id: String, end: SummaryEnd },
}

/// The end of a call for a summary.
#[derive(Debug, Clone)]
pub(crate) enum SummaryEnd {
    Received { reply: JsonText, usage: Option<TokenUsage>, summary: Option<String> },
    Failed { error_type: String, message: String, usage: Option<TokenUsage> },
}

/// The effect of an operation on a session's history.
#[derive(Debug)]
pub(crate) enum SessionEffect {
    /// The task does not hold the session's turn: nothing was decided.
    NotHeld,
    /// The command had its effect before, in the record that ends here.
    Answered(Committed),
    /// The session has no history.
    Missing,
    /// The history was cleared: it had this number of messages.
    Cleared(usize),
    /// The history was compacted, or there was nothing to remove.
    Compacted(HistoryCompactionResult),
    /// A model is to be asked for a summary, now that this is on disk.
    Summarize(Box<SummaryCall>),
    /// The summary was not put in place, for this reason.
    Dropped(String),
    /// The call for a summary failed.
    Failed(String),
}

/// A call for a summary whose intent is on disk.
#[derive(Debug)]
pub(crate) struct SummaryCall {
    pub(crate) call_id: String,
    pub(crate) request: InferRequest,
}

/// An operation that a session's actor has the holder of the turn decide.
#[derive(Debug, Clone)]
pub(crate) struct ForSession {
    pub(crate) session: StreamId,
    pub(crate) op: SessionOp,
    /// The content of the command, where its caller chose its id.
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) tell: UnboundedSender<SessionEffect>,
}

impl SessionOp {
    /// Whether the operation may ask a model for a summary: its first record is the intent of that call, and the caller's
    /// command id stands in the record of the outcome.
    pub(crate) fn may_ask(&self) -> bool {
        matches!(self, Self::Compact { request, .. } if request.strategy == CompactionStrategy::Summary)
    }

    /// Returns the content of the caller's request.
    pub(crate) fn content(&self) -> Vec<u8> {
        match self {
            Self::Clear => command_content("clear history", &[]),
            Self::Compact { request, .. } => {
                command_content("compact history", &[request.to_json().as_str()])
            }
            Self::EndSummary { call_id, .. } => command_content("end summary", &[call_id]),
        }
    }
}
