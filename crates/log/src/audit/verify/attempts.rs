//! Checks the attempts of a call: their number, what lies between two of them, and the questions that end them.

use std::time::Duration;

use proto_events::call::{CallEvent, CallKind, CallStatus, FailureClass, Recovery};
use proto_events::envelope::Timestamp;
use proto_events::limits::HANDLE_BYTES_MAX;
use proto_events::model::TaskState;

/// The task and the record in which an event of a call happened.
#[derive(Clone, Copy)]
pub(crate) struct CallMoment {
    /// The state of the task before the event.
    pub(crate) state: TaskState,
    /// The number of runs so far.
    pub(crate) run: u32,
    /// The epoch of the record.
    pub(crate) epoch: u64,
    /// The time of the record.
    pub(crate) at: Timestamp,
    /// The version of the event.
    pub(crate) version: u64,
}

/// A call as read so far. Results are not kept.
pub(super) struct SeenCall {
    pub(super) kind: CallKind,
    pub(super) target: Box<str>,
    /// The call that asked for it.
    pub(super) parent: Option<Box<str>>,
    /// The number of the calls that it has asked for, and of those without an outcome.
    pub(super) children: u32,
    pub(super) open_children: u32,
    pub(super) recovery: Recovery,
    pub(super) max_attempts: u32,
    pub(super) timeout_ms: u64,
    pub(super) heartbeat_ms: Option<u64>,
    /// Whether the record of the intent is still open.
    pub(super) is_new: bool,
    pub(super) window_ms: Option<u64>,
    pub(super) deadline: Option<Timestamp>,
    pub(super) attempts: u32,
    /// The epoch in which the last attempt was sent.
    pub(super) epoch: u64,
    pub(super) first_sent_at: Timestamp,
    pub(super) status: CallStatus,
    /// Whether another agent has the task of the call.
    pub(super) has_handle: bool,
    /// The number of attempts that took such a task up after the end of a process.
    pub(super) taken_up: u32,
    /// The number of attempts that ended with a question, and the time of the last one.
    pub(super) questions: u32,
    pub(super) asked_at: Timestamp,
    /// The time for which the call has waited for answers.
    pub(super) waited: Duration,
}

impl SeenCall {
    /// Returns the number of attempts that count, of so many.
    fn counted(&self, attempts: u32) -> u32 {
        attempts.saturating_sub(self.questions).saturating_sub(self.taken_up)
    }

    /// Whether a lost attempt may be followed by another one.
    fn may_repeat(&self) -> bool {
        self.recovery.may_repeat() || self.has_handle
    }

    /// Returns the deadline, later by the time for which the call waited for a person.
    fn deadline(&self) -> Option<Timestamp> {
        self.deadline.map(|deadline| deadline.plus(self.waited))
    }
}

/// Takes a question of an attempt and returns what forbids it.
pub(super) fn accept_question(id: &str, call: &mut SeenCall, now: CallMoment) -> Option<String> {
    call.questions = call.questions.saturating_add(1);
    call.asked_at = now.at;
    let may_ask = call.kind != CallKind::Infer;
    (!may_ask).then(|| format!("call `{id}` asked a person, which an inference cannot"))
}

/// Takes a task that another agent has, and returns what forbids it.
pub(super) fn accepted(id: &str, call: &mut SeenCall, handle: &str) -> Option<String> {
    call.has_handle = true;
    if call.kind != CallKind::Delegate {
        return Some(format!("call `{id}` was taken by another agent, but asks none"));
    }
    let is_wrong = handle.is_empty() || handle.len() > HANDLE_BYTES_MAX;
    is_wrong.then(|| format!("call `{id}`: its task has an id of {} bytes at the other agent", handle.len()))
}

/// Takes a person's answer.
pub(super) fn answered(call: &mut SeenCall, now: CallMoment) {
    call.waited = call.waited.saturating_add(now.at.since(call.asked_at));
}

/// Whether the target still remembers the idempotency key of the first attempt.
fn within_window(call: &SeenCall, at: Timestamp) -> bool {
    call.window_ms.is_none_or(|window| at.millis_since(call.first_sent_at) < window)
}

/// Whether the last attempt ended by itself, and the next one was not sent.
pub(super) fn is_scheduled(call: &SeenCall) -> bool {
    call.status.is_between_attempts()
}

/// Whether the key of an idempotent call still counts.
fn may_still_repeat(call: &SeenCall, at: Timestamp) -> bool {
    call.recovery != Recovery::Idempotent || within_window(call, at)
}

/// Returns what forbids another attempt that was scheduled.
pub(super) fn scheduled(id: &str, call: &SeenCall, due: Timestamp, now: CallMoment) -> Vec<String> {
    let mut faults = Vec::new();
    if !call.may_repeat() {
        let mode = call.recovery.as_str();
        faults.push(format!("call `{id}` was to be sent again, though its mode is {mode}"));
    }
    if call.counted(call.attempts) >= call.max_attempts {
        faults.push(format!(
            "call `{id}` was to be sent again after its last attempt of {}",
            call.max_attempts
        ));
    }
    if due < now.at {
        faults.push(format!("call `{id}` was to be sent again at {due}, before it failed"));
    }
    if call.deadline().is_some_and(|deadline| deadline <= due) {
        faults.push(format!("call `{id}` was to be sent again after its deadline"));
    }
    faults
}

