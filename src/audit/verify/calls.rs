//! The calls of one stream, held against the contract for side effects: an intent before the first attempt, at
//! most one outcome, no repetition that the mode forbids.

use std::collections::HashMap;

use proto_events::call::{CallEvent, Recovery, Verdict};

/// What is known of a call.
struct Seen {
    recovery: Recovery,
    max_attempts: u32,
    attempts: u32,
    /// The last attempt was found to have had no effect, or never reached its target.
    unsent: bool,
    outcome: Option<&'static str>,
}

/// The calls of a stream so far.
#[derive(Default)]
pub(super) struct CallsCheck(HashMap<String, Seen>);

impl CallsCheck {
    /// Takes the next event; answers what is wrong with it. `over` says that the task had ended before.
    pub(super) fn take(&mut self, event: &CallEvent, over: bool) -> Vec<String> {
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
                outcome: None,
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
        match event {
            CallEvent::Dispatched { attempt, .. } => dispatched(id, call, *attempt, over),
            CallEvent::Requested(_) | CallEvent::TimedOut { .. } | CallEvent::LateResultIgnored { .. } => {
                Vec::new()
            }
            CallEvent::Succeeded { attempt, .. } | CallEvent::Failed { attempt, .. } => {
                let mut faults = outcome(id, call, word(event));
                if *attempt > call.attempts {
                    faults.push(format!("call `{id}`: attempt {attempt} answered, but was never sent"));
                }
                faults
            }
            CallEvent::Canceled { .. } | CallEvent::OutcomeUnknown { .. } => outcome(id, call, word(event)),
            CallEvent::Reconciled { verdict, .. } => {
                call.unsent = *verdict == Verdict::DidNotHappen;
                reconciled(id, call)
            }
            CallEvent::Abandoned { .. } => match call.outcome {
                Some("unknown") => Vec::new(),
                _ => vec![format!("call `{id}` was abandoned, but its outcome is not unknown")],
            },
        }
    }
}

fn dispatched(id: &str, call: &mut Seen, attempt: u32, over: bool) -> Vec<String> {
    let mut faults = Vec::new();
    if over {
        faults.push(format!("call `{id}` was sent after the task's end"));
    }
    if let Some(outcome) = call.outcome {
        faults.push(format!("call `{id}` was sent again after its outcome ({outcome})"));
    }
    if attempt != call.attempts + 1 {
        faults.push(format!("call `{id}`: attempt {attempt} follows attempt {}", call.attempts));
    }
    let repeats = attempt > 1 && !std::mem::take(&mut call.unsent);
    if repeats && matches!(call.recovery, Recovery::Manual | Recovery::Reconcile) {
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

/// A verdict is about an attempt whose outcome is open, unknown or given up.
fn reconciled(id: &str, call: &Seen) -> Vec<String> {
    if call.attempts == 0 {
        return vec![format!("call `{id}` was looked into, but was never sent")];
    }
    match call.outcome {
        None | Some("unknown" | "canceled") => Vec::new(),
        Some(outcome) => vec![format!("call `{id}` was looked into after its outcome ({outcome})")],
    }
}

fn outcome(id: &str, call: &mut Seen, word: &'static str) -> Vec<String> {
    match call.outcome.replace(word) {
        Some(before) => vec![format!("call `{id}` has a second outcome: {before}, then {word}")],
        None => Vec::new(),
    }
}

fn word(event: &CallEvent) -> &'static str {
    match event {
        CallEvent::Requested(_) => "intended",
        CallEvent::Dispatched { .. } => "sent",
        CallEvent::Succeeded { .. } => "succeeded",
        CallEvent::Failed { .. } => "failed",
        CallEvent::TimedOut { .. } => "timed out",
        CallEvent::Canceled { .. } => "canceled",
        CallEvent::OutcomeUnknown { .. } => "unknown",
        CallEvent::Reconciled { .. } => "looked into",
        CallEvent::Abandoned { .. } => "abandoned",
        CallEvent::LateResultIgnored { .. } => "late result",
    }
}
