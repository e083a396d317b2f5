//! Calls: what a task owes the outside world. An intent ([`CallRequested`]) is on disk before its first
//! attempt, and at most one outcome closes it. Call events may stand in task and session streams, so this
//! file knows neither. Source of the rules: the contract for side effects, R1 to R7, R14.

use crate::envelope::Timestamp;
use crate::id::{Digest, Version};
use crate::json::JsonText;

mod book;
mod command;
mod event;
pub mod recovery;

pub use book::{Call, CallBook, CallStatus};
pub use command::{CallCommand, CallRejection};
pub use event::CallEvent;

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
