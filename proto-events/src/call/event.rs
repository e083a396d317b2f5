//! What happens to calls: facts, which the log keeps.

use super::{CallFailure, CallRequested, CancelStage, TokenUsage, Verdict, VerdictBy};
use crate::id::Digest;
use crate::json::JsonText;

/// What happens to calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEvent {
    /// The intent.
    Requested(Box<CallRequested>),
    /// One attempt is about to be sent.
    Dispatched {
        /// The call.
        call_id: String,
        /// From 1.
        attempt: u32,
        /// The log's epoch in which it is sent.
        epoch: u64,
        /// Back-off before it is sent, in milliseconds.
        delay_ms: u64,
        /// Why this attempt follows another; empty for the first.
        cause: String,
    },
    /// The outcome: it worked.
    Succeeded {
        /// The call.
        call_id: String,
        /// The attempt that answered.
        attempt: u32,
        /// What it answered.
        result: JsonText,
        /// What the provider counted.
        usage: Option<TokenUsage>,
    },
    /// The outcome: it did not work.
    Failed {
        /// The call.
        call_id: String,
        /// The attempt that failed.
        attempt: u32,
        /// Why.
        failure: CallFailure,
    },
    /// An attempt took too long. Not an outcome: recovery decides what follows.
    TimedOut {
        /// The call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// Its bound, in milliseconds.
        after_ms: u64,
    },
    /// The outcome: given up because its task was canceled.
    Canceled {
        /// The call.
        call_id: String,
        /// How far it had come.
        stage: CancelStage,
    },
    /// The outcome: nobody can say whether the effect landed, and it may not be repeated.
    OutcomeUnknown {
        /// The call.
        call_id: String,
        /// The last attempt.
        attempt: u32,
        /// What made it unknown.
        why: String,
    },
    /// Somebody looked whether the effect of a lost attempt landed. Of an open call it is followed by an outcome or
    /// another attempt; of one that was unknown it says what became of it; of a canceled one it is evidence.
    Reconciled {
        /// The call.
        call_id: String,
        /// The attempt that was asked about.
        attempt: u32,
        /// What was found.
        verdict: Verdict,
        /// By whom.
        by: VerdictBy,
    },
    /// Nobody looks any further whether an unknown call took effect.
    Abandoned {
        /// The call.
        call_id: String,
        /// Why, in their words.
        reason: String,
        /// Who decided it.
        by: String,
    },
    /// A result came after the call was closed: kept as evidence, never folded into an outcome (R6).
    LateResultIgnored {
        /// The call.
        call_id: String,
        /// The attempt that answered late.
        attempt: u32,
        /// Whether it had worked.
        succeeded: bool,
        /// SHA-256 of its result or error text.
        digest: Digest,
    },
}

impl CallEvent {
    /// The call it is about.
    pub fn call_id(&self) -> &str {
        match self {
            Self::Requested(request) => &request.call_id,
            Self::Dispatched { call_id, .. }
            | Self::Succeeded { call_id, .. }
            | Self::Failed { call_id, .. }
            | Self::TimedOut { call_id, .. }
            | Self::Canceled { call_id, .. }
            | Self::OutcomeUnknown { call_id, .. }
            | Self::Reconciled { call_id, .. }
            | Self::Abandoned { call_id, .. }
            | Self::LateResultIgnored { call_id, .. } => call_id,
        }
    }
}
