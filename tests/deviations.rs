//! Deliberate differences between our results and the recorded ones. Each is a rule, never a list of case
//! names: a predicate over the case and a transformation of the expected result, with Protolink's behaviour,
//! ours, and the reason. Each rule has an example, which is tested here; the fixture tests print how many
//! cases it touched.
#![allow(
    clippy::indexing_slicing,
    reason = "`Value` answers null for a key that is absent, and the cases are objects"
)]

#[path = "deviations/card_role.rs"]
mod card_role;
#[path = "deviations/deviation.rs"]
mod deviation;
#[path = "deviations/kept_outputs.rs"]
mod kept_outputs;
#[path = "deviations/mute_errors.rs"]
mod mute_errors;
#[path = "deviations/output_schema.rs"]
mod output_schema;
#[path = "deviations/own_modules.rs"]
mod own_modules;
#[path = "deviations/whole_pairs.rs"]
mod whole_pairs;

pub(crate) use deviation::Deviation;
use proto_events::json;
use proto_events::json::JsonValue as Value;

/// All deviations.
pub(crate) static RULES: &[Deviation] = &[
    Deviation {
        area: "agent_card",
        name: "a card keeps the role of its agent",
        theirs: "neither writes nor reads `role`: on the wire every agent is a worker",
        ours: "writes and reads it",
        why: "a registry is asked for agents by their role, which it can only know from their cards",
        applies: card_role::applies,
        change: card_role::change,
        example: card_role::example,
    },
    Deviation {
        area: "conversation_history",
        name: "truncate keeps only a system prompt in front",
        theirs: "keeps message 0 whatever its role, and the newest n-1",
        ours: "keeps message 0 only if it is a system message, otherwise the newest n",
        why: "an old user message in front of the newest ones misleads the model; 0.8.3 does as ours",
        applies: truncates_without_system,
        change: keep_the_newest,
        example: truncate_example,
    },
    Deviation {
        area: "finalize_state",
        name: "an error with an empty message is an error",
        theirs: "completes the task",
        ours: "fails it, with the error's type, else its code, else `unknown error` as the text",
        why: "an error that says nothing is still one; a task that failed must not look complete",
        applies: mute_errors::applies,
        change: mute_errors::change,
        example: mute_errors::example,
    },
    Deviation {
        area: "execute_task",
        name: "a tool that fails without a message fails its task",
        theirs: "completes the task, with an error of an empty message among its artifacts",
        ours: "fails it, with the error's type as the message",
        why: "a task that failed must not look complete",
        applies: has_mute_tool_error,
        change: fail_with_the_tools_type,
        example: mute_tool_example,
    },
    Deviation {
        area: "execute_task",
        name: "the model receives the error when its arguments do not fit the schema",
        theirs: "ends the run with an error when the model calls a tool with arguments that its schema refuses",
        ours: "returns the error to the model, counts the step and continues, as 0.8.3 does",
        why: "a model can correct its arguments when it receives the error, and the run need not be lost",
        applies: ends_by_bad_arguments,
        change: tell_the_model_instead,
        example: bad_arguments_example,
    },
    Deviation {
        area: "execute_task",
        name: "an answer fits the schema that was asked for, or the task fails",
        theirs: "ignores `output_schema`: any answer completes the task",
        ours: "returns the violation to the model once, and fails the task if the next answer does not fit either",
        why: "a caller who asks for a schema reads the answer by it and cannot use another answer",
        applies: output_schema::applies,
        change: output_schema::change,
        example: output_schema::example,
    },
    Deviation {
        area: "execute_task",
        name: "a canceled task keeps the outputs of the parts that had ended",
        theirs: "attaches all outputs when the run ends, so that a cancel loses them",
        ours: "attaches each output when its part ends, as 0.8.3 does",
        why: "what was done was done, and its result may be all that is left of it",
        applies: kept_outputs::applies,
        change: kept_outputs::change,
        example: kept_outputs::example,
    },
    Deviation {
        area: "history_compaction",
        name: "a compaction keeps a call and its answer together",
        theirs: "cuts between a call and its answer",
        ours: "moves the cut to the beginning of the call, so that one message more may be kept",
        why: "providers refuse an answer whose call is missing, and a model cannot tell what it answers",
        applies: whole_pairs::applies,
        change: whole_pairs::change,
        example: whole_pairs::example,
    },
    Deviation {
        area: "state_control_plane",
        name: "tools, task and flow report their own content",
        theirs: "shows the value of the conversations in every module",
        ours: "counts and shows what the module itself holds; here only conversations are stored",
        why: "a report that counts the same items four times says nothing about any of the modules",
        applies: own_modules::applies,
        change: own_modules::change,
        example: own_modules::example,
    },
    Deviation {
        area: "state_control_plane",
        name: "a reset without any module clears nothing",
        theirs: "deletes the whole namespace, and reports that nothing was cleared",
        ours: "clears nothing, and reports that nothing was cleared",
        why: "nobody who switched the state off expects a reset to delete it",
        applies: own_modules::wipes_without_a_module,
        change: own_modules::keep_all,
        example: own_modules::kept_example,
    },
];

