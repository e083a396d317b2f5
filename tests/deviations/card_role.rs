//! The role of an agent, which stands in our cards.

use proto_events::json;
use proto_events::json::JsonValue as Value;

/// Whether the case writes a card.
pub(super) fn applies(case: &Value) -> bool {
    case["expected"]["to_dict"].is_object()
}

pub(super) fn change(case: &mut Value) {
    let role = case["input"]["data"]["role"].as_str().filter(|role| !role.is_empty());
    let role = role.unwrap_or("worker").to_owned();
    let expected = &mut case["expected"];
    expected["to_dict"]["role"] = role.clone().into();
    if !expected["role"].is_null() {
        expected["role"] = role.into();
    }
}

pub(super) fn example() -> (Value, Value) {
    let answer = |expected: Value| json!({"input": {"data": {"role": "gateway"}}, "expected": expected});
    (
        answer(json!({"to_dict": {"tags": []}, "role": "worker"})),
        answer(json!({"to_dict": {"tags": [], "role": "gateway"}, "role": "gateway"})),
    )
}
