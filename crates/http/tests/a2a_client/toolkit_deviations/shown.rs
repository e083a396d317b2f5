//! Answers as they are shown: limits, ranges of cut texts.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};

use super::watched::last_task;
use super::{Deviation, text_ranges};

const RANGES: Deviation = text_ranges::rule("tools");

const LIMITS: [&str; 3] =
    ["send_message_character_limit", "minimized_object_string_length", "view_artifact_character_limit"];

fn too_small(case: &Value) -> Option<String> {
    let settings = &case["input"]["settings"];
    LIMITS.iter().find_map(|name| {
        let given = settings[*name].as_i64().filter(|given| *given < 2)?;
        Some(format!("{name} must be >= 2 (got {given})"))
    })
}

pub(super) fn is_too_small(case: &Value) -> bool {
    too_small(case).is_some()
}

pub(super) fn refuse_limit(case: &mut Value) {
    let Some(message) = too_small(case) else { return };
    if let Some(whole) = case.as_object_mut() {
        whole.remove("expected");
    }
    case["error"] = json!({"type": "ValueError", "message": message.as_str()});
}

pub(super) fn limit_example() -> (Value, Value) {
    let input = json!({"tool": "get_agents", "settings": {"view_artifact_character_limit": 1}});
    let message = "view_artifact_character_limit must be >= 2 (got 1)";
    (
        json!({"input": input.clone(), "expected": {"output": {}}}),
        json!({"input": input, "error": {"type": "ValueError", "message": message}}),
    )
}

/// Returns the output with the ranges of the texts that were cut.
fn ranged(case: &Value) -> Option<Value> {
    if case["expected"]["output"]["kind"] != "task" {
        return None;
    }
    let mut task = last_task(case)?;
    let limit = case["input"]["settings"]["send_message_character_limit"].as_u64().unwrap_or(50_000);
    let mut output = case["expected"]["output"].clone();
    let artifacts = task.get_mut("artifacts").and_then(Value::as_array_mut);
    let shown = output.get_mut("artifacts").and_then(Value::as_array_mut);
    for (artifact, shown) in artifacts.into_iter().flatten().zip(shown.into_iter().flatten()) {
        let texts: Vec<String> = artifact["parts"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|part| part["text"].as_str().map(str::to_owned))
            .collect();
        let characters = texts.concat().chars().count();
        if texts.len() > 1 && characters as u64 > limit && limit >= 2 {
            let text = texts.join("\n");
            let half = usize::try_from(limit / 2).unwrap_or(usize::MAX);
            let all: Vec<char> = text.chars().collect();
            let part = |range: &[char]| range.iter().collect::<String>();
            let omitted = with_commas(all.len() - 2 * half);
            let (head, tail) = (part(&all[..half]), part(&all[all.len() - half..]));
            shown["parts"].as_array_mut()?.get_mut(0)?["text"] =
                format!("{head}\n\n[... {omitted} characters omitted ...]\n\n{tail}").into();
            artifact["parts"] = json!([{"kind": "text", "text": text}]);
        }
    }
    let settings = case["input"].get("settings").cloned().unwrap_or(Value::from(JsonMap::new()));
    let mut ranged = json!({"input": {"task": task, "settings": settings}, "expected": output});
    if (RANGES.applies)(&ranged) {
        (RANGES.change)(&mut ranged);
    }
    Some(ranged["expected"].clone())
}

fn with_commas(number: usize) -> String {
    if number < 1_000 {
        number.to_string()
    } else {
        format!("{},{:03}", with_commas(number / 1_000), number % 1_000)
    }
}

pub(super) fn is_cut(case: &Value) -> bool {
    ranged(case).is_some_and(|output| output != case["expected"]["output"])
}

pub(super) fn add_ranges(case: &mut Value) {
    if let Some(output) = ranged(case) {
        case["expected"]["output"] = output;
    }
}

pub(super) fn cut_example() -> (Value, Value) {
    let parts = json!([{"kind": "text", "text": "abc"}, {"kind": "text", "text": "defghi"}]);
    let task = json!({"kind": "task", "id": "t", "status": {"state": "completed"}, "artifacts": [{"artifactId": "a", "parts": parts}]});
    let case = |part: Value| {
        let output = json!({"id": "t", "kind": "task", "status": {"state": "completed"},
            "artifacts": [{"artifact_id": "a", "parts": [part]}]});
        json!({"input": {"tool": "get_task", "args": {"agent_id": "rb", "task_id": "t"}, "settings": {"send_message_character_limit": 4},
            "remote": {"get_task": [{"result": task.clone()}]}}, "expected": {"output": output, "calls": ["tasks/get"]}})
    };
    let theirs = json!({"kind": "text", "text": "ab\n\n[... 5 characters omitted ...]\n\nhi"});
    let ours = json!({"kind": "text", "text": "ab\n\n[... 6 characters omitted ...]\n\nhi", "_total_lines": 2,
        "_total_characters": 10, "_start_line_range": "1-1", "_end_line_range": "2-2", "_start_character_range": "0-2",
        "_end_character_range": "8-10", "_tip": "Text was minimized. Call view_text_artifact() to view specific line ranges."});
    (case(theirs), case(ours))
}
