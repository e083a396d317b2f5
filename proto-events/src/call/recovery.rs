//! Rule R7: the next step for a call whose attempt was lost to a crash, timed out, or failed transiently.
//! The intent alone states what is permitted. Recovery and the explanation of recovery use the same
//! functions.

use std::time::Duration;

use crate::call::command::CallCommand;
use crate::call::fold::Call;
use crate::call::outcome::{CallFailure, FailureClass, TimeLimit};
use crate::call::request::{CallKind, Recovery};
use crate::call::status::CallStatus;
use crate::envelope::Timestamp;

/// The moment of a recovery: the epoch of the deciding process and the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The log's epoch; the process that made an attempt of an earlier one has ended.
    pub epoch: u64,
    /// The time.
    pub at: Timestamp,
    /// The time by which deadlines are judged: that of a clock which was not corrected since they were set, as far as the
    /// deciding process knows; otherwise the same as `at`.
    pub steady: Timestamp,
}

impl Moment {
    /// Returns a moment at which the clock is not known to have been corrected.
    pub const fn new(epoch: u64, at: Timestamp) -> Self {
        Self { epoch, at, steady: at }
    }

    /// Returns the later one of the two times: a target forgets meanwhile, whichever of them is right.
    fn latest(self) -> Timestamp {
        self.at.max(self.steady)
    }
}

/// The next step for a lost call.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Record this command.
    Write(CallCommand),
    /// Wait until the scheduled retry is due, then follow [`retry`].
    Wait {
        /// The time before which the retry is not sent.
        until: Timestamp,
        /// The whole back-off: a clock that was set back does not make it longer.
        longest: Duration,
    },
    /// Ask the tool whether the attempt took effect; the reply becomes a [`CallCommand::Reconcile`].
    Probe {
        /// The reason why the outcome is unknown.
        why: String,
    },
}

/// Returns the next step for an open call found in the log (R7): a call that was never sent is sent; one
/// whose process has ended or whose time is up follows its recovery mode; one whose question is answered is sent with
/// the answer, whatever its mode, since the attempt said itself that it stops there. `None` if the call is in flight in
/// this process, waits for an answer, or has an outcome.
pub fn resume(call: &Call, now: Moment) -> Option<Next> {
    match call.status {
        CallStatus::Requested => Some(Next::Write(send(call, now, String::new()))),
        CallStatus::Unsent => Some(Next::Write(again(call, now, "the previous attempt had no effect"))),
        CallStatus::TimedOut => Some(after_timeout(call, now)),
        CallStatus::RetryScheduled(until, _) => {
            let longest = call.failed_at.map_or(Duration::ZERO, |failed| until.since(failed));
            Some(Next::Wait { until, longest })
        }
        CallStatus::Answered => Some(Next::Write(retry(call, now))),
        CallStatus::Dispatched if call.epoch < now.epoch => Some(after_crash(call, now)),
        _ => None,
    }
}

/// Sends the call for the first time.
pub fn first_attempt(call_id: String, epoch: u64) -> CallCommand {
    CallCommand::Dispatch { call_id, epoch, cause: String::new() }
}

/// Sends the next attempt of a call whose scheduled retry is due, or whose question is answered. The target may have forgotten the key, or the deadline
/// passed, while no process ran.
pub fn retry(call: &Call, now: Moment) -> CallCommand {
    let why = match &call.status {
        CallStatus::RetryScheduled(_, why) => why.clone(),
        CallStatus::Answered => "its question was answered".to_owned(),
        _ => String::new(),
    };
    if within_window(call, now.latest()) {
        return send(call, now, why);
    }
    let window = call.request.window_ms.unwrap_or_default();
    let message = format!("{why}; it is not repeated: the target remembers the key for only {window} ms");
    fail(call, FailureClass::Exhausted, "WindowExpired", message)
}

/// Returns the next step after the process ended with the call in flight.
fn after_crash(call: &Call, now: Moment) -> Next {
    lost(call, now, "the process ended while the call was in flight")
}

/// Returns the next step after a timeout: the same as after a crash.
fn after_timeout(call: &Call, now: Moment) -> Next {
    let (bound, attempt) = (call.request.timeout_ms, call.attempts);
    match (call.timed_out, call.request.heartbeat_ms) {
        (Some(TimeLimit::Heartbeat), Some(silent)) => {
            lost(call, now, &format!("attempt {attempt} reported no progress for {}", time_text(silent)))
        }
        _ => lost(call, now, &format!("attempt {attempt} did not end within {bound} ms")),
    }
}

/// Returns a time in words: in seconds where it is a whole number of them.
fn time_text(millis: u64) -> String {
    if millis > 0 && millis.is_multiple_of(1_000) {
        format!("{} s", millis / 1_000)
    } else {
        format!("{millis} ms")
    }
}

