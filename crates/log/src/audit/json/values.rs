//! The values that events are printed with.

use proto_events::json::{JsonObject, JsonText, JsonValue as Value};

/// Returns an object with these fields, in this order.
pub fn object<const N: usize>(fields: [(&str, JsonText); N]) -> JsonText {
    let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<JsonObject>();
    // Depth is not limited: whatever the log holds must be printable.
    JsonText::of_model(&fields)
}

/// Returns an object with the fields that have a value, in this order.
pub(crate) fn object_of_some<const N: usize>(fields: [(&str, Option<JsonText>); N]) -> JsonText {
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    JsonText::of_model(&fields.collect::<JsonObject>())
}

/// Returns a JSON string.
pub fn text(value: &str) -> JsonText {
    JsonText::string(value)
}

/// Returns a whole number.
pub fn number(value: impl Into<u64>) -> JsonText {
    JsonText::from(Value::from(value.into()))
}

/// Returns a JSON string, or null.
pub fn text_or_null(value: Option<&str>) -> JsonText {
    value.map_or_else(JsonText::null, text)
}

/// Returns the text of a JSON value on one line, without line breaks and blanks between tokens; tokens are
/// unchanged.
pub fn one_line(json: &JsonText) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let keep = |letter: &char| {
        let keep = in_string || !letter.is_ascii_whitespace();
        match letter {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
        keep
    };
    json.as_str().chars().filter(keep).collect()
}

/// Returns an array.
pub(crate) fn list(items: impl Iterator<Item = JsonText>) -> JsonText {
    let items: Vec<JsonText> = items.collect();
    JsonText::of_model(&items)
}
