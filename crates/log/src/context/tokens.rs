//! A rough estimate of the tokens of a value: Protolink's, four characters for each.
//!
//! A text counts as itself, any other value as its JSON with `", "` and `": "` as separators and without
//! escapes for non-ASCII characters. No text is built for this: the characters are counted in place.

use proto_events::json::{JsonNumber, JsonText, JsonValue as Value};
use proto_events::model::python::repr_float;

/// Characters that count as one token.
const CHARS_PER_TOKEN: u64 = 4;

/// Estimates the tokens of a value: 0 for null and the empty text, at least 1 for all else.
pub fn estimate_tokens(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        Value::String(text) => of_chars(chars(text)),
        other => of_chars(json_chars(other)).max(1),
    }
}

/// Estimates the tokens of a text.
pub(crate) fn estimate_text(text: &str) -> u64 {
    of_chars(chars(text))
}

/// The estimated tokens of a list of messages as a provider sees them; updated as the list grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessagesEstimate {
    chars: u64,
    messages: u64,
}

impl MessagesEstimate {
    /// Adds a message: role, content, and a name if it has one.
    pub fn add(&mut self, role: &str, content: &str, name: Option<&str>) {
        const AROUND: u64 = chars_of_ascii(r#"{"role": , "content": }"#);
        const AROUND_NAME: u64 = chars_of_ascii(r#", "name": "#);
        let name = name.filter(|name| !name.is_empty()).map_or(0, |name| AROUND_NAME + text_chars(name));
        self.chars += AROUND + text_chars(role) + text_chars(content) + name;
        self.messages += 1;
    }

    /// Adds the calls that the message added last asks for through the provider's own interface, in the form in which it
    /// keeps them.
    pub fn add_calls(&mut self, calls: &JsonText) {
        const AROUND: u64 = chars_of_ascii(r#", "tool_calls": "#);
        if calls.as_str().starts_with('[') {
            self.chars += AROUND + chars(calls.as_str());
        }
    }

    /// Returns the estimate for the messages added so far.
    pub fn tokens(&self) -> u64 {
        let between = 2 * self.messages.saturating_sub(1);
        of_chars(self.chars + between + 2)
    }
}

const fn chars_of_ascii(text: &str) -> u64 {
    text.len() as u64
}

fn of_chars(chars: u64) -> u64 {
    chars.div_ceil(CHARS_PER_TOKEN)
}

fn chars(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

/// Counts the characters of a value's JSON.
fn json_chars(value: &Value) -> u64 {
    let between = |count: usize| u64::try_from(2 * count.saturating_sub(1)).unwrap_or(u64::MAX);
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number_chars(number),
        Value::String(text) => text_chars(text),
        Value::Array(items) => 2 + between(items.len()) + items.iter().map(json_chars).sum::<u64>(),
        Value::Object(fields) => {
            let pair = |(key, value): (&String, &Value)| text_chars(key) + 2 + json_chars(value);
            2 + between(fields.len()) + fields.iter().map(pair).sum::<u64>()
        }
    }
}

/// Counts the characters of a number as Python prints it: floats are formatted again, integers stay as they
/// are.
fn number_chars(number: &JsonNumber) -> u64 {
    let text = number.as_str();
    match number.as_f64().filter(|_| text.contains(['.', 'e', 'E'])) {
        Some(float) => chars(&repr_float(float)),
        None => chars(text),
    }
}

/// Counts the characters of a text in JSON, quotes and escapes included.
fn text_chars(text: &str) -> u64 {
    let escaped = |char: char| match char {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    };
    2 + text.chars().map(escaped).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use proto_events::json;

    use super::*;

    #[test]
    fn escapes_and_floats_count_as_python_writes_them() {
        assert_eq!(json_chars(&json!("a\"\\\n\u{1}\u{7f}é")), 2 + 1 + 2 + 2 + 2 + 6 + 1 + 1);
        assert_eq!(
            json_chars(&serde_json::from_str::<Value>("[1e16,1.50,100000000000000000000]").unwrap()),
            35
        );
        assert_eq!(json_chars(&json!({"a": {}, "b": [false, null]})), 29);
    }

    #[test]
    fn messages_count_the_same_one_by_one_as_in_a_list() {
        let said = [("system", "s\n", None), ("user", "é\"", Some("alice")), ("assistant", "", Some(""))];
        let (mut estimate_of_messages, mut list) = (MessagesEstimate::default(), Vec::new());
        assert_eq!(estimate_of_messages.tokens(), 1);
        for (role, content, name) in said {
            estimate_of_messages.add(role, content, name);
            let mut message = json!({"role": role, "content": content});
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                message["name"] = json!(name);
            }
            list.push(message);
            assert_eq!(estimate_of_messages.tokens(), estimate_tokens(&json!(list)));
        }
    }
}