/// Returns the error type of a failing tool of the catalog.
fn error_type(tool: &Value) -> &'static str {
    if tool == "typefail" { "TypeError" } else { "ValueError" }
}

/// Returns the tool outputs with an empty error message in the expected tasks, each as (step, artifact).
fn mute_outputs(case: &Value) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (step, answer) in case["expected"]["steps"].as_array().into_iter().flatten().enumerate() {
        for (at, artifact) in answer["task"]["artifacts"].as_array().into_iter().flatten().enumerate() {
            if artifact["parts"][0]["content"]["error"]["message"] == "" {
                found.push((step, at));
            }
        }
    }
    found
}

fn has_mute_tool_error(case: &Value) -> bool {
    !mute_outputs(case).is_empty()
}

fn fail_with_the_tools_type(case: &mut Value) {
    for (step, at) in mute_outputs(case) {
        let task = &mut case["expected"]["steps"].as_array_mut().expect("steps are a list")[step]["task"];
        let call_id = task["artifacts"][at]["parts"][0]["content"]["call_id"].clone();
        let parts = task["messages"].as_array().into_iter().flatten();
        let asked = parts
            .flat_map(|message| message["parts"].as_array().into_iter().flatten())
            .find(|part| part["content"]["call_id"] == call_id);
        let kind = asked.map_or("ValueError", |part| error_type(&part["content"]["tool_name"]));
        let part = format!("/artifacts/{at}/parts/0/content/error/message");
        *task.pointer_mut(&part).expect("the output has an error") = kind.into();
        // The first error of a run names the failure; an earlier failure stays.
        if task["state"] == "completed" {
            task["state"] = "failed".into();
            task["metadata"]["error"] = kind.into();
            if let Some(last) =
                task["metadata"]["state_history"].as_array_mut().and_then(|history| history.last_mut())
            {
                last["new_state"] = "failed".into();
            }
        }
    }
}

fn mute_tool_example() -> (Value, Value) {
    let answer = |state: &str, message: &str, metadata: Value| {
        json!({"expected": {"steps": [{"task": {
            "state": state,
            "messages": [{"parts": [{"type": "tool_call", "content": {"tool_name": "fail", "call_id": "c"}}]}],
            "artifacts": [{"parts": [{"content": {"call_id": "c", "error": {"message": message}}}]}],
            "metadata": metadata,
        }}]}})
    };
    let history = |state: &str| json!([{"previous_state": "working", "new_state": state}]);
    (
        answer("completed", "", json!({"state_history": history("completed")})),
        answer("failed", "ValueError", json!({"state_history": history("failed"), "error": "ValueError"})),
    )
}

/// Returns tool, refusal and content, if the only step ended with arguments that a tool's schema refuses and
/// the script's next reply ends the run successfully.
fn bad_arguments(case: &Value) -> Option<(String, String, String)> {
    let steps = case["expected"]["steps"].as_array().filter(|steps| steps.len() == 1)?;
    let message = steps[0]["raised"]["message"].as_str()?;
    let rest = message.strip_prefix("Tool '")?;
    let (tool, refusal) = rest.split_once("' execution failed: ")?;
    if !refusal.starts_with("tool args") {
        return None;
    }
    let asked = case["expected"]["llm_calls"].as_array()?.len();
    let next = &case["input"]["agent"]["llm_script"][asked];
    (next["type"] == "final").then_some(())?;
    Some((tool.to_owned(), refusal.to_owned(), next["content"].as_str()?.to_owned()))
}

fn ends_by_bad_arguments(case: &Value) -> bool {
    bad_arguments(case).is_some()
}

