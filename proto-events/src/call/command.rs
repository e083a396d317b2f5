//! Commands about calls, and the reasons to reject them.

use crate::call::outcome::{Answer, CallFailure, TimeLimit, TokenUsage, Verdict, VerdictBy};
use crate::call::request::CallRequested;
use crate::envelope::{Principal, Timestamp};
use crate::json::JsonText;

/// A command about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallCommand {
    /// Record the intent.
    Request(Box<CallRequested>),
    /// Record that the next attempt is about to be sent.
    Dispatch {
        /// The id of the call.
        call_id: String,
        /// The log's epoch.
        epoch: u64,
        /// The reason for another attempt; empty for the first.
        cause: String,
    },
    /// Record the result of an attempt.
    Succeed {
        /// The id of the call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// The result.
        result: JsonText,
        /// The token counts reported by the provider.
        usage: Option<TokenUsage>,
    },
    /// Record that an attempt failed.
    Fail {
        /// The id of the call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// The reason.
        failure: CallFailure,
    },
    /// Record that an attempt failed and when the next one may be sent.
    ScheduleRetry {
        /// The id of the call.
        call_id: String,
        /// The attempt that failed.
        attempt: u32,
        /// The reason.
        failure: CallFailure,
        /// The time before which the next attempt is not sent.
        due: Timestamp,
    },
    /// Record that an attempt timed out.
    TimeOut {
        /// The id of the call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// The time limit that was exceeded, in milliseconds.
        after_ms: u64,
        /// The kind of this limit.
        limit: TimeLimit,
    },
    /// Record that the outcome cannot be known.
    MarkUnknown {
        /// The id of the call.
        call_id: String,
        /// The reason why the outcome is unknown.
        why: String,
    },
    /// Record whether the effect of a lost attempt took place.
    Reconcile {
        /// The id of the call.
        call_id: String,
        /// The verdict.
        verdict: Verdict,
        /// The source of the verdict.
        by: VerdictBy,
    },
    /// Stop the investigation of a call whose outcome is unknown.
    Abandon {
        /// The id of the call.
        call_id: String,
        /// The reason.
        reason: String,
        /// The name of the person who decided this.
        by: Principal,
    },
    /// Record that an attempt ended with a question to a person.
    Ask {
        /// The id of the call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// The question.
        question: String,
    },
    /// Record that another agent took the task that an attempt sent. The same id again adds nothing.
    Accept {
        /// The id of the call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// The id that the other agent gave the task.
        handle: String,
    },
    /// Record a person's answer to the open question. The same answer again adds nothing.
    Answer {
        /// The id of the call.
        call_id: String,
        /// The number of the question, from 1; it may be left out for a call that has asked one question only.
        question: Option<u32>,
        /// The answer.
        answer: Answer,
    },
}

impl CallCommand {
    /// Returns the id of the call.
    pub fn call_id(&self) -> &str {
        match self {
            Self::Request(request) => &request.call_id,
            Self::Dispatch { call_id, .. }
            | Self::Succeed { call_id, .. }
            | Self::Fail { call_id, .. }
            | Self::ScheduleRetry { call_id, .. }
            | Self::TimeOut { call_id, .. }
            | Self::MarkUnknown { call_id, .. }
            | Self::Reconcile { call_id, .. }
            | Self::Abandon { call_id, .. }
            | Self::Ask { call_id, .. }
            | Self::Accept { call_id, .. }
            | Self::Answer { call_id, .. } => call_id,
        }
    }
}

/// The reason why a command about a call is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallRejection {
    /// The stream has no such intent.
    #[error("call `{0}` was never requested in this stream")]
    NotRequested(String),
    /// The id is already used.
    #[error("call `{0}` was already requested; a call id identifies one intent")]
    AlreadyRequested(String),
    /// The call already has an outcome.
    #[error("call `{0}` already has an outcome; it is not sent again")]
    Closed(String),
    /// An attempt is already in flight.
    #[error("call `{0}` is in flight, or timed out and must not be repeated; it is not sent again")]
    InFlight(String),
    /// The call was reconciled before with another verdict, or was abandoned.
    #[error("call `{call_id}` is already settled as {before}; a verdict cannot be changed")]
    Settled {
        /// The id of the call.
        call_id: String,
        /// The name of the earlier verdict.
        before: &'static str,
    },
    /// The call's outcome is not unknown.
    #[error("call `{call_id}` is {status}; a person can settle only a call whose outcome is unknown")]
    NotUnknown {
        /// The id of the call.
        call_id: String,
        /// The name of the call's status.
        status: &'static str,
    },
    /// The intent holds the value of a secret argument.
    #[error(
        "call `{call_id}` has its secret argument `{argument}` in clear; an intent holds a reference to it"
    )]
    SecretInClear {
        /// The id of the call.
        call_id: String,
        /// The name of the argument.
        argument: String,
    },
    /// No attempt of the call waits for another agent, or the attempt that is named is not the last one.
    #[error("call `{call_id}` is {status}; no other agent can take its task")]
    NotAwaited {
        /// The id of the call.
        call_id: String,
        /// The name of the call's status.
        status: &'static str,
    },
    /// The id that another agent gave a task cannot be kept.
    #[error(
        "the id of the task of call `{call_id}` at the other agent has {bytes} bytes; it has 1 to {most}"
    )]
    Handle {
        /// The id of the call.
        call_id: String,
        /// The size of the id.
        bytes: usize,
        /// The largest size.
        most: usize,
    },
    /// The call has no open question.
    #[error("call `{call_id}` is {status}; it has no open question")]
    NotAsked {
        /// The id of the call.
        call_id: String,
        /// The name of the call's status.
        status: &'static str,
    },
    /// The call has asked several questions, and the answer does not name its own.
    #[error(
        "call `{call_id}` has asked {asked} questions; name the one that is answered, the last is `{call_id}:{asked}`"
    )]
    WhichQuestion {
        /// The id of the call.
        call_id: String,
        /// The number of questions.
        asked: u32,
    },
    /// The call has no question of this number.
    #[error("call `{call_id}` has no question {question}; it has asked {asked}")]
    NoSuchQuestion {
        /// The id of the call.
        call_id: String,
        /// The number that was named.
        question: u32,
        /// The number of questions.
        asked: u32,
    },
    /// The question was answered before, in another way.
    #[error("the question of call `{0}` is already answered; an answer cannot be changed")]
    AlreadyAnswered(String),
    /// The call was asked for by another call, which does not allow it.
    #[error("call `{call_id}` cannot be made for call `{parent}`: {why}")]
    OfParent {
        /// The id of the call.
        call_id: String,
        /// The id of the call that asked for it.
        parent: String,
        /// The reason.
        why: &'static str,
    },
    /// The task is over.
    #[error("call `{0}` cannot be requested: the task is over")]
    TaskOver(String),
}
