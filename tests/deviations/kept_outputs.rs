//! Outputs of a canceled run: those of the parts that had ended stay.

use proto_events::json;
use proto_events::json::JsonValue as Value;

/// Returns the outputs of the parts that had ended when a step was canceled: those before the part that waits, as far
/// as the fixtures' catalog says what a tool returns.
fn ended(input: &Value, answer: &Value) -> Vec<Value> {
    if input.get("cancel_after_ms").is_none() || answer["task"]["state"] != "canceled" {
        return Vec::new();
    }
    let message = answer["task"]["messages"].as_array().and_then(|messages| messages.last());
    let parts = message.and_then(|message| message["parts"].as_array());
    let calls =
        parts.into_iter().flatten().filter(|part| part["type"] == "tool_call" || part["type"] == "infer");
    calls.map_while(|part| output(&part["content"])).collect()
}

fn output(asked: &Value) -> Option<Value> {
    let args = &asked["args"];
    let (result, error) = match asked["tool_name"].as_str()? {
        "add" => (json!(args["a"].as_i64()? + args["b"].as_i64()?), Value::Null),
        "echo" => (args["text"].clone(), Value::Null),
        "upper" => (json!(args["text"].as_str()?.to_uppercase()), Value::Null),
        "lookup" => (json!({"city": args["city"].clone(), "temp": 20}), Value::Null),
        "none" => (Value::Null, Value::Null),
        "guarded" => (args["x"].clone(), Value::Null),
        "fail" => (Value::Null, json!({"message": args["message"].clone()})),
        _ => return None,
    };
    let content = json!({"call_id": asked["call_id"].clone(), "result": result, "error": error});
    let part = json!({"type": "tool_output", "content": content});
    Some(json!({
        "id": "<id:kept>", "parts": [part], "metadata": json!({}), "timestamp": "<ts>", "kind": "result",
        "name": null, "uri": null, "media_type": null, "action_id": null,
    }))
}

/// Returns the outputs that each step keeps, by the number of the step.
fn kept(case: &Value) -> Vec<(usize, Vec<Value>)> {
    let inputs = case["input"]["steps"].as_array().into_iter().flatten();
    let answers = case["expected"]["steps"].as_array().into_iter().flatten();
    let steps = inputs.zip(answers).map(|(input, answer)| ended(input, answer)).enumerate();
    steps.filter(|(_, outputs)| !outputs.is_empty()).collect()
}

pub(super) fn applies(case: &Value) -> bool {
    !kept(case).is_empty()
}

pub(super) fn change(case: &mut Value) {
    for (step, mut outputs) in kept(case) {
        for (at, output) in outputs.iter_mut().enumerate() {
            output["id"] = format!("<id:art#{}>", at + 1).into();
        }
        case["expected"]["steps"].as_array_mut().expect("steps are a list")[step]["task"]["artifacts"] =
            Value::Array(outputs);
    }
}

pub(super) fn example() -> (Value, Value) {
    let case = |artifacts: Value| {
        let part = |tool: &str, args: Value| json!({"type": "tool_call", "content": {"tool_name": tool, "args": args, "call_id": tool}});
        let parts = [part("echo", json!({"text": "a"})), part("slow", json!({"ms": 2_000}))];
        let messages = json!([{"role": "user", "parts": parts}]);
        let task = json!({"state": "canceled", "messages": messages, "artifacts": artifacts});
        json!({"input": {"steps": [{"cancel_after_ms": 50}]}, "expected": {"steps": [{"task": task}]}})
    };
    let output = json!({
        "id": "<id:art#1>",
        "parts": [{"type": "tool_output", "content": {"call_id": "echo", "result": "a", "error": null}}],
        "metadata": {}, "timestamp": "<ts>", "kind": "result",
        "name": null, "uri": null, "media_type": null, "action_id": null,
    });
    (case(json!([])), case(json!([output])))
}
