//! Storage structs of call events.

use serde::{Deserialize, Serialize};

use super::stored_model::{code, coded, json};
use super::upcast::{Schema, first_version, read, write};
use super::{CodecError, FieldError, Payload, kind};
use crate::call::{
    CallEvent, CallFailure, CallKind, CallOrigin, CallRequested, CancelStage, FailureClass, PromptRef,
    Recovery, TokenUsage, Verdict, VerdictBy,
};
use crate::envelope::Timestamp;
use crate::id::{Digest, Version};

/// New ones are added at the end: the place is what is stored.
const CALL_KINDS: [CallKind; 3] = [CallKind::Tool, CallKind::Infer, CallKind::Delegate];
const RECOVERIES: [Recovery; 5] =
    [Recovery::ReadOnly, Recovery::Idempotent, Recovery::Reconcile, Recovery::Manual, Recovery::Reissue];
const CLASSES: [FailureClass; 4] =
    [FailureClass::BeforeEffect, FailureClass::AfterEffect, FailureClass::Rejected, FailureClass::Exhausted];
const STAGES: [CancelStage; 2] = [CancelStage::Requested, CancelStage::InFlight];

#[derive(Serialize, Deserialize)]
pub(super) struct RequestedV1 {
    call_id: String,
    kind: u8,
    target: String,
    args: String,
    args_digest: [u8; 32],
    idempotency_key: String,
    recovery: u8,
    timeout_ms: u64,
    max_attempts: u32,
    run: u32,
    part: u32,
    step: u32,
    infer_call: Option<String>,
    part_call_id: Option<String>,
    prompt: Option<PromptV1>,
}

/// Version 2 tells who said what may be repeated, how errors are tried again, until when, and under which approval.
#[derive(Serialize, Deserialize)]
pub(super) struct RequestedV2 {
    first: RequestedV1,
    recovery_source: String,
    retry_errors: bool,
    window_ms: Option<u64>,
    deadline: Option<i64>,
    capabilities: Vec<String>,
    approval: Option<String>,
}

