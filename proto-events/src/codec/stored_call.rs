//! Storage structs of call events.

use serde::{Deserialize, Serialize};

use crate::call::event::CallEvent;
use crate::call::outcome::{CallFailure, CancelStage, FailureClass, TimeLimit, TokenUsage, VerdictBy};
use crate::codec::code::CodedEnum;
use crate::codec::error::{CodecError, FieldError};
use crate::codec::kind;
use crate::codec::storable::Payload;
use crate::codec::stored_intent::{RequestedV3, write_requested};
use crate::codec::stored_model::{PrincipalV1, json};
use crate::codec::stored_verdict::{answer_of, read_answer, read_verdict, verdict_of};
use crate::codec::upcast::{first_version, read, write};
use crate::envelope::Timestamp;

#[derive(Serialize, Deserialize)]
struct DispatchedV1 {
    call_id: String,
    attempt: u32,
    epoch: u64,
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
    usage: Option<(u64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct RetryScheduledV1 {
    call_id: String,
    attempt: u32,
    class: u8,
    error_type: String,
    message: String,
    usage: Option<(u64, u64)>,
    due: i64,
}

#[derive(Serialize, Deserialize)]
struct TimedOutV1 {
    call_id: String,
    attempt: u32,
    after_ms: u64,
    limit: u8,
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
    /// The result, or the reason why the verdict is inconclusive.
    says: String,
    /// The operator; `None` for the tool's probe.
    operator: Option<PrincipalV1>,
}

#[derive(Serialize, Deserialize)]
struct AbandonedV1 {
    call_id: String,
    reason: String,
    by: PrincipalV1,
}

#[derive(Serialize, Deserialize)]
struct LateResultV1 {
    call_id: String,
    attempt: u32,
    succeeded: bool,
    said: String,
}

#[derive(Serialize, Deserialize)]
struct AskedV1 {
    call_id: String,
    attempt: u32,
    question: String,
}

#[derive(Serialize, Deserialize)]
struct AcceptedV1 {
    call_id: String,
    attempt: u32,
    handle: String,
}

#[derive(Serialize, Deserialize)]
struct AnsweredV1 {
    call_id: String,
    /// 0 for an answer, 1 for a refusal to answer.
    answer: u8,
    /// The answer, or the reason of the refusal.
    says: String,
}

first_version!(
    DispatchedV1,
    SucceededV1,
    FailedV1,
    RetryScheduledV1,
    TimedOutV1,
    CanceledV1,
    OutcomeUnknownV1,
    ReconciledV1,
    AbandonedV1,
    LateResultV1,
    AskedV1,
    AnsweredV1,
    AcceptedV1
);

pub(super) fn encode(event: &CallEvent) -> Result<Payload, CodecError> {
    match event.clone() {
        CallEvent::Requested(request) => write_requested(*request),
        CallEvent::Dispatched { call_id, attempt, epoch, cause } => {
            write(kind::CALL_DISPATCHED, &DispatchedV1 { call_id, attempt, epoch, cause })
        }
        CallEvent::Succeeded { call_id, attempt, result, usage } => {
            let usage = stored_usage(usage);
            let result = result.as_str().to_owned();
            write(kind::CALL_SUCCEEDED, &SucceededV1 { call_id, attempt, result, usage })
        }
        CallEvent::Failed { call_id, attempt, failure } => {
            let CallFailure { class, error_type, message, usage } = failure;
            let (class, usage) = (class.code(), stored_usage(usage));
            write(kind::CALL_FAILED, &FailedV1 { call_id, attempt, class, error_type, message, usage })
        }
        CallEvent::RetryScheduled { call_id, attempt, failure, due } => {
            let CallFailure { class, error_type, message, usage } = failure;
            let (class, usage, due) = (class.code(), stored_usage(usage), due.0);
            let stored = RetryScheduledV1 { call_id, attempt, class, error_type, message, usage, due };
            write(kind::CALL_RETRY_SCHEDULED, &stored)
        }
        CallEvent::TimedOut { call_id, attempt, after_ms, limit } => {
            write(kind::CALL_TIMED_OUT, &TimedOutV1 { call_id, attempt, after_ms, limit: limit.code() })
        }
        CallEvent::Canceled { call_id, stage } => {
            write(kind::CALL_CANCELED, &CanceledV1 { call_id, stage: stage.code() })
        }
        CallEvent::OutcomeUnknown { call_id, attempt, why } => {
            write(kind::CALL_OUTCOME_UNKNOWN, &OutcomeUnknownV1 { call_id, attempt, why })
        }
        CallEvent::Reconciled { call_id, attempt, verdict, by } => {
            let (verdict, says) = verdict_of(&verdict);
            let operator = match by {
                VerdictBy::Probe => None,
                VerdictBy::Operator(operator) => Some(PrincipalV1::from_principal(operator)),
            };
            write(kind::CALL_RECONCILED, &ReconciledV1 { call_id, attempt, verdict, says, operator })
        }
        CallEvent::Abandoned { call_id, reason, by } => {
            write(kind::CALL_ABANDONED, &AbandonedV1 { call_id, reason, by: PrincipalV1::from_principal(by) })
        }
        CallEvent::Asked { call_id, attempt, question } => {
            write(kind::CALL_ASKED, &AskedV1 { call_id, attempt, question })
        }
        CallEvent::Accepted { call_id, attempt, handle } => {
            write(kind::CALL_ACCEPTED, &AcceptedV1 { call_id, attempt, handle })
        }
        CallEvent::Answered { call_id, answer } => {
            let (answer, says) = answer_of(answer);
            write(kind::CALL_ANSWERED, &AnsweredV1 { call_id, answer, says })
        }
        CallEvent::LateResultIgnored { call_id, attempt, succeeded, said } => {
            write(kind::LATE_RESULT_IGNORED, &LateResultV1 { call_id, attempt, succeeded, said })
        }
    }
}

pub(super) fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<CallEvent, CodecError> {
    let damaged = |error: FieldError| CodecError::Damaged { kind, why: error.to_string() };
    Ok(match kind {
        kind::CALL_REQUESTED => {
            let stored: RequestedV3 = read(kind, schema, body)?;
            CallEvent::Requested(Box::new(stored.read().map_err(damaged)?))
        }
        kind::CALL_DISPATCHED => {
            let DispatchedV1 { call_id, attempt, epoch, cause } = read(kind, schema, body)?;
            CallEvent::Dispatched { call_id, attempt, epoch, cause }
        }
        kind::CALL_SUCCEEDED => {
            let SucceededV1 { call_id, attempt, result, usage } = read(kind, schema, body)?;
            let result = json(&result).map_err(damaged)?;
            CallEvent::Succeeded { call_id, attempt, result, usage: read_usage(usage) }
        }
        kind::CALL_FAILED => {
            let FailedV1 { call_id, attempt, class, error_type, message, usage } = read(kind, schema, body)?;
            let (class, usage) = (FailureClass::of_code(class).map_err(damaged)?, read_usage(usage));
            CallEvent::Failed { call_id, attempt, failure: CallFailure { class, error_type, message, usage } }
        }
        kind::CALL_RETRY_SCHEDULED => {
            let stored: RetryScheduledV1 = read(kind, schema, body)?;
            let RetryScheduledV1 { call_id, attempt, class, error_type, message, usage, due } = stored;
            let (class, usage) = (FailureClass::of_code(class).map_err(damaged)?, read_usage(usage));
            let failure = CallFailure { class, error_type, message, usage };
            CallEvent::RetryScheduled { call_id, attempt, failure, due: Timestamp(due) }
        }
        kind::CALL_TIMED_OUT => {
            let TimedOutV1 { call_id, attempt, after_ms, limit } = read(kind, schema, body)?;
            let limit = TimeLimit::of_code(limit).map_err(damaged)?;
            CallEvent::TimedOut { call_id, attempt, after_ms, limit }
        }
        kind::CALL_CANCELED => {
            let CanceledV1 { call_id, stage } = read(kind, schema, body)?;
            CallEvent::Canceled { call_id, stage: CancelStage::of_code(stage).map_err(damaged)? }
        }
        kind::CALL_OUTCOME_UNKNOWN => {
            let OutcomeUnknownV1 { call_id, attempt, why } = read(kind, schema, body)?;
            CallEvent::OutcomeUnknown { call_id, attempt, why }
        }
        kind::CALL_RECONCILED => {
            let ReconciledV1 { call_id, attempt, verdict, says, operator } = read(kind, schema, body)?;
            let verdict = read_verdict(verdict, says).map_err(damaged)?;
            let operator = operator.map(PrincipalV1::read).transpose().map_err(damaged)?;
            let by = operator.map_or(VerdictBy::Probe, VerdictBy::Operator);
            CallEvent::Reconciled { call_id, attempt, verdict, by }
        }
        kind::CALL_ABANDONED => {
            let AbandonedV1 { call_id, reason, by } = read(kind, schema, body)?;
            CallEvent::Abandoned { call_id, reason, by: by.read().map_err(damaged)? }
        }
        kind::CALL_ASKED => {
            let AskedV1 { call_id, attempt, question } = read(kind, schema, body)?;
            CallEvent::Asked { call_id, attempt, question }
        }
        kind::CALL_ACCEPTED => {
            let AcceptedV1 { call_id, attempt, handle } = read(kind, schema, body)?;
            CallEvent::Accepted { call_id, attempt, handle }
        }
        kind::CALL_ANSWERED => {
            let AnsweredV1 { call_id, answer, says } = read(kind, schema, body)?;
            CallEvent::Answered { call_id, answer: read_answer(answer, says).map_err(damaged)? }
        }
        kind::LATE_RESULT_IGNORED => {
            let LateResultV1 { call_id, attempt, succeeded, said } = read(kind, schema, body)?;
            CallEvent::LateResultIgnored { call_id, attempt, succeeded, said }
        }
        _ => return Err(CodecError::UnknownKind { kind, category: "call" }),
    })
}

fn stored_usage(usage: Option<TokenUsage>) -> Option<(u64, u64)> {
    usage.map(|usage| (usage.input_tokens, usage.output_tokens))
}

fn read_usage(stored: Option<(u64, u64)>) -> Option<TokenUsage> {
    stored.map(|(input_tokens, output_tokens)| TokenUsage { input_tokens, output_tokens })
}
