//! What may be wished of calls, and why it is refused.

use super::{CallFailure, CallRequested, TokenUsage, Verdict, VerdictBy};
use crate::json::JsonText;

/// What may be wished of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallCommand {
    /// Write the intent.
    Request(Box<CallRequested>),
    /// Write that the next attempt is about to be sent.
    Dispatch {
        /// The call.
        call_id: String,
        /// The log's epoch.
        epoch: u64,
        /// Back-off before it is sent, in milliseconds.
        delay_ms: u64,
        /// Why this attempt follows another; empty for the first.
        cause: String,
    },
    /// Record what an attempt answered.
    Succeed {
        /// The call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// What it answered.
        result: JsonText,
        /// What the provider counted.
        usage: Option<TokenUsage>,
    },
    /// Record that an attempt failed.
    Fail {
        /// The call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// Why.
        failure: CallFailure,
    },
    /// Record that an attempt took too long.
    TimeOut {
        /// The call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// Its bound, in milliseconds.
        after_ms: u64,
    },
    /// Record that the outcome cannot be known.
    MarkUnknown {
        /// The call.
        call_id: String,
        /// What made it unknown.
        why: String,
    },
    /// Record whether the effect of a lost attempt landed.
    Reconcile {
        /// The call.
        call_id: String,
        /// What was found.
        verdict: Verdict,
        /// By whom.
        by: VerdictBy,
    },
    /// Record that nobody looks any further.
    Abandon {
        /// The call.
        call_id: String,
        /// Why.
        reason: String,
        /// Who decided it.
        by: String,
    },
}

impl CallCommand {
    /// The call it is about.
    pub fn call_id(&self) -> &str {
        match self {
            Self::Request(request) => &request.call_id,
            Self::Dispatch { call_id, .. }
            | Self::Succeed { call_id, .. }
            | Self::Fail { call_id, .. }
            | Self::TimeOut { call_id, .. }
            | Self::MarkUnknown { call_id, .. }
            | Self::Reconcile { call_id, .. }
            | Self::Abandon { call_id, .. } => call_id,
        }
    }
}

/// Why a command about a call is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallRejection {
    /// No such intent in this stream.
    #[error("call `{0}` was never requested in this stream")]
    NotRequested(String),
    /// The id has been used.
    #[error("call `{0}` was requested before; a call id names one intent")]
    AlreadyRequested(String),
    /// An outcome is there already.
    #[error("call `{0}` has its outcome; it is not sent again")]
    Closed(String),
    /// An attempt is in flight already.
    #[error("call `{0}` is in flight, or was and may not be repeated; it is not sent again")]
    InFlight(String),
    /// It was looked into before, with another verdict.
    #[error("call `{call_id}` was settled before: {before}; what is found once is not changed")]
    Settled {
        /// The call.
        call_id: String,
        /// The word for what was found.
        before: &'static str,
    },
    /// Nobody needs to look into it.
    #[error("call `{call_id}` is {status}; only a call whose outcome is unknown is settled by a person")]
    NotUnknown {
        /// The call.
        call_id: String,
        /// What is known of it.
        status: &'static str,
    },
    /// The task is over.
    #[error("call `{0}` cannot be requested: the task is over")]
    TaskOver(String),
}