impl Schema<'_> for RequestedV2 {
    const VERSION: u8 = 2;
    type Previous = RequestedV1;

    /// Before there was a choice, the tool's registration said it, and only a model's passing failures were tried again.
    fn upcast(first: RequestedV1) -> Self {
        Self {
            first,
            recovery_source: "tool".to_owned(),
            retry_errors: false,
            window_ms: None,
            deadline: None,
            capabilities: Vec::new(),
            approval: None,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct PromptV1 {
    session: Option<String>,
    read_to: u64,
    messages: u32,
    digest: [u8; 32],
    renderer: u16,
    tools: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct DispatchedV1 {
    call_id: String,
    attempt: u32,
    epoch: u64,
    delay_ms: u64,
    cause: String,
}

#[derive(Serialize, Deserialize)]
struct SucceededV1 {
    call_id: String,
    attempt: u32,
    result: String,
    usage: Option<(u64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct FailedV1 {
    call_id: String,
    attempt: u32,
    class: u8,
    error_type: String,
    message: String,
}

#[derive(Serialize, Deserialize)]
struct TimedOutV1 {
    call_id: String,
    attempt: u32,
    after_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct CanceledV1 {
    call_id: String,
    stage: u8,
}

#[derive(Serialize, Deserialize)]
struct OutcomeUnknownV1 {
    call_id: String,
    attempt: u32,
    why: String,
}

#[derive(Serialize, Deserialize)]
struct ReconciledV1 {
    call_id: String,
    attempt: u32,
    verdict: u8,
    /// The result, or why nobody can say.
    says: String,
    /// The operator's name; none for the tool's probe.
    operator: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct AbandonedV1 {
    call_id: String,
    reason: String,
    by: String,
}

#[derive(Serialize, Deserialize)]
struct LateResultV1 {
    call_id: String,
    attempt: u32,
    succeeded: bool,
    digest: [u8; 32],
}

first_version!(
    RequestedV1,
    DispatchedV1,
    SucceededV1,
    FailedV1,
    TimedOutV1,
    CanceledV1,
    OutcomeUnknownV1,
    ReconciledV1,
    AbandonedV1,
    LateResultV1
);

pub(super) fn encode(event: &CallEvent) -> Result<Payload, CodecError> {
    match event.clone() {
        CallEvent::Requested(request) => write(kind::CALL_REQUESTED, &RequestedV2::of(*request)),
        CallEvent::Dispatched { call_id, attempt, epoch, delay_ms, cause } => {
            write(kind::CALL_DISPATCHED, &DispatchedV1 { call_id, attempt, epoch, delay_ms, cause })
        }
        CallEvent::Succeeded { call_id, attempt, result, usage } => {
            let usage = usage.map(|usage| (usage.input_tokens, usage.output_tokens));
            let result = result.as_str().to_owned();
            write(kind::CALL_SUCCEEDED, &SucceededV1 { call_id, attempt, result, usage })
        }
        CallEvent::Failed { call_id, attempt, failure } => {
            let CallFailure { class, error_type, message } = failure;
            let class = code(&CLASSES, &class);
            write(kind::CALL_FAILED, &FailedV1 { call_id, attempt, class, error_type, message })
        }
        CallEvent::TimedOut { call_id, attempt, after_ms } => {
            write(kind::CALL_TIMED_OUT, &TimedOutV1 { call_id, attempt, after_ms })
        }
        CallEvent::Canceled { call_id, stage } => {
            write(kind::CALL_CANCELED, &CanceledV1 { call_id, stage: code(&STAGES, &stage) })
        }
        CallEvent::OutcomeUnknown { call_id, attempt, why } => {
            write(kind::CALL_OUTCOME_UNKNOWN, &OutcomeUnknownV1 { call_id, attempt, why })
        }
        CallEvent::Reconciled { call_id, attempt, verdict, by } => {
            let (verdict, says) = verdict_of(&verdict);
            let operator = match by {
                VerdictBy::Probe => None,
                VerdictBy::Operator(name) => Some(name),
            };
            write(kind::CALL_RECONCILED, &ReconciledV1 { call_id, attempt, verdict, says, operator })
        }
        CallEvent::Abandoned { call_id, reason, by } => {
            write(kind::CALL_ABANDONED, &AbandonedV1 { call_id, reason, by })
        }
        CallEvent::LateResultIgnored { call_id, attempt, succeeded, digest } => {
            let digest = digest.0;
            write(kind::LATE_RESULT_IGNORED, &LateResultV1 { call_id, attempt, succeeded, digest })
        }
    }
}

pub(super) fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<CallEvent, CodecError> {
    let damaged = |error: FieldError| CodecError::Damaged { kind, why: error.to_string() };
    Ok(match kind {
        kind::CALL_REQUESTED => {
            let stored: RequestedV2 = read(kind, schema, body)?;
            CallEvent::Requested(Box::new(stored.read().map_err(damaged)?))
        }
        kind::CALL_DISPATCHED => {
            let DispatchedV1 { call_id, attempt, epoch, delay_ms, cause } = read(kind, schema, body)?;
            CallEvent::Dispatched { call_id, attempt, epoch, delay_ms, cause }
        }
        kind::CALL_SUCCEEDED => {
            let SucceededV1 { call_id, attempt, result, usage } = read(kind, schema, body)?;
            let usage = usage.map(|(input_tokens, output_tokens)| TokenUsage { input_tokens, output_tokens });
            CallEvent::Succeeded { call_id, attempt, result: json(&result).map_err(damaged)?, usage }
        }
        kind::CALL_FAILED => {
            let FailedV1 { call_id, attempt, class, error_type, message } = read(kind, schema, body)?;
            let class = coded(&CLASSES, class).map_err(damaged)?;
            CallEvent::Failed { call_id, attempt, failure: CallFailure { class, error_type, message } }
        }
        kind::CALL_TIMED_OUT => {
            let TimedOutV1 { call_id, attempt, after_ms } = read(kind, schema, body)?;
            CallEvent::TimedOut { call_id, attempt, after_ms }
        }
        kind::CALL_CANCELED => {
            let CanceledV1 { call_id, stage } = read(kind, schema, body)?;
            CallEvent::Canceled { call_id, stage: coded(&STAGES, stage).map_err(damaged)? }
        }
        kind::CALL_OUTCOME_UNKNOWN => {
            let OutcomeUnknownV1 { call_id, attempt, why } = read(kind, schema, body)?;
            CallEvent::OutcomeUnknown { call_id, attempt, why }
        }
        kind::CALL_RECONCILED => {
            let ReconciledV1 { call_id, attempt, verdict, says, operator } = read(kind, schema, body)?;
            let verdict = read_verdict(verdict, says).map_err(damaged)?;
            let by = operator.map_or(VerdictBy::Probe, VerdictBy::Operator);
            CallEvent::Reconciled { call_id, attempt, verdict, by }
        }
        kind::CALL_ABANDONED => {
            let AbandonedV1 { call_id, reason, by } = read(kind, schema, body)?;
            CallEvent::Abandoned { call_id, reason, by }
        }
        kind::LATE_RESULT_IGNORED => {
            let LateResultV1 { call_id, attempt, succeeded, digest } = read(kind, schema, body)?;
            CallEvent::LateResultIgnored { call_id, attempt, succeeded, digest: Digest(digest) }
        }
        _ => {
            return Err(CodecError::UnknownKind { kind, category: "call" });
        }
    })
}

/// A failure as a snapshot keeps it: class, type and message.
pub(super) fn failure_of(failure: &CallFailure) -> (u8, String, String) {
    let CallFailure { class, error_type, message } = failure;
    (code(&CLASSES, class), error_type.clone(), message.clone())
}

pub(super) fn read_failure(
    (class, error_type, message): (u8, String, String),
) -> Result<CallFailure, FieldError> {
    Ok(CallFailure { class: coded(&CLASSES, class)?, error_type, message })
}

/// A verdict as events and snapshots keep it.
pub(super) fn verdict_of(verdict: &Verdict) -> (u8, String) {
    match verdict {
        Verdict::Landed(result) => (0, result.as_str().to_owned()),
        Verdict::DidNotHappen => (1, String::new()),
        Verdict::Inconclusive(why) => (2, why.clone()),
    }
}

pub(super) fn read_verdict(code: u8, says: String) -> Result<Verdict, FieldError> {
    match code {
        0 => Ok(Verdict::Landed(json(&says)?)),
        1 => Ok(Verdict::DidNotHappen),
        2 => Ok(Verdict::Inconclusive(says)),
        other => Err(FieldError::Code(other)),
    }
}

impl RequestedV2 {
    pub(super) fn of(mut request: CallRequested) -> Self {
        Self {
            recovery_source: std::mem::take(&mut request.recovery_source),
            retry_errors: request.retry_errors,
            window_ms: request.window_ms,
            deadline: request.deadline.map(|deadline| deadline.0),
            capabilities: std::mem::take(&mut request.capabilities),
            approval: request.approval.take(),
            first: RequestedV1::of(request),
        }
    }

    pub(super) fn read(self) -> Result<CallRequested, FieldError> {
        let mut request = self.first.read()?;
        request.recovery_source = self.recovery_source;
        request.retry_errors = self.retry_errors;
        request.window_ms = self.window_ms;
        request.deadline = self.deadline.map(Timestamp);
        request.capabilities = self.capabilities;
        request.approval = self.approval;
        Ok(request)
    }
}

impl RequestedV1 {
    fn of(request: CallRequested) -> Self {
        Self {
            call_id: request.call_id,
            kind: code(&CALL_KINDS, &request.kind),
            target: request.target,
            args: request.args.as_str().to_owned(),
            args_digest: request.args_digest.0,
            idempotency_key: request.idempotency_key,
            recovery: code(&RECOVERIES, &request.recovery),
            timeout_ms: request.timeout_ms,
            max_attempts: request.max_attempts,
            run: request.origin.run,
            part: request.origin.part,
            step: request.origin.step,
            infer_call: request.origin.infer_call,
            part_call_id: request.origin.part_call_id,
            prompt: request.prompt.map(PromptV1::of),
        }
    }

    fn read(self) -> Result<CallRequested, FieldError> {
        Ok(CallRequested {
            call_id: self.call_id,
            kind: coded(&CALL_KINDS, self.kind)?,
            target: self.target,
            args: json(&self.args)?,
            args_digest: Digest(self.args_digest),
            idempotency_key: self.idempotency_key,
            recovery: coded(&RECOVERIES, self.recovery)?,
            recovery_source: String::new(),
            timeout_ms: self.timeout_ms,
            max_attempts: self.max_attempts,
            retry_errors: false,
            window_ms: None,
            deadline: None,
            capabilities: Vec::new(),
            approval: None,
            origin: CallOrigin {
                run: self.run,
                part: self.part,
                step: self.step,
                infer_call: self.infer_call,
                part_call_id: self.part_call_id,
            },
            prompt: self.prompt.map(PromptV1::read),
        })
    }
}

impl PromptV1 {
    fn of(prompt: PromptRef) -> Self {
        let PromptRef { session, read_to, messages, digest, renderer, tools } = prompt;
        Self { session, read_to: read_to.0, messages, digest: digest.0, renderer, tools: tools.0 }
    }

    fn read(self) -> PromptRef {
        let Self { session, read_to, messages, digest, renderer, tools } = self;
        PromptRef {
            session,
            read_to: Version(read_to),
            messages,
            digest: Digest(digest),
            renderer,
            tools: Digest(tools),
        }
    }
}
