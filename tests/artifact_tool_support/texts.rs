//! Results of tools that are too long for a prompt: a text, a table, an object.

use proto_events::json;
use proto_events::json::JsonValue;

/// A text whose every word differs.
pub(crate) fn report() -> String {
    let lines: Vec<String> = (0..2_000).map(|n| format!("zoë {n}\n")).collect();
    lines.concat()
}

/// A table of persons.
pub(crate) fn rows() -> Vec<JsonValue> {
    (0..500).map(|n| json!({"name": format!("person {n}"), "age": n % 90})).collect()
}

/// An object that no summary makes small.
pub(crate) fn of_many_keys() -> JsonValue {
    JsonValue::Object((0..1_500).map(|n| (format!("ключ {n}"), JsonValue::from(n))).collect())
}
