//! Answers that do not fit the schema of their part.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel::fidelity::{OutputSchema, fatal_output, output_refused, python_json};

/// A case of one step and one part with a schema whose first answer does not fit: the note on it, and the
/// second answer.
struct Unfit {
    note: String,
    second: Value,
    /// The reason why the second answer does not fit either.
    error: Option<String>,
}

fn unfit(case: &Value) -> Option<Unfit> {
    let [step] = case["input"]["steps"].as_array()?.as_slice() else { return None };
    let [message] = step["task"]["messages"].as_array()?.as_slice() else { return None };
    let [part] = message["parts"].as_array()?.as_slice() else { return None };
    let schema = &part["content"]["output_schema"];
    // The recording has a single call, whose answer ends the run.
    let asked = case["expected"]["llm_calls"].as_array()?.len() == 1;
    if !asked || part["type"] != "infer" || schema.is_null() {
        return None;
    }
    let script = case["input"]["agent"]["llm_script"].as_array()?;
    let exhausted = json!({"type": "final", "content": "script exhausted"});
    let second = script.get(1).unwrap_or(&exhausted).clone();
    let checked = OutputSchema::new(schema.clone());
    let misfit = |answer: &Value| -> Option<Option<String>> {
        let content = answer["content"].as_str().filter(|_| answer["type"] == "final")?;
        let as_text = checked.check(&json!(content));
        Some(match serde_json::from_str::<Value>(content) {
            Ok(value) => checked.check(&value).err().filter(|_| as_text.is_err()),
            Err(error) => as_text.err().map(|refusal| format!("{refusal}; as JSON: {error}")),
        })
    };
    let first = misfit(script.first()?)??;
    let note = output_refused(&first, &schema.clone().into());
    Some(Unfit { note, error: misfit(&second)?, second })
}

pub(super) fn applies(case: &Value) -> bool {
    unfit(case).is_some()
}

pub(super) fn change(case: &mut Value) {
    let Some(Unfit { note, second, error }) = unfit(case) else { return };
    let note = json!({"role": "system", "content": note});
    let expected = &mut case["expected"];
    let mut shown = expected["llm_calls"][0].clone();
    if let (Some(shown), Some(calls)) = (shown.as_array_mut(), expected["llm_calls"].as_array_mut()) {
        shown.push(note.clone());
        calls.push(shown.clone().into());
    }
    let step = expected.pointer_mut("/steps/0").expect("the case has a step");
    if let Some(error) = &error {
        let text = fatal_output(error);
        step["raised"] = json!({"type": "RuntimeError", "message": text});
        let task = &mut step["task"];
        task["state"] = "failed".into();
        task["artifacts"] = json!([]);
        task["metadata"]["error"] = text.into();
        if let Some(last) = task["metadata"]["state_history"].as_array_mut().and_then(|all| all.last_mut()) {
            last["new_state"] = "failed".into();
        }
    } else {
        *step.pointer_mut("/task/artifacts/0/parts/0/content").expect("the task has an output") =
            second["content"].clone();
    }
    // A failed turn is not in the history; a successful one is there with the note.
    let conversations = expected.pointer_mut("/session_state/conversation");
    if let Some(conversations) = conversations.and_then(Value::as_object_mut) {
        if error.is_some() {
            *conversations = JsonMap::new();
        }
        for history in conversations.values_mut().filter_map(Value::as_array_mut) {
            let note = json!({"role": "system", "content": note["content"], "name": null});
            let said = json!({"role": "assistant", "content": python_json(&second), "name": null});
            history.pop();
            history.extend([note, said]);
        }
    }
}

pub(super) fn example() -> (Value, Value) {
    let schema = json!({"type": "object", "required": ["a"]});
    let task = json!({"messages": [{"parts": [{"type": "infer", "content": {"output_schema": schema}}]}]});
    let answer = |steps: Value, calls: Value| {
        json!({
            "input": {
                "agent": {"llm_script": [{"type": "final", "content": "x"}]},
                "steps": [{"task": task}],
            },
            "expected": {"steps": [steps], "llm_calls": calls},
        })
    };
    let ended = |state: &str| json!([{"previous_state": "working", "new_state": state}]);
    let theirs = json!({"task": {"state": "completed", "artifacts": [{}], "metadata": {"state_history": ended("completed")}}});
    let asked = json!({"role": "user", "content": "q"});
    let error = |said: &str| {
        format!(r#"answer: "{said}" is not of type "object"; as JSON: expected value at line 1 column 1"#)
    };
    let text = fatal_output(&error("script exhausted"));
    let ours = json!({
        "raised": {"type": "RuntimeError", "message": text},
        "task": {"state": "failed", "artifacts": [], "metadata": {"state_history": ended("failed"), "error": text}},
    });
    let note = json!({"role": "system", "content": output_refused(&error("x"), &schema.clone().into())});
    (answer(theirs, json!([[asked]])), answer(ours, json!([[asked], [asked, note]])))
}
