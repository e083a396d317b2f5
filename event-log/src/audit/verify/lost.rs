//! Checks what may become of an attempt whose answer was lost: only the rule of its mode decides (R7), and only a probe
//! finds out afterwards.

use proto_events::call::{CallEvent, CallKind, CallStatus, FailureClass, Recovery, VerdictBy};

use crate::audit::verify::attempts::{CallMoment, Seen};
use crate::audit::verify::call_words::word;

/// Returns what forbids an event of a call whose attempt may have been lost.
pub(super) fn lost(
    id: &str,
    call: &Seen,
    event: &CallEvent,
    after_verdict: bool,
    now: CallMoment,
) -> Option<String> {
    heard_after_its_end(id, call, event, after_verdict, now)
        .or_else(|| probed(id, call, event))
        .or_else(|| given_up(id, call, event))
}

/// Nobody hears the answer of an attempt whose process has ended.
fn heard_after_its_end(
    id: &str,
    call: &Seen,
    event: &CallEvent,
    after_verdict: bool,
    now: CallMoment,
) -> Option<String> {
    let in_flight = matches!(call.status, CallStatus::Dispatched | CallStatus::TimedOut);
    let is_answer = match event {
        CallEvent::Succeeded { .. } => !after_verdict,
        CallEvent::Failed { failure, .. } => {
            !matches!(failure.class, FailureClass::Exhausted | FailureClass::Superseded)
        }
        CallEvent::TimedOut { .. } | CallEvent::Asked { .. } => true,
        _ => false,
    };
    let is_over = in_flight && is_answer && now.epoch > call.epoch;
    is_over.then(|| {
        let (word, sent, epoch) = (word(event), call.epoch, now.epoch);
        format!("call `{id}` {word} in epoch {epoch}, but its attempt ended with the program of epoch {sent}")
    })
}

/// A probe is asked about calls of one mode only.
fn probed(id: &str, call: &Seen, event: &CallEvent) -> Option<String> {
    let by_probe = matches!(event, CallEvent::Reconciled { by: VerdictBy::Probe, .. });
    let is_wrong = by_probe && call.recovery != Recovery::Reconcile;
    is_wrong
        .then(|| format!("call `{id}` has a probe's verdict, though its mode is {}", call.recovery.as_str()))
}

/// A failure of the system's own may not stand for an outcome that is unknown.
fn given_up(id: &str, call: &Seen, event: &CallEvent) -> Option<String> {
    let CallEvent::Failed { failure, .. } = event else { return None };
    if failure.class == FailureClass::Superseded && call.kind != CallKind::Infer {
        return Some(format!("call `{id}` was superseded, but only an inference can be"));
    }
    let in_flight = matches!(call.status, CallStatus::Dispatched | CallStatus::TimedOut);
    let hides = failure.class == FailureClass::Exhausted && in_flight && !call.recovery.may_repeat();
    hides.then(|| {
        let mode = call.recovery.as_str();
        format!(
            "call `{id}` was given up with an attempt in flight, though its mode {mode} decides otherwise"
        )
    })
}
