//! Calls: what a task owes the outside world. An intent ([`CallRequested`]) is on disk before its first
//! attempt, and at most one outcome closes it. Call events may stand in task and session streams, so this
//! file knows neither. Source of the rules: the contract for side effects, R1 to R7, R14.

use crate::envelope::Timestamp;
use crate::id::{Digest, Version};
use crate::json::JsonText;

mod book;
pub mod recovery;

pub use book::{Call, CallBook, CallStatus};

/// What kind of work a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A tool, which may change the world outside.
    Tool,
    /// An inference: changes nothing outside, costs money, is not reproducible.
    Infer,
    /// Another agent, which is given a task of its own.
    Delegate,
}

/// What may be done with a call whose outcome was lost (a crash, a timeout).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// Changes nothing outside: run it again.
    ReadOnly,
    /// The tool honours the idempotency key: send it again under the same key.
    Idempotent,
    /// The tool can be asked whether the effect landed.
    Reconcile,
    /// Never repeat it: the outcome is unknown until a person decides. The default.
    #[default]
    Manual,
    /// An inference: ask again while attempts are left.
    Reissue,
}

impl Recovery {
    /// Whether a call may be sent again without asking anyone, when its outcome was lost.
    pub const fn may_repeat(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Idempotent | Self::Reissue)
    }

    /// The word for it in logs and on screens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Idempotent => "idempotent",
            Self::Reconcile => "reconcile",
            Self::Manual => "manual",
            Self::Reissue => "reissue",
        }
    }
}

/// Where in a run a call comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOrigin {
    /// Which run of the task: the first is 1.
    pub run: u32,
    /// Which part of the item that the run executes, from 0.
    pub part: u32,
    /// Which step of the infer loop, from 1; 0 for a `tool_call` part itself.
    pub step: u32,
    /// The inference whose reply asked for this tool call.
    pub infer_call: Option<String>,
    /// The id that the `tool_call` part carries, given back in its output.
    pub part_call_id: Option<String>,
}

/// What an inference was shown, named rather than copied (R13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptRef {
    /// The session stream whose history was read; none where the agent keeps no conversation.
    pub session: Option<String>,
    /// The version up to which it was read.
    pub read_to: Version,
    /// How many messages were sent.
    pub messages: u32,
    /// Running digest over the messages sent.
    pub digest: Digest,
    /// Version of the code that renders prompts.
    pub renderer: u16,
    /// Digest of the tool list that was offered.
    pub tools: Digest,
}

/// The intent: authorises exactly one logical call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequested {
    /// Unique in its stream.
    pub call_id: String,
    /// Tool, inference or another agent.
    pub kind: CallKind,
    /// The name of the tool or agent, or backend and model.
    pub target: String,
    /// A tool's checked arguments, an inference's parameters, or the task for another agent. A retry sends these bytes
    /// again (R3).
    pub args: JsonText,
    /// SHA-256 of the text of `args`.
    pub args_digest: Digest,
    /// The same for every attempt (R2).
    pub idempotency_key: String,
    /// What may be done when the outcome is lost.
    pub recovery: Recovery,
    /// Who said so: `tool` for its registration, else for example a server's annotation that is trusted (R4).
    pub recovery_source: String,
    /// Longest attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Most attempts, crashes included (R9).
    pub max_attempts: u32,
    /// Whether an error of the target itself is tried again too, where the mode allows it.
    pub retry_errors: bool,
    /// How long after the first attempt the target still knows the idempotency key, in milliseconds.
    pub window_ms: Option<u64>,
    /// No attempt starts after this moment.
    pub deadline: Option<Timestamp>,
    /// What the call needs to be allowed to do.
    pub capabilities: Vec<String>,
    /// The approval under which it is made (R11).
    pub approval: Option<String>,
    /// Where it comes from.
    pub origin: CallOrigin,
    /// What an inference was shown.
    pub prompt: Option<PromptRef>,
}

/// At which point a failed call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// Certainly before any effect.
    BeforeEffect,
    /// The target ran and said no, or broke.
    AfterEffect,
    /// The target refused the arguments.
    Rejected,
    /// No attempt is left.
    Exhausted,
}

impl FailureClass {
    /// The word for it in logs and on screens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeEffect => "before-effect",
            Self::AfterEffect => "after-effect",
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
        }
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// At which point.
    pub class: FailureClass,
    /// The error's type name, which stands in where its message is empty.
    pub error_type: String,
    /// The error's own text.
    pub message: String,
}

/// What was found out about a call that may have had its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The effect took place; this is what the call would have answered.
    Landed(JsonText),
    /// It did not, and will not.
    DidNotHappen,
    /// Nobody can say, and why.
    Inconclusive(String),
}

impl Verdict {
    /// The word for it in logs and on screens.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Landed(_) => "landed",
            Self::DidNotHappen => "did-not-happen",
            Self::Inconclusive(_) => "inconclusive",
        }
    }
}

/// Who found it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictBy {
    /// The tool's own probe.
    Probe,
    /// A person, by name as far as it is known.
    Operator(String),
}

/// Tokens that a provider reports for one inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

/// How far a canceled call had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelStage {
    /// It had not been sent.
    Requested,
    /// It was in flight; its effect may have landed.
    InFlight,
}

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