/// Returns the next step after the attempt was cut off in this process: the same as after a crash.
pub fn after_loss(call: &Call, now: Moment, why: &str) -> Next {
    lost(call, now, why)
}

fn lost(call: &Call, now: Moment, why: &str) -> Next {
    let unknown = |why: String| CallCommand::MarkUnknown { call_id: call.request.call_id.clone(), why };
    if let Some(handle) = &call.handle {
        // Whatever the mode is: the next attempt sends nothing, it takes up the task that the other agent has.
        let why = format!("{why}; the other agent has the task, as `{handle}`");
        // An attempt that the end of a process cut off has not failed.
        let is_taken_up = call.status == CallStatus::Dispatched && call.epoch < now.epoch;
        return Next::Write(if is_taken_up { send(call, now, why) } else { again(call, now, &why) });
    }
    Next::Write(match call.request.recovery {
        Recovery::ReadOnly | Recovery::Reissue => again(call, now, why),
        Recovery::Idempotent if within_window(call, now.latest()) => again(call, now, why),
        Recovery::Idempotent => {
            let window = call.request.window_ms.unwrap_or_default();
            unknown(format!("{why}; the target remembers the key for only {window} ms"))
        }
        Recovery::Reconcile => return Next::Probe { why: why.to_owned() },
        Recovery::Manual => unknown(why.to_owned()),
    })
}

/// Whether the target still remembers the idempotency key of the first attempt.
fn within_window(call: &Call, now: Timestamp) -> bool {
    let (Some(window), Some(first)) = (call.request.window_ms, call.first_sent_at) else { return true };
    now.millis_since(first) < window
}

/// Sends another attempt, if one is left; otherwise fails the call.
fn again(call: &Call, now: Moment, why: &str) -> CallCommand {
    if call.counted_attempts() < call.request.max_attempts {
        return send(call, now, why.to_owned());
    }
    let message = format!("{why}; the limit of {} attempts is reached", call.request.max_attempts);
    fail(call, FailureClass::Exhausted, "TimeoutError", message)
}

/// Sends an attempt, unless the deadline has passed.
fn send(call: &Call, now: Moment, cause: String) -> CallCommand {
    if call.deadline().is_some_and(|deadline| deadline <= now.steady) {
        let class = if call.attempts == 0 { FailureClass::BeforeEffect } else { FailureClass::Exhausted };
        let reason = if cause.is_empty() { "it was never sent" } else { &cause };
        return fail(call, class, "DeadlineExceeded", format!("the call's deadline has passed; {reason}"));
    }
    CallCommand::Dispatch { call_id: call.request.call_id.clone(), epoch: now.epoch, cause }
}

fn fail(call: &Call, class: FailureClass, error_type: &str, message: String) -> CallCommand {
    let failure = CallFailure { class, error_type: error_type.to_owned(), message, usage: None };
    CallCommand::Fail { call_id: call.request.call_id.clone(), attempt: call.attempts, failure }
}

/// What a failed attempt says about a retry. Kind, policy and mode of the call decide whether one follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryWish {
    /// No word on retries.
    Unsaid,
    /// A retry may succeed after this time, in milliseconds.
    After(u64),
    /// A retry would be of no use.
    Never,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The number of the attempt.
    pub attempt: u32,
    /// The reason.
    pub failure: CallFailure,
    /// What the attempt says about a retry.
    pub retry: RetryWish,
}

/// Returns the next step after a failed attempt. Retried, while attempts and time are left: a failure of an inference
/// that says so, and an error of a tool whose policy allows it, unless the tool says that it is final.
pub fn after_failure(call: &Call, failed: FailedAttempt, now: Moment) -> CallCommand {
    let FailedAttempt { attempt, failure, retry } = failed;
    let call_id = call.request.call_id.clone();
    let request = &call.request;
    let wanted = match request.kind {
        CallKind::Infer => matches!(retry, RetryWish::After(_)),
        CallKind::Tool | CallKind::Delegate | CallKind::Handler => {
            request.retry_errors && failure.class != FailureClass::Rejected && retry != RetryWish::Never
        }
    };
    let delay_ms = if let RetryWish::After(delay_ms) = retry { delay_ms } else { 0 };
    let starts = now.at.plus_millis(delay_ms);
    let again = wanted
        && request.recovery.may_repeat()
        && call.status == CallStatus::Dispatched
        && call.attempts == attempt
        && call.counted_attempts() < request.max_attempts
        && within_window(call, now.latest().plus_millis(delay_ms))
        && call.deadline().is_none_or(|deadline| now.steady.plus_millis(delay_ms) < deadline);
    if again {
        return CallCommand::ScheduleRetry { call_id, attempt, failure, due: starts };
    }
    CallCommand::Fail { call_id, attempt, failure }
}
