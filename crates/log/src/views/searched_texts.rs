//! The texts of an event that a search looks through: messages, arguments, results, and what failed.

use proto_events::json::{JsonText, JsonValue};

/// The kind of text in which something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SearchedArea {
    /// Messages of users, models, agents and tools; questions, answers and reasons of people.
    Message,
    /// The arguments of a call.
    Arguments,
    /// The result of a call, an artifact, or the state that a tool keeps.
    Result,
    /// The reason of a failure.
    Error,
}

impl SearchedArea {
    /// Returns its name on screens and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Arguments => "arguments",
            Self::Result => "result",
            Self::Error => "error",
        }
    }
}

/// The outermost names in an event's payload under which such texts stand.
const AREAS: [(&str, SearchedArea); 16] = [
    ("message", SearchedArea::Message),
    ("summary", SearchedArea::Message),
    ("question", SearchedArea::Message),
    ("answer", SearchedArea::Message),
    ("declined", SearchedArea::Message),
    ("reason", SearchedArea::Message),
    ("args", SearchedArea::Arguments),
    ("result", SearchedArea::Result),
    ("reply", SearchedArea::Result),
    ("said", SearchedArea::Result),
    ("value", SearchedArea::Result),
    ("artifact", SearchedArea::Result),
    ("failure", SearchedArea::Error),
    ("why", SearchedArea::Error),
    ("messages", SearchedArea::Message),
    ("artifacts", SearchedArea::Result),
];

/// Returns JSON within a text with its characters in the place of their escapes (`\u5185`); `None` if it is not JSON, or has none.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    if !text.contains("\\u") || JsonText::parse(text).is_err() {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        plain.push_str(before);
        // A pair of halves stands for one character. Any other escape stays as it is written.
        let length =
            [12, 6, 2].into_iter().find(|length| *length == 2 || character(escape, *length).is_some());
        let (escape, after) = escape.split_at_checked(length?)?;
        match character(escape, escape.len()) {
            Some(character) => plain.push(character),
            None => plain.push_str(escape),
        }
        rest = after;
    }
    Some(plain + rest)
}

/// Returns the character that the first bytes of a text, one or two escapes, stand for.
fn character(text: &str, length: usize) -> Option<char> {
    let mut units = Vec::new();
    for escape in text.get(..length)?.as_bytes().chunks(6) {
        let digits = std::str::from_utf8(escape).ok()?.strip_prefix("\\u")?;
        units.push(u16::from_str_radix(digits, 16).ok()?);
    }
    let mut characters = char::decode_utf16(units);
    let first = characters.next()?.ok()?;
    characters.next().is_none().then_some(first)
}

/// The length in bytes after which a path is not continued: a value may nest to any depth.
const PATH_BYTES_MAX: usize = 1_024;

/// The names in a message or an artifact under which its texts stand; the others are ids and times.
const CONTENTS: [&str; 3] = ["content", "parts", "tool_calls"];

/// Shows `visit` each text of an event's payload, with its area and its path, in their order.
pub(crate) fn each_text<'a>(payload: &'a JsonValue, visit: &mut dyn FnMut(SearchedArea, &str, &'a str)) {
    each_field(payload, "payload", visit);
    if let Some(task) = payload.get("task") {
        // A task as it was submitted.
        each_field(task, "payload.task", visit);
    }
}

fn each_field<'a>(payload: &'a JsonValue, path: &str, visit: &mut dyn FnMut(SearchedArea, &str, &'a str)) {
    let Some(fields) = payload.as_object() else { return };
    for (name, value) in fields {
        let Some((_, area)) = AREAS.iter().find(|(known, _)| known == name) else { continue };
        let is_said = matches!(name.as_str(), "message" | "messages" | "summary" | "artifact" | "artifacts");
        walk(value, &member(path, name), is_said, &mut |path, text| visit(*area, path, text));
    }
}

/// Walks through a value, by a worklist since it may nest to any depth. Of what somebody said, only the contents are walked
/// through.
fn walk<'a>(value: &'a JsonValue, path: &str, is_said: bool, visit: &mut dyn FnMut(&str, &'a str)) {
    let mut todo = vec![(path.to_owned(), value, is_said)];
    while let Some((path, value, is_said)) = todo.pop() {
        match value {
            JsonValue::String(text) => visit(&path, text),
            JsonValue::Number(number) => visit(&path, number.as_str()),
            JsonValue::Null | JsonValue::Bool(_) => {}
            JsonValue::Array(items) => {
                let items = items.iter().enumerate();
                todo.extend(items.rev().map(|(at, item)| (element(&path, at), item, is_said)));
            }
            JsonValue::Object(fields) => {
                let fields =
                    fields.iter().rev().filter(|(name, _)| !is_said || CONTENTS.contains(&name.as_str()));
                // The parts of a message have a content of their own.
                todo.extend(
                    fields.map(|(name, inner)| (member(&path, name), inner, is_said && name == "parts")),
                );
            }
        }
    }
}

fn element(path: &str, at: usize) -> String {
    if path.len() > PATH_BYTES_MAX { path.to_owned() } else { format!("{path}[{at}]") }
}

/// Returns the path of a member, as a condition names it.
fn member(path: &str, name: &str) -> String {
    if path.len() + name.len() > PATH_BYTES_MAX {
        return path.to_owned();
    }
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-".contains(letter);
    if !name.is_empty() && name.chars().all(is_plain) {
        return format!("{path}.{name}");
    }
    format!("{path}.\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_escapes_of_json_within_a_text_are_characters_and_all_else_stays() {
        let read = |text: &str| unescaped(text);
        assert_eq!(read(r#"{"dept": "\u5185\u90e8", "n": 1}"#).unwrap(), r#"{"dept": "内部", "n": 1}"#);
        assert_eq!(
            read(r#"["\ud83d\ude00\n", "\\u5185", "\u00fc"]"#).unwrap(),
            r#"["😀\n", "\\u5185", "ü"]"#
        );
        for plain in ["no JSON \\u5185", "{\"a\": 1}", "", "\"\\u12"] {
            assert_eq!(read(plain), None, "{plain}");
        }
    }
}
