//! Events of calls: facts, kept in the log.

use crate::call::outcome::{Answer, CallFailure, CancelStage, TimeLimit, TokenUsage, Verdict, VerdictBy};
use crate::call::request::CallRequested;
use crate::envelope::{Principal, Timestamp};
use crate::json::JsonText;

/// An event of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEvent {
    /// The intent.
    Requested(Box<CallRequested>),
    /// An attempt is about to be sent.
    Dispatched {
        /// The id of the call.
        call_id: String,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The log's epoch in which it is sent.
        epoch: u64,
        /// The reason for another attempt; empty for the first.
        cause: String,
    },
    /// The outcome: the call succeeded.
    Succeeded {
        /// The id of the call.
        call_id: String,
        /// The attempt that returned the result.
        attempt: u32,
        /// The result.
        result: JsonText,
        /// The token counts reported by the provider.
        usage: Option<TokenUsage>,
    },
    /// The outcome: the call failed.
    Failed {
        /// The id of the call.
        call_id: String,
        /// The attempt that failed.
        attempt: u32,
        /// The reason.
        failure: CallFailure,
    },
    /// An attempt failed and is followed by another one, which is sent at a later time. Not an outcome.
    RetryScheduled {
        /// The id of the call.
        call_id: String,
        /// The attempt that failed.
        attempt: u32,
        /// The reason.
        failure: CallFailure,
        /// The time before which the next attempt is not sent.
        due: Timestamp,
    },
    /// An attempt timed out. Not an outcome: recovery decides the next step.
    TimedOut {
        /// The id of the call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// The time limit that was exceeded, in milliseconds.
        after_ms: u64,
        /// The kind of this limit.
        limit: TimeLimit,
    },
    /// The outcome: the call was given up because its task was canceled.
    Canceled {
        /// The id of the call.
        call_id: String,
        /// The progress of the call.
        stage: CancelStage,
    },
    /// The outcome: the effect may or may not have taken place, and the call may not be repeated.
    OutcomeUnknown {
        /// The id of the call.
        call_id: String,
        /// The last attempt.
        attempt: u32,
        /// The reason why the outcome is unknown.
        why: String,
    },
    /// A verdict on the effect of a lost attempt. For an open call, an outcome or another attempt follows;
    /// an unknown one is reconciled, unless the verdict is inconclusive; for a canceled one, it is evidence.
    Reconciled {
        /// The id of the call.
        call_id: String,
        /// The attempt that was investigated.
        attempt: u32,
        /// The verdict.
        verdict: Verdict,
        /// The source of the verdict.
        by: VerdictBy,
    },
    /// The investigation of an unknown call was stopped.
    Abandoned {
        /// The id of the call.
        call_id: String,
        /// The reason, as given by the person.
        reason: String,
        /// The name of the person who decided this.
        by: Principal,
    },
    /// An attempt ended with a question to a person: the call waits for the answer, and the next attempt is given it.
    /// The attempt did not fail and does not count.
    Asked {
        /// The id of the call.
        call_id: String,
        /// The attempt that ended.
        attempt: u32,
        /// The question.
        question: String,
    },
    /// Another agent, elsewhere, took the task that an attempt sent. Not an outcome: each later attempt takes that task up
    /// under this id, and sends nothing again.
    Accepted {
        /// The id of the call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// The id that the other agent gave the task.
        handle: String,
    },
    /// A person answered the call's open question, or declined to. The record names the person.
    Answered {
        /// The id of the call.
        call_id: String,
        /// The answer.
        answer: Answer,
    },
    /// A result arrived after the call was closed: kept as evidence, never folded into an outcome (R6).
    LateResultIgnored {
        /// The id of the call.
        call_id: String,
        /// The attempt whose result was late.
        attempt: u32,
        /// Whether the attempt succeeded.
        succeeded: bool,
        /// The result as JSON text or the error's message, its first [`LATE_RESULT_BYTES_MAX`] bytes. Of an
        /// answer of another agent that is longer, all but its `result`.
        ///
        /// [`LATE_RESULT_BYTES_MAX`]: crate::limits::LATE_RESULT_BYTES_MAX
        said: String,
    },
}

impl CallEvent {
    /// Returns the id of the call.
    pub fn call_id(&self) -> &str {
        match self {
            Self::Requested(request) => &request.call_id,
            Self::Dispatched { call_id, .. }
            | Self::Succeeded { call_id, .. }
            | Self::Failed { call_id, .. }
            | Self::RetryScheduled { call_id, .. }
            | Self::TimedOut { call_id, .. }
            | Self::Canceled { call_id, .. }
            | Self::OutcomeUnknown { call_id, .. }
            | Self::Reconciled { call_id, .. }
            | Self::Abandoned { call_id, .. }
            | Self::Asked { call_id, .. }
            | Self::Accepted { call_id, .. }
            | Self::Answered { call_id, .. }
            | Self::LateResultIgnored { call_id, .. } => call_id,
        }
    }
}
