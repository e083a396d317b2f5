//! Errors without a text.

use proto_events::json;
use proto_events::json::JsonValue as Value;

/// Returns the error object of the first output that we treat as an error.
fn first_error(case: &Value) -> Option<&Value> {
    let outputs = case["input"]["outputs"].as_array()?;
    outputs.iter().find_map(|output| {
        let content = &output["content"];
        let error = match output["type"].as_str()? {
            "error" => content,
            "tool_output" => &content["error"],
            _ => return None,
        };
        let of_text = error.as_str().is_some_and(|text| !text.is_empty()) && output["type"] == "tool_output";
        let of_object = error.as_object().is_some_and(|object| !object.is_empty());
        (of_text || of_object).then_some(error)
    })
}

/// Whether the first error of the case has no text.
pub(super) fn applies(case: &Value) -> bool {
    let terminal = ["completed", "failed", "canceled"];
    let open = !terminal.iter().any(|state| case["input"]["state"] == *state);
    open && first_error(case).is_some_and(|error| error["message"] == "")
}

pub(super) fn change(case: &mut Value) {
    let text = first_error(case).map(|error| {
        ["type", "code"]
            .into_iter()
            .filter_map(|key| error[key].as_str())
            .find(|text| !text.is_empty())
            .unwrap_or("unknown error")
            .to_owned()
    });
    let expected = &mut case["expected"];
    expected["error"] = text.into();
    expected["state"] = "failed".into();
    if let Some(last) = expected["history"].as_array_mut().and_then(|history| history.last_mut()) {
        last["new_state"] = "failed".into();
    }
}

pub(super) fn example() -> (Value, Value) {
    let answer = |state: &str, error: Value| {
        json!({
            "input": {"state": "working", "outputs": [
                {"type": "tool_output", "content": {"error": {"type": "ValueError", "message": ""}}},
            ]},
            "expected": {"state": state, "error": error, "history": [{"previous_state": "working", "new_state": state}]},
        })
    };
    (answer("completed", Value::Null), answer("failed", "ValueError".into()))
}
