//! Rule R7: what follows for a call whose attempt was lost to a crash, took too long, or failed in passing.
//! The intent says what may be done; nothing else is asked. Who recovers and who explains what recovery would do
//! both ask here.

use super::{Call, CallCommand, CallFailure, CallKind, CallStatus, FailureClass, Recovery};

/// What is done with an open call by a process that found it in the log and writes with this epoch: one that was never
/// sent is sent, one whose process has ended or whose time is up is dealt with as its recovery mode says (R7).
/// Nothing, if it is still in flight in this very process, or has its outcome.
pub fn resume(call: &Call, epoch: u64) -> Option<CallCommand> {
    match call.status {
        CallStatus::Requested => Some(first_attempt(call.request.call_id.clone(), epoch)),
        CallStatus::TimedOut => Some(after_timeout(call, epoch)),
        CallStatus::Dispatched if call.epoch < epoch => Some(after_crash(call, epoch)),
        _ => None,
    }
}

/// The call is sent for the first time.
pub fn first_attempt(call_id: String, epoch: u64) -> CallCommand {
    CallCommand::Dispatch { call_id, epoch, delay_ms: 0, cause: String::new() }
}

/// The call was in flight when its process ended.
fn after_crash(call: &Call, epoch: u64) -> CallCommand {
    lost(call, epoch, "the process ended while the call was in flight")
}

/// The attempt took too long: the same row as a crash.
fn after_timeout(call: &Call, epoch: u64) -> CallCommand {
    let bound = call.request.timeout_ms;
    lost(call, epoch, &format!("attempt {} did not end within {bound} ms", call.attempts))
}

/// The attempt was cut off in this process: the same row again.
pub fn after_loss(call: &Call, epoch: u64, why: &str) -> CallCommand {
    lost(call, epoch, why)
}

fn lost(call: &Call, epoch: u64, why: &str) -> CallCommand {
    let call_id = call.request.call_id.clone();
    match call.request.recovery {
        Recovery::ReadOnly | Recovery::Idempotent | Recovery::Reissue => {
            if call.attempts < call.request.max_attempts {
                return CallCommand::Dispatch { call_id, epoch, delay_ms: 0, cause: why.to_owned() };
            }
            let message = format!("{why}; no attempt of {} is left", call.request.max_attempts);
            let failure = CallFailure {
                class: FailureClass::Exhausted,
                error_type: "TimeoutError".to_owned(),
                message,
            };
            CallCommand::Fail { call_id, attempt: call.attempts, failure }
        }
        // Without a probe nobody can ask the target, so Reconcile is as careful as Manual.
        Recovery::Reconcile | Recovery::Manual => CallCommand::MarkUnknown { call_id, why: why.to_owned() },
    }
}

/// An attempt failed. A passing failure of an inference is tried again while attempts are left.
pub fn after_failure(
    call: &Call,
    attempt: u32,
    failure: CallFailure,
    passing: bool,
    delay_ms: u64,
    epoch: u64,
) -> CallCommand {
    let call_id = call.request.call_id.clone();
    let again = passing
        && call.request.kind == CallKind::Infer
        && call.status == CallStatus::Dispatched
        && call.attempts == attempt
        && attempt < call.request.max_attempts;
    if again {
        return CallCommand::Dispatch { call_id, epoch, delay_ms, cause: failure.message };
    }
    CallCommand::Fail { call_id, attempt, failure }
}