fn tell_the_model_instead(case: &mut Value) {
    let Some((tool, refusal, content)) = bad_arguments(case) else {
        return;
    };
    let calls = case["expected"]["llm_calls"].as_array().cloned().unwrap_or_default();
    let asked = &case["input"]["agent"]["llm_script"][calls.len() - 1];
    let said = taskreel::fidelity::python_json(asked);
    let mut shown = calls.last().cloned().unwrap_or_default();
    if let Some(shown) = shown.as_array_mut() {
        shown.push(json!({"role": "assistant", "content": said}));
        let hint = format!(
            "Tool '{tool}' call failed due to argument error: {refusal}. Please check the tool's \
             input_schema and try again."
        );
        shown.push(json!({"role": "system", "content": hint}));
    }
    let expected = &mut case["expected"];
    if let Some(calls) = expected["llm_calls"].as_array_mut() {
        calls.push(shown);
    }
    let step = expected.pointer_mut("/steps/0").expect("the case has a step");
    if let Some(step) = step.as_object_mut() {
        step.remove("raised");
    }
    let task = &mut step["task"];
    task["state"] = "completed".into();
    task["artifacts"] = json!([{
        "id": "<id:art#1>", "parts": [{"type": "infer_output", "content": content}], "metadata": {},
        "timestamp": "<ts>", "kind": "result", "name": null, "uri": null, "media_type": null,
        "action_id": null,
    }]);
    if let Some(metadata) = task["metadata"].as_object_mut() {
        metadata.remove("error");
    }
    if let Some(last) =
        task["metadata"]["state_history"].as_array_mut().and_then(|history| history.last_mut())
    {
        last["new_state"] = "completed".into();
    }
}

fn bad_arguments_example() -> (Value, Value) {
    let call = json!({"type": "tool_call", "tool": "add", "args": {"a": "x"}});
    let input = json!({"agent": {"llm_script": [call, {"type": "final", "content": "ok"}]}});
    let theirs = json!({"input": input, "expected": {
        "steps": [{
            "raised": {"type": "RuntimeError", "message": "Tool 'add' execution failed: tool args.b is required"},
            "task": {"state": "failed", "artifacts": [], "metadata": {
                "error": "Tool 'add' execution failed: tool args.b is required",
                "state_history": [{"new_state": "failed"}],
            }},
        }],
        "llm_calls": [[{"role": "user", "content": "go"}]],
    }});
    let mut ours = theirs.clone();
    tell_the_model_instead(&mut ours);
    let hint = "Tool 'add' call failed due to argument error: tool args.b is required. Please check the tool's \
                input_schema and try again.";
    assert_eq!(
        ours["expected"]["llm_calls"][1],
        json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": r#"{"type": "tool_call", "tool": "add", "args": {"a": "x"}}"#},
            {"role": "system", "content": hint},
        ])
    );
    (theirs, ours)
}

/// Whether the only operation truncates a list of messages that begins without a system prompt.
fn truncates_without_system(case: &Value) -> bool {
    let input = &case["input"];
    let (start, ops) = (input["start"].as_array(), input["ops"].as_array());
    let (Some(start), Some([op])) = (start, ops.map(Vec::as_slice)) else {
        return false;
    };
    let most = op["args"][0].as_u64().and_then(|most| usize::try_from(most).ok());
    op["op"] == "truncate"
        && start.first().is_some_and(|first| first["role"] != "system")
        && most.is_some_and(|most| (2..start.len()).contains(&most))
}

fn keep_the_newest(case: &mut Value) {
    let kept = case["expected"]["len"].as_u64().and_then(|kept| usize::try_from(kept).ok());
    let newest: Vec<Value> = case["input"]["start"]
        .as_array()
        .into_iter()
        .flat_map(|start| start.iter().skip(start.len().saturating_sub(kept.unwrap_or(0))))
        .map(whole_message)
        .collect();
    let shown: Vec<Value> = newest.iter().map(provider_view).collect();
    case["expected"]["messages"] = shown.into();
    case["expected"]["list"] = newest.into();
}

fn whole_message(given: &Value) -> Value {
    let mut whole = json!({"name": null, "metadata": {}, "tool_calls": {}, "tool_name": null});
    if let (Some(whole), Some(given)) = (whole.as_object_mut(), given.as_object()) {
        whole.extend(given.clone());
    }
    whole
}

fn provider_view(message: &Value) -> Value {
    let mut view = json!({"role": message["role"], "content": message["content"]});
    if message["name"].as_str().is_some_and(|name| !name.is_empty()) {
        view["name"] = message["name"].clone();
    }
    view
}

fn truncate_example() -> (Value, Value) {
    let message = |role: &str, content: &str| json!({"role": role, "content": content, "id": content, "created_at": "t"});
    let input = json!({
        "start": [message("user", "a"), message("assistant", "b"), message("user", "c")],
        "ops": [{"op": "truncate", "args": [2]}],
    });
    let answer = |first: (&str, &str)| {
        let kept = [message(first.0, first.1), message("user", "c")].map(|message| whole_message(&message));
        let shown = kept.each_ref().map(provider_view);
        json!({"input": input, "expected": {"log": ["ok"], "len": 2, "messages": shown, "list": kept}})
    };
    (answer(("user", "a")), answer(("assistant", "b")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_makes_of_its_example_what_it_says_and_of_the_result_nothing_else() {
        deviation::check_examples(RULES);
    }

    #[test]
    fn every_rule_says_where_what_and_why_and_has_a_name_of_its_own() {
        deviation::check_words(RULES);
    }
}
