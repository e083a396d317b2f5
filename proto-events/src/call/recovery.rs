//! Rule R7: what follows for a call whose attempt was lost to a crash, took too long, or failed in passing.
//! The intent says what may be done; nothing else is asked. Who recovers and who explains what recovery would do
//! both ask here.

use super::{Call, CallCommand, CallFailure, CallKind, CallStatus, FailureClass, Recovery};
use crate::envelope::Timestamp;

/// When a process asks, and with which epoch it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The log's epoch: an attempt of an earlier one was made by a process that has ended.
    pub epoch: u64,
    /// The time.
    pub at: Timestamp,
}

/// What follows for a lost call.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// This is written.
    Write(CallCommand),
    /// Its tool is asked whether the attempt took effect; the answer is a [`CallCommand::Reconcile`].
    Probe {
        /// Why nobody knows.
        why: String,
    },
}

/// What is done with an open call by a process that found it in the log: one that was never
/// sent is sent, one whose process has ended or whose time is up is dealt with as its recovery mode says (R7).
/// Nothing, if it is still in flight in this very process, or has its outcome.
pub fn resume(call: &Call, now: Moment) -> Option<Next> {
    match call.status {
        CallStatus::Requested => Some(Next::Write(send(call, now, String::new()))),
        CallStatus::Unsent => Some(Next::Write(again(call, now, "the attempt before had no effect"))),
        CallStatus::TimedOut => Some(after_timeout(call, now)),
        CallStatus::Dispatched if call.epoch < now.epoch => Some(after_crash(call, now)),
        _ => None,
    }
}

/// The call is sent for the first time.
pub fn first_attempt(call_id: String, epoch: u64) -> CallCommand {
    CallCommand::Dispatch { call_id, epoch, delay_ms: 0, cause: String::new() }
}

/// The call was in flight when its process ended.
fn after_crash(call: &Call, now: Moment) -> Next {
    lost(call, now, "the process ended while the call was in flight")
}

/// The attempt took too long: the same row as a crash.
fn after_timeout(call: &Call, now: Moment) -> Next {
    let bound = call.request.timeout_ms;
    lost(call, now, &format!("attempt {} did not end within {bound} ms", call.attempts))
}

/// The attempt was cut off in this process: the same row again.
pub fn after_loss(call: &Call, now: Moment, why: &str) -> Next {
    lost(call, now, why)
}

fn lost(call: &Call, now: Moment, why: &str) -> Next {
    let unknown = |why: String| CallCommand::MarkUnknown { call_id: call.request.call_id.clone(), why };
    Next::Write(match call.request.recovery {
        Recovery::ReadOnly | Recovery::Reissue => again(call, now, why),
        Recovery::Idempotent if within_window(call, now.at) => again(call, now, why),
        Recovery::Idempotent => {
            let window = call.request.window_ms.unwrap_or_default();
            unknown(format!("{why}; the target knows its key for {window} ms only"))
        }
        Recovery::Reconcile => return Next::Probe { why: why.to_owned() },
        Recovery::Manual => unknown(why.to_owned()),
    })
}

/// Whether the target still knows the key of the first attempt.
fn within_window(call: &Call, now: Timestamp) -> bool {
    let (Some(window), Some(first)) = (call.request.window_ms, call.first_sent_at) else { return true };
    now.millis_since(first) < window
}

/// Another attempt, if one is left.
fn again(call: &Call, now: Moment, why: &str) -> CallCommand {
    if call.attempts < call.request.max_attempts {
        return send(call, now, why.to_owned());
    }
    let message = format!("{why}; no attempt of {} is left", call.request.max_attempts);
    end(call, FailureClass::Exhausted, "TimeoutError", message)
}

/// An attempt, unless it is too late for one.
fn send(call: &Call, now: Moment, cause: String) -> CallCommand {
    if call.request.deadline.is_some_and(|deadline| deadline <= now.at) {
        let class = if call.attempts == 0 { FailureClass::BeforeEffect } else { FailureClass::Exhausted };
        let reason = if cause.is_empty() { "it was never sent" } else { &cause };
        return end(call, class, "DeadlineExceeded", format!("the call's deadline has passed; {reason}"));
    }
    CallCommand::Dispatch { call_id: call.request.call_id.clone(), epoch: now.epoch, delay_ms: 0, cause }
}

fn end(call: &Call, class: FailureClass, error_type: &str, message: String) -> CallCommand {
    let failure = CallFailure { class, error_type: error_type.to_owned(), message };
    CallCommand::Fail { call_id: call.request.call_id.clone(), attempt: call.attempts, failure }
}

/// How an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Which attempt.
    pub attempt: u32,
    /// Why.
    pub failure: CallFailure,
    /// Whether the target asks to be tried again.
    pub passing: bool,
    /// After how long, in milliseconds.
    pub delay_ms: u64,
}

/// An attempt failed. A passing failure of an inference is tried again, and an error of a tool whose policy says so,
/// while attempts and time are left.
pub fn after_failure(call: &Call, failed: Failed, now: Moment) -> CallCommand {
    let Failed { attempt, failure, passing, delay_ms } = failed;
    let call_id = call.request.call_id.clone();
    let request = &call.request;
    let wanted = match request.kind {
        CallKind::Infer => passing,
        CallKind::Tool | CallKind::Delegate => {
            request.retry_errors && failure.class != FailureClass::Rejected
        }
    };
    let starts = now.at.plus_millis(delay_ms);
    let again = wanted
        && request.recovery.may_repeat()
        && call.status == CallStatus::Dispatched
        && call.attempts == attempt
        && attempt < request.max_attempts
        && within_window(call, starts)
        && request.deadline.is_none_or(|deadline| starts < deadline);
    if again {
        return CallCommand::Dispatch { call_id, epoch: now.epoch, delay_ms, cause: failure.message };
    }
    CallCommand::Fail { call_id, attempt, failure }
}
