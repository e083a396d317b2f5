//! The decoder of the JSON in a model's reply.

use std::fmt::Write as _;

use proto_events::json::{JsonError, JsonText, JsonValue as Value};

use crate::grammar::json_errors;

/// The longest part of a reply that an error text quotes, in characters: the text is sent to the model.
const QUOTED_CHARS_MAX: usize = 2_000;

/// Decodes the whole text as JSON, else the part between the first `{` and the last `}`.
pub(crate) fn decode(raw: &str) -> Result<Value, String> {
    let whole = decode_json(raw.trim());
    if let Ok(value) = whole {
        return Ok(value);
    }
    let inner = raw.find('{').zip(raw.rfind('}')).and_then(|(from, to)| raw.get(from..=to));
    inner.map_or(whole, decode_json)
}

fn decode_json(text: &str) -> Result<Value, String> {
    let mended = escape_controls(text);
    let text = JsonText::parse(&mended).map_err(|error| match error {
        JsonError::TooDeep { .. } | JsonError::NotFinite => error.to_string(),
        JsonError::Syntax(_) => json_errors::describe(text),
    })?;
    Ok(text.tree())
}

/// Escapes control characters in strings: models write raw line breaks and tabs, which JSON forbids.
pub(crate) fn escape_controls(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for char in text.chars() {
        if in_string && char < ' ' {
            let code = u32::from(char);
            // A backslash before a control character is not an escape and stands for itself.
            out.push_str(if escaped { "\\" } else { "" });
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\\u{code:04x}");
            escaped = false;
            continue;
        }
        if char == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && char == '\\' && !escaped;
        out.push(char);
    }
    out
}

/// Returns the text, truncated if it is long.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => {
            format!("{}… ({} characters in all)", text.get(..end).unwrap_or_default(), text.chars().count())
        }
        None => text.to_owned(),
    }
}
