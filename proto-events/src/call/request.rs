//! The intent of a call: its target and arguments, its recovery mode, and its limits.

use crate::call::price::Price;
use crate::call::prompt::PromptRef;
use crate::envelope::Timestamp;
use crate::json::JsonText;

/// The kind of work that a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A tool, which may change the outside world.
    Tool,
    /// An inference: it changes nothing outside, costs money and is not reproducible.
    Infer,
    /// A request to another agent, which creates a task there.
    Delegate,
    /// The embedder's own code that does the work of a run.
    Handler,
}

/// The recovery mode: how to proceed with a call whose outcome was lost (a crash, a timeout).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// The call changes nothing outside and is repeated.
    ReadOnly,
    /// The tool honours the idempotency key: the call is resent under the same key.
    Idempotent,
    /// The tool's probe is asked whether the effect took place.
    Reconcile,
    /// The call is never repeated: the outcome is unknown until a person decides. The default.
    #[default]
    Manual,
    /// The call is an inference and is retried while attempts are left.
    Reissue,
}

impl Recovery {
    /// Whether a call whose outcome was lost may be resent without a probe and without a person's decision.
    pub const fn may_repeat(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Idempotent | Self::Reissue)
    }

    /// Returns the mode's name in logs and in printed output.
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

/// The place in a run from which a call comes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOrigin {
    /// The number of the run within the task, from 1.
    pub run: u32,
    /// The index of the part of the run's item, from 0.
    pub part: u32,
    /// The step of the infer loop, from 1; 0 for a `tool_call` part itself.
    pub step: u32,
    /// The inference whose reply requested this tool call.
    pub infer_call: Option<String>,
    /// The id in the `tool_call` part, repeated in its output.
    pub part_call_id: Option<String>,
    /// The call in whose middle this one was asked for.
    pub parent: Option<ParentCall>,
}

/// The call of a tool or a handler that asks another agent, and the place of its request among all that it makes.
///
/// The place identifies the request over all attempts of the parent: an attempt that runs again from its beginning meets
/// what an earlier one asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentCall {
    /// The id of the parent, a call of the same stream.
    pub call_id: String,
    /// The number of the call among the calls of the parent, from 1.
    pub ordinal: u32,
}

/// The intent: authorises exactly one logical call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequested {
    /// The call's id, unique in its stream.
    pub call_id: String,
    /// The kind: tool, inference, another agent or handler.
    pub kind: CallKind,
    /// The name of the tool or agent, or backend and model; for a handler the agent itself.
    pub target: String,
    /// The checked arguments of a tool, the parameters of an inference, the task for another agent, or the place of
    /// the message that a handler is given. A retry sends the same bytes (R3).
    pub args: JsonText,
    /// The idempotency key, equal in every attempt (R2).
    pub idempotency_key: String,
    /// The recovery mode, used when the outcome is lost.
    pub recovery: Recovery,
    /// The source of the recovery mode: `tool` for the tool's registration, otherwise for example a trusted
    /// annotation of a server (R4).
    pub recovery_source: String,
    /// The time limit of one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// The longest time between two reports of progress of an attempt, in milliseconds; none if it need not report.
    pub heartbeat_ms: Option<u64>,
    /// The maximum number of attempts, including those lost to crashes (R9).
    pub max_attempts: u32,
    /// Whether an error of the target itself is retried too, if the recovery mode allows it.
    pub retry_errors: bool,
    /// The time after the first attempt for which the target remembers the idempotency key, in milliseconds.
    pub window_ms: Option<u64>,
    /// The deadline: no attempt starts at or after this moment.
    pub deadline: Option<Timestamp>,
    /// The names of the arguments that are secret: `args` holds a reference in place of each value.
    pub secrets: Vec<String>,
    /// The capabilities that the call needs.
    pub capabilities: Vec<String>,
    /// The id of the approval under which the call is made (R11).
    pub approval: Option<String>,
    /// The place in the run from which the call comes.
    pub origin: CallOrigin,
    /// The messages shown to the model, for an inference.
    pub prompt: Option<PromptRef>,
    /// The price of the tokens of all attempts, if the host stated one for the model.
    pub price: Option<Price>,
}

/// The fields that each intent must state; [`CallRequested::new`] fills in the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCall {
    /// The call's id, unique in its stream.
    pub call_id: String,
    /// The kind: tool, inference, another agent or handler.
    pub kind: CallKind,
    /// The name of the tool or agent, or backend and model.
    pub target: String,
    /// The arguments, sent with each attempt.
    pub args: JsonText,
    /// The idempotency key, equal in each attempt.
    pub idempotency_key: String,
    /// The recovery mode, used when the outcome is lost.
    pub recovery: Recovery,
    /// The source of the recovery mode, as in [`CallRequested`].
    pub recovery_source: String,
    /// The time limit of one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// The maximum number of attempts.
    pub max_attempts: u32,
}

impl CallRequested {
    /// Creates an intent. It does not retry the target's own errors,
    /// has no heartbeat, window, deadline, secret, capability, approval, prompt or price, and an empty origin; callers set these fields
    /// afterwards.
    pub fn new(call: NewCall) -> Self {
        let NewCall { call_id, kind, target, args, idempotency_key, .. } = call;
        Self {
            call_id,
            kind,
            target,
            args,
            idempotency_key,
            recovery: call.recovery,
            recovery_source: call.recovery_source,
            timeout_ms: call.timeout_ms,
            heartbeat_ms: None,
            max_attempts: call.max_attempts,
            retry_errors: false,
            window_ms: None,
            deadline: None,
            secrets: Vec::new(),
            capabilities: Vec::new(),
            approval: None,
            origin: CallOrigin::default(),
            prompt: None,
            price: None,
        }
    }
}
