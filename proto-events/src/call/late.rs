//! Answers that come after their calls were closed. They are kept as evidence and change no outcome.

use crate::call::event::CallEvent;
use crate::call::fold::Call;
use crate::call::request::CallKind;
use crate::json::JsonObject;
use crate::limits::LATE_RESULT_BYTES_MAX;

/// Returns the evidence of an answer to this call.
pub(super) fn late_answer(call: &Call, answer: CallEvent) -> CallEvent {
    late(without_long_result(call, answer))
}

/// Leaves the result out of another agent's answer that is too long to be kept as evidence: cut off, it would not say what the
/// task there used.
fn without_long_result(call: &Call, answer: CallEvent) -> CallEvent {
    match answer {
        CallEvent::Succeeded { call_id, attempt, result, usage }
            if call.request.kind == CallKind::Delegate && result.as_str().len() > LATE_RESULT_BYTES_MAX =>
        {
            let short = result.read::<JsonObject>().ok().map(|mut fields| {
                fields.remove("result");
                fields.to_text()
            });
            CallEvent::Succeeded { call_id, attempt, result: short.unwrap_or(result), usage }
        }
        answer => answer,
    }
}

/// An answer that is not the call's, kept as evidence.
pub(super) fn late(answer: CallEvent) -> CallEvent {
    let ignored = |call_id, attempt, succeeded, said: &str| {
        let end = said.char_indices().map(|(at, letter)| at + letter.len_utf8());
        let end = end.take_while(|end| *end <= LATE_RESULT_BYTES_MAX).last().unwrap_or_default();
        let said = said.get(..end).unwrap_or_default().to_owned();
        CallEvent::LateResultIgnored { call_id, attempt, succeeded, said }
    };
    match answer {
        CallEvent::Succeeded { call_id, attempt, result, .. } => {
            ignored(call_id, attempt, true, result.as_str())
        }
        CallEvent::Failed { call_id, attempt, failure }
        | CallEvent::RetryScheduled { call_id, attempt, failure, .. } => {
            ignored(call_id, attempt, false, &failure.message)
        }
        CallEvent::Asked { call_id, attempt, question } => ignored(call_id, attempt, false, &question),
        other => other,
    }
}
