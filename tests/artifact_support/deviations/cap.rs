//! The size of a minimized form.

use proto_events::json;
use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::indented_characters;

use super::Deviation;

pub(super) const fn rule(area: &'static str) -> Deviation {
    Deviation {
        area,
        name: "a minimized form has a size that it never exceeds",
        theirs: "has no bound: samples and tips stand whole, a list instead of a larger summary, an object keeps all keys",
        ours: "shortens tips, samples and strings, and if that does not do shows the head and the tail of the JSON: at most \
               twice the limit, or 16,384 characters, as JSON with all that stands around it",
        why: "what is shown to a model must fit its window whatever a tool returned",
        applies,
        change,
        example,
    }
}

fn most(case: &Value) -> u64 {
    let input = &case["input"];
    let limits = [&input["character_limit"], &input["settings"]["send_message_character_limit"]];
    let limit = limits.into_iter().find_map(Value::as_u64).unwrap_or(50_000);
    (2 * limit).max(16_384)
}

/// The characters that may stand around a form as JSON.
const AROUND: u64 = 40;

/// Returns the data of an answer that are larger than may be shown, by their pointers.
fn too_large(case: &Value) -> Vec<String> {
    let expected = &case["expected"];
    let mut data = vec!["/expected/data".to_owned()];
    for (list, at) in [(expected, "/expected"), (&expected["artifacts"], "/expected/artifacts")] {
        for (artifact, shown) in list.as_array().into_iter().flatten().enumerate() {
            let parts = shown["parts"].as_array().map_or(0, Vec::len);
            data.extend((0..parts).map(|part| format!("{at}/{artifact}/parts/{part}/data/data")));
        }
    }
    let most = most(case);
    data.retain(|pointer| {
        case.pointer(pointer)
            .is_some_and(|data| indented_characters(data) as u64 + AROUND > most && !data.is_string())
    });
    data
}

fn applies(case: &Value) -> bool {
    !too_large(case).is_empty()
}

fn change(case: &mut Value) {
    let most = most(case);
    for pointer in too_large(case) {
        let Some(answer) = pointer.strip_suffix("/data").and_then(|answer| case.pointer_mut(answer)) else {
            continue;
        };
        let of = answer["data"].clone();
        *answer = json!({"characters_at_most": most, "of": of});
    }
}

fn example() -> (Value, Value) {
    let large: Value = vec!["x".repeat(6_000); 3].into();
    let input = json!({"data": large, "character_limit": 100});
    (
        json!({"input": input, "expected": {"data": large}}),
        json!({"input": input, "expected": {"characters_at_most": 16_384, "of": large}}),
    )
}
