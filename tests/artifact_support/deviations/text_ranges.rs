//! Ranges and tips of minimized texts.

use proto_events::json;
use proto_events::json::JsonValue as Value;

use super::Deviation;

pub(super) const fn rule(area: &'static str) -> Deviation {
    Deviation {
        area,
        name: "a minimized text keeps its ranges and its tip",
        theirs: "drops both from an artifact's text, so that the tip has no effect",
        ours: "keeps them, as the TypeScript package does",
        why: "without them a model cannot know what was left out, nor how to see it",
        applies,
        change,
        example,
    }
}

/// Returns the artifacts of the input and the limit and the tip of their texts.
fn of_input(case: &Value) -> (Vec<Value>, usize, Option<String>) {
    let input = &case["input"];
    let is_task = !input["task"].is_null();
    let artifacts = if is_task { &input["task"]["artifacts"] } else { &input["artifacts"] };
    let limit =
        if is_task { &input["settings"]["send_message_character_limit"] } else { &input["character_limit"] };
    let limit = limit.as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(50_000);
    let tip = if is_task {
        Some("Text was minimized. Call view_text_artifact() to view specific line ranges.".to_owned())
    } else {
        input["text_tip"].as_str().map(str::to_owned)
    };
    (artifacts.as_array().cloned().unwrap_or_default(), limit, tip)
}

/// Returns the ranges as a2a-utils counts them: lines are walked from each end until half the limit is reached.
fn ranges(text: &str, limit: usize) -> Value {
    let half = limit / 2;
    let lines: Vec<usize> = text.split('\n').map(|line| line.chars().count() + 1).collect();
    let reach = |sizes: &mut dyn Iterator<Item = usize>| {
        let mut sum = 0;
        sizes
            .take_while(|size| {
                sum += size;
                sum < half
            })
            .count()
    };
    let total = text.chars().count();
    let head = reach(&mut lines.iter().copied()) + 1;
    let tail = lines.len() - reach(&mut lines.iter().rev().copied());
    json!({
        "_total_lines": lines.len(),
        "_total_characters": total,
        "_start_line_range": format!("1-{head}"),
        "_end_line_range": format!("{tail}-{}", lines.len()),
        "_start_character_range": format!("0-{half}"),
        "_end_character_range": format!("{}-{total}", total - half),
    })
}

fn applies(case: &Value) -> bool {
    let mut kept = case.clone();
    change(&mut kept);
    kept != *case
}

fn change(case: &mut Value) {
    let (artifacts, limit, tip) = of_input(case);
    let is_task = !case["input"]["task"].is_null();
    let shown = if is_task { case.pointer_mut("/expected/artifacts") } else { case.get_mut("expected") };
    let shown = shown.and_then(Value::as_array_mut);
    for (artifact, shown) in artifacts.iter().zip(shown.into_iter().flatten()) {
        let parts = artifact["parts"].as_array().into_iter().flatten();
        let text: String = parts.filter_map(|part| part["text"].as_str()).collect();
        if text.chars().count() <= limit || limit < 2 {
            continue;
        }
        let Some(part) = shown.pointer_mut("/parts/0").and_then(Value::as_object_mut) else { continue };
        for (key, value) in ranges(&text, limit).as_object().into_iter().flatten() {
            part.insert(key.clone(), value.clone());
        }
        if let Some(tip) = &tip {
            part.insert("_tip", tip.as_str().into());
        }
    }
}

fn example() -> (Value, Value) {
    let part = json!({"kind": "text", "text": "ab\n\n[... 3 characters omitted ...]\n\nef"});
    let input = json!({
        "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": "ab\nc\nef"}]}],
        "character_limit": 4, "text_tip": "T",
    });
    let case = |part: Value| json!({"input": input, "expected": [{"artifact_id": "a", "parts": [part]}]});
    let mut kept = part.clone();
    for (key, value) in [
        ("_total_lines", json!(3)),
        ("_total_characters", json!(7)),
        ("_start_line_range", json!("1-1")),
        ("_end_line_range", json!("3-3")),
        ("_start_character_range", json!("0-2")),
        ("_end_character_range", json!("5-7")),
        ("_tip", json!("T")),
    ] {
        kept[key] = value;
    }
    (case(part), case(kept))
}