pub(super) fn dispatched(
    id: &str,
    call: &mut SeenCall,
    (attempt, epoch, cause): (u32, u64, &str),
    now: CallMoment,
) -> Vec<String> {
    let mut faults = Vec::new();
    if now.state.is_terminal() {
        faults.push(format!("call `{id}` was sent after the task's end"));
    }
    if epoch != now.epoch {
        faults
            .push(format!("call `{id}` was sent in epoch {epoch}, but its record is of epoch {}", now.epoch));
    }
    if attempt != call.attempts.saturating_add(1) {
        faults.push(format!("call `{id}`: attempt {attempt} follows attempt {}", call.attempts));
    }
    let lost = matches!(call.status, CallStatus::Dispatched | CallStatus::TimedOut);
    if call.has_handle && call.status == CallStatus::Dispatched && call.epoch < epoch {
        call.taken_up = call.taken_up.saturating_add(1);
    }
    if lost && !call.may_repeat() {
        faults.push(format!(
            "call `{id}` was sent {attempt} times, though its mode is {}",
            call.recovery.as_str()
        ));
    } else if call.status == CallStatus::Dispatched && cause.is_empty() {
        faults.push(format!("call `{id}` was sent again in flight, and no cause is given"));
    } else if (lost || is_scheduled(call)) && !may_still_repeat(call, now.at) {
        faults.push(format!("call `{id}` was sent again after its target had forgotten the key"));
    }
    // An attempt that is sent with its intent may be late by as much as the timer of its run.
    if !call.is_new && call.deadline().is_some_and(|deadline| deadline <= now.at) {
        let again = if attempt > 1 { "again " } else { "" };
        faults.push(format!("call `{id}` was sent {again}after its deadline"));
    }
    if call.counted(attempt) > call.max_attempts {
        faults.push(format!("call `{id}`: attempt {attempt} is over its limit of {}", call.max_attempts));
    }
    if call.attempts == 0 {
        call.first_sent_at = now.at;
    }
    (call.attempts, call.epoch) = (attempt, epoch);
    faults
}

/// Returns the fault of a probe's verdict on a call that no probe looks into: the modes other than `Reconcile` have none.
pub(super) fn without_probe(id: &str, call: &SeenCall) -> Option<String> {
    let mode = call.recovery.as_str();
    (call.recovery != Recovery::Reconcile)
        .then(|| format!("call `{id}` was looked into by a probe, though its mode is {mode}"))
}

/// Returns the fault of an attempt that ends by itself in a record of a later epoch than its own: the program that
/// awaited it had ended, and what follows such an attempt is decided by the mode of its call alone.
pub(super) fn unheard(id: &str, call: &SeenCall, event: &CallEvent, now: CallMoment) -> Option<String> {
    let (CallEvent::Succeeded { attempt, .. }
    | CallEvent::Failed { attempt, .. }
    | CallEvent::RetryScheduled { attempt, .. }
    | CallEvent::TimedOut { attempt, .. }
    | CallEvent::Asked { attempt, .. }) = event
    else {
        return None;
    };
    let is_decided = matches!(event, CallEvent::Failed { failure, .. } if is_decided(failure.class));
    let is_lost =
        call.status == CallStatus::Dispatched && *attempt == call.attempts && call.epoch < now.epoch;
    let epoch = call.epoch;
    (is_lost && !is_decided).then(|| {
        format!(
            "call `{id}`: attempt {attempt} ended in epoch {}, but had been sent in epoch {epoch}",
            now.epoch
        )
    })
}

/// Whether a failure of this class is a decision about the call, and not what an attempt came to.
const fn is_decided(class: FailureClass) -> bool {
    matches!(class, FailureClass::Exhausted | FailureClass::Superseded)
}

/// Returns the fault of a failure that decides about a call without an attempt, where another decision was due: an
/// attempt of unknown effect ends a call in the modes that do not repeat it, and inferences alone are superseded.
pub(super) fn given_up(id: &str, call: &SeenCall, class: FailureClass) -> Option<String> {
    let mode = call.recovery.as_str();
    let lost = matches!(call.status, CallStatus::Dispatched | CallStatus::TimedOut);
    match class {
        FailureClass::Exhausted if lost && !call.may_repeat() => Some(format!(
            "call `{id}` is called exhausted, but its mode {mode} leaves a lost attempt unknown"
        )),
        FailureClass::Superseded if call.kind != CallKind::Infer => {
            Some(format!("call `{id}` was superseded, but is no inference"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_which_a_call_waited_does_not_overflow() {
        let mut call = SeenCall {
            kind: CallKind::Tool,
            target: "pay".into(),
            parent: None,
            children: 0,
            open_children: 0,
            recovery: Recovery::Manual,
            max_attempts: 1,
            timeout_ms: 1,
            heartbeat_ms: None,
            is_new: false,
            window_ms: None,
            deadline: Some(Timestamp(1)),
            attempts: 1,
            epoch: 1,
            first_sent_at: Timestamp(0),
            status: CallStatus::Asked("Which city?".into()),
            has_handle: false,
            taken_up: 0,
            questions: 1,
            asked_at: Timestamp(0),
            waited: Duration::MAX,
        };
        let at = Timestamp(i64::MAX);
        answered(&mut call, CallMoment { state: TaskState::Working, run: 1, epoch: 1, at, version: 1 });
        assert_eq!((call.waited, call.deadline()), (Duration::MAX, Some(at)));
    }
}
