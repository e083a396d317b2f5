//! Checks the calls of one stream against the contract for side effects: an intent before the first attempt,
//! at most one outcome, no repetition that the mode forbids.

use std::collections::HashMap;

use proto_events::call::{CallEvent, CallStatus, Recovery, Verdict};

/// A call as read so far.
struct Seen {
    recovery: Recovery,
    max_attempts: u32,
    attempts: u32,
    /// The last attempt was found to have had no effect.
    unsent: bool,
    status: CallStatus,
}

/// The calls of a stream read so far.
#[derive(Default)]
pub(crate) struct CallsCheck(HashMap<String, Seen>);

impl CallsCheck {
    /// Takes the next event and returns its faults. `over` is true if the task had already ended.
    pub(crate) fn take(&mut self, event: &CallEvent, over: bool) -> Vec<String> {
        if let CallEvent::Requested(request) = event {
            let mut faults = Vec::new();
            if over {
                faults.push(format!("call `{}` was intended after the task's end", request.call_id));
            }
            let seen = Seen {
                recovery: request.recovery,
                max_attempts: request.max_attempts,
                attempts: 0,
                unsent: false,
                status: CallStatus::Requested,
            };
            if self.0.insert(request.call_id.clone(), seen).is_some() {
                faults.push(format!("call `{}` was intended twice", request.call_id));
            }
            return faults;
        }
        let id = event.call_id();
        let Some(call) = self.0.get_mut(id) else {
            return vec![format!("call `{id}`: {} without an intent", word(event))];
        };
        let before = call.status.clone();
        let after = before.after(event);
        let refused = after.is_none().then(|| misplaced(id, event, &before));
        let was_open = before.is_open();
        call.status = after.unwrap_or(before);
        let guarded = guarded(id, call, event, over);
        // An answer of an attempt that was never sent to an open call is one fault, not two.
        let refused = refused.filter(|_| !was_open || guarded.is_empty());
        refused.into_iter().chain(guarded).collect()
    }
}

/// Returns the violations of rules outside the lifecycle table: number and limit of attempts, recovery mode,
/// end of the task.
fn guarded(id: &str, call: &mut Seen, event: &CallEvent, over: bool) -> Vec<String> {
    match event {
        CallEvent::Dispatched { attempt, .. } => dispatched(id, call, *attempt, over),
        CallEvent::Succeeded { attempt, .. } | CallEvent::Failed { attempt, .. }
            if *attempt > call.attempts =>
        {
            vec![format!("call `{id}`: attempt {attempt} answered, but was never sent")]
        }
        CallEvent::Reconciled { verdict, .. } => {
            call.unsent = *verdict == Verdict::DidNotHappen;
            let never_sent = call.attempts == 0 && !call.status.is_open();
            if never_sent {
                return vec![format!("call `{id}` was looked into, but was never sent")];
            }
            Vec::new()
        }
        _ => Vec::new(),
    }
}

fn dispatched(id: &str, call: &mut Seen, attempt: u32, over: bool) -> Vec<String> {
    let mut faults = Vec::new();
    if over {
        faults.push(format!("call `{id}` was sent after the task's end"));
    }
    if attempt != call.attempts + 1 {
        faults.push(format!("call `{id}`: attempt {attempt} follows attempt {}", call.attempts));
    }
    let repeats = attempt > 1 && !std::mem::take(&mut call.unsent);
    if repeats && !call.recovery.may_repeat() {
        faults.push(format!(
            "call `{id}` was sent {attempt} times, though its mode is {}",
            call.recovery.as_str()
        ));
    }
    if attempt > call.max_attempts {
        faults.push(format!("call `{id}`: attempt {attempt} is over its limit of {}", call.max_attempts));
    }
    call.attempts = attempt;
    faults
}

/// The words for an event that may not happen to a call of this status.
fn misplaced(id: &str, event: &CallEvent, status: &CallStatus) -> String {
    let (word, before) = (word(event), status.as_str());
    match event {
        CallEvent::Abandoned { .. } => format!("call `{id}` was abandoned, but its outcome is not unknown"),
        CallEvent::Reconciled { .. } if status.is_open() => {
            format!("call `{id}` was looked into, but it is {before}")
        }
        _ if status.is_open() => format!("call `{id}` {word}, but it is {before}"),
        CallEvent::Dispatched { .. } => format!("call `{id}` was sent again after its outcome ({before})"),
        CallEvent::Reconciled { .. } => format!("call `{id}` was looked into after its outcome ({before})"),
        CallEvent::TimedOut { .. } => format!("call `{id}` timed out after its outcome ({before})"),
        _ => format!("call `{id}` has a second outcome: {before}, then {word}"),
    }
}

fn word(event: &CallEvent) -> &'static str {
    match event {
        CallEvent::Requested(_) => "intended",
        CallEvent::Dispatched { .. } => "sent",
        CallEvent::Succeeded { .. } => "succeeded",
        CallEvent::Failed { .. } => "failed",
        CallEvent::RetryScheduled { .. } => "failed and was to be sent again",
        CallEvent::TimedOut { .. } => "timed out",
        CallEvent::Canceled { .. } => "canceled",
        CallEvent::OutcomeUnknown { .. } => "unknown",
        CallEvent::Reconciled { .. } => "looked into",
        CallEvent::Abandoned { .. } => "abandoned",
        CallEvent::LateResultIgnored { .. } => "late result",
    }
}
