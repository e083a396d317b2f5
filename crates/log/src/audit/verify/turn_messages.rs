//! Checks what the messages of a turn say of the calls of its task: their inference is there, and so is a call whose result
//! they tell.

use proto_events::call::CallKind;
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::turn::TurnMessage;

/// Returns the faults of a message to or from the model, of a task whose calls have these kinds.
pub(crate) fn of_message(
    message: &TurnMessage,
    task: &StreamId,
    kind: impl Fn(&str) -> Option<CallKind>,
) -> Vec<String> {
    let Some(infer_call) = message.infer_call.as_deref() else { return Vec::new() };
    let mut faults = Vec::new();
    if kind(infer_call) != Some(CallKind::Infer) {
        faults.push(format!("a message is of the inference `{infer_call}`, which {task} does not have"));
    }
    if let Some(answered) = &message.answers
        && kind(answered).is_none()
        && is_result(&message.message.content)
    {
        faults.push(format!(
            "a message answers the call `{answered}` with a result, but {task} did not make it"
        ));
    }
    faults
}

/// Whether an answer says the result of a call. What is said of a call that was not made is in words, or an error.
fn is_result(content: &str) -> bool {
    let Ok(json) = JsonText::parse(content) else { return false };
    let fields: JsonObject = json.read().unwrap_or_default();
    fields.get("error").is_none()
}
