//! Limits below two characters.

use proto_events::json;
use proto_events::json::JsonValue as Value;

use super::Deviation;

/// The settings that must be at least two, as the areas name them.
const OF_SETTINGS: [&str; 3] =
    ["send_message_character_limit", "minimized_object_string_length", "view_artifact_character_limit"];

pub(super) const fn rule(area: &'static str) -> Deviation {
    Deviation {
        area,
        name: "a limit is at least two characters",
        theirs: "takes any limit: 0 and 1 repeat the whole text, a negative one gives nonsense",
        ours: "refuses a limit below two",
        why: "a minimized text shows at least one character from each end",
        applies,
        change,
        example,
    }
}

/// Returns the first setting that is too small.
fn too_small(case: &Value) -> Option<(&'static str, i64)> {
    let input = &case["input"];
    let own = input["character_limit"].as_i64().map(|given| ("character_limit", given));
    // Beside an artifact's limit the length of strings is a setting, which is checked too.
    let length = input["minimized_object_string_length"].as_i64().filter(|_| !input["artifacts"].is_null());
    let length = length.map(|given| ("minimized_object_string_length", given));
    let settings = OF_SETTINGS.iter().filter_map(|name| Some((*name, input["settings"][*name].as_i64()?)));
    own.into_iter().chain(length).chain(settings).find(|(_, given)| *given < 2)
}

fn applies(case: &Value) -> bool {
    too_small(case).is_some()
}

fn change(case: &mut Value) {
    let Some((name, given)) = too_small(case) else { return };
    if let Some(whole) = case.as_object_mut() {
        whole.remove("expected");
    }
    case["error"] = json!({"type": "ValueError", "message": format!("{name} must be >= 2 (got {given})")});
}

fn example() -> (Value, Value) {
    let input = json!({"text": "abcde", "character_limit": 1});
    (
        json!({"input": input, "expected": {"text": "\n\n[... 5 characters omitted ...]\n\nabcde"}}),
        json!({"input": input, "error": {"type": "ValueError", "message": "character_limit must be >= 2 (got 1)"}}),
    )
}
