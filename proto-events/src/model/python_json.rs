//! Python's `json.dumps` of a value: as text, in the forms that a2a-utils and Protolink write and compare, and as a
//! number of characters without building the text. Numbers keep their original text, except in sorted texts.

use std::fmt::Write as _;

use crate::json::{JsonNumber, JsonValue as Value};
use crate::model::python::repr_float;

/// Returns Python's name for the type of a JSON value.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_float() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// The form in which a value is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Whether characters beyond ASCII stand as themselves instead of as `\u` escapes.
    pub unicode: bool,
    /// Whether every member stands on a line of its own, indented by two spaces for each level.
    pub indented: bool,
    /// Whether keys are sorted and floats written as Python prints them, so that equal values have equal texts.
    pub sorted: bool,
}

/// Formats as `json.dumps(value)`: with `", "` and `": "` as separators, everything beyond ASCII escaped.
pub fn python_json(value: &Value) -> String {
    written(value, Style::default())
}

/// Formats as `json.dumps(value, sort_keys=True)` with floats as Python prints them: equal values have equal
/// texts.
pub fn python_json_sorted(value: &Value) -> String {
    written(value, Style { sorted: true, ..Style::default() })
}

/// Formats a value in a style of `json.dumps`.
pub fn written(value: &Value, style: Style) -> String {
    let mut out = String::new();
    write_value(&mut out, value, style, 0);
    out
}

fn write_value(out: &mut String, value: &Value, style: Style, level: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(out, number, style),
        Value::String(text) => write_text(out, text, style),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                begin_member(out, index, style, level);
                write_value(out, item, style, level + 1);
            }
            end_members(out, ']', items.is_empty(), style, level);
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            if style.sorted {
                fields.sort_by(|left, right| left.0.cmp(right.0));
            }
            out.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                begin_member(out, index, style, level);
                write_text(out, key, style);
                out.push_str(": ");
                write_value(out, value, style, level + 1);
            }
            end_members(out, '}', fields.is_empty(), style, level);
        }
    }
}

fn begin_member(out: &mut String, index: usize, style: Style, level: usize) {
    if style.indented {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.extend(std::iter::repeat_n("  ", level + 1));
    } else if index > 0 {
        out.push_str(", ");
    }
}

fn end_members(out: &mut String, bracket: char, is_empty: bool, style: Style, level: usize) {
    if style.indented && !is_empty {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    }
    out.push(bracket);
}

fn write_number(out: &mut String, number: &JsonNumber, style: Style) {
    if style.sorted && number.is_float() {
        out.push_str(&repr_float(number.as_str().parse().unwrap_or(f64::NAN)));
    } else if style.sorted && number.as_str() == "-0" {
        // Python's integers have no negative zero.
        out.push('0');
    } else {
        out.push_str(number.as_str());
    }
}

fn write_text(out: &mut String, text: &str, style: Style) {
    out.push('"');
    if text.bytes().all(is_plain) {
        out.push_str(text);
    } else {
        for char in text.chars() {
            write_char(out, char, style);
        }
    }
    out.push('"');
}

fn write_char(out: &mut String, char: char, style: Style) {
    match char {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        ' '..='~' => out.push(char),
        '\u{7f}'.. if style.unicode => out.push(char),
        _ => {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\'
}

/// Counts the characters of [`python_json`].
pub fn line_characters(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text_characters(text),
        Value::Array(items) => 2 + between(items.len()) + items.iter().map(line_characters).sum::<usize>(),
        Value::Object(fields) => {
            let pair = |(key, value): (&String, &Value)| text_characters(key) + 2 + line_characters(value);
            2 + between(fields.len()) + fields.iter().map(pair).sum::<usize>()
        }
    }
}

/// Counts the characters of `json.dumps(value, indent=2)`.
pub fn indented_characters(value: &Value) -> usize {
    indented_at(value, 0)
}

/// Counts the characters of a value that stands at `level` of an indented one.
pub fn indented_at(value: &Value, level: usize) -> usize {
    match value {
        Value::Array(items) => indented_list(items.iter().map(|item| indented_at(item, level + 1)), level),
        Value::Object(fields) => indented_object(fields.iter(), level),
        other => line_characters(other),
    }
}

/// Counts the characters of an indented object with these members, at `level` of an indented value.
pub fn indented_object<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>, level: usize) -> usize {
    indented_list(members.map(|(key, value)| text_characters(key) + 2 + indented_at(value, level + 1)), level)
}

/// Counts the characters of an indented list whose items have these sizes, at `level` of an indented value.
pub fn indented_list(sizes: impl Iterator<Item = usize>, level: usize) -> usize {
    let (count, inside) = sizes.fold((0_usize, 0), |(count, sum), size| (count + 1, sum + size));
    if count == 0 { 2 } else { inside + 4 + between(count) + 2 * (level + 1) * count + 2 * level }
}

/// Counts the characters of the separators between members.
fn between(count: usize) -> usize {
    2 * count.saturating_sub(1)
}

/// Counts the characters of a text in JSON, with its quotes, everything beyond ASCII escaped.
pub fn text_characters(text: &str) -> usize {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let count = |bytes: &[u8]| bytes.iter().copied().map(escaped_characters).sum::<usize>();
    let word = |bytes: &[u8; 8]| if is_plain_word(*bytes) { bytes.len() } else { count(bytes) };
    2 + words.iter().map(word).sum::<usize>() + count(rest)
}

/// Whether eight bytes are all written as themselves, found without a look at each.
const fn is_plain_word(bytes: [u8; 8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH_BITS: u64 = ONES * 0x80;
    /// The high bits of the bytes that are below one of at most 0x80, if there are any.
    const fn below(word: u64, byte: u64) -> u64 {
        word.wrapping_sub(ONES * byte) & !word & HIGH_BITS
    }
    const fn equal(word: u64, byte: u64) -> u64 {
        below(word ^ (ONES * byte), 1)
    }
    let word = u64::from_le_bytes(bytes);
    let escaped = equal(word, 0x22) | equal(word, 0x5c) | equal(word, 0x7f);
    (word & HIGH_BITS) | below(word, 0x20) | escaped == 0
}

/// Returns the characters that a byte costs: an escape is counted at the first byte of its character, and a character
/// of four bytes is two escapes.
const fn escaped_characters(byte: u8) -> usize {
    match byte {
        0x08 | 0x09 | 0x0a | 0x0c | 0x0d | 0x22 | 0x5c => 2,
        0x20..=0x7e => 1,
        0x80..=0xbf => 0,
        0xf0.. => 12,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn json_has_pythons_separators_and_keeps_numbers() {
        let value = parsed(r#"{"b":[1.0,1180591620717411303424],"a":"é😀\u0001\u007f\"","e":{}}"#);
        assert_eq!(
            python_json(&value),
            r#"{"b": [1.0, 1180591620717411303424], "a": "\u00e9\ud83d\ude00\u0001\u007f\"", "e": {}}"#
        );
        assert!(python_json_sorted(&value).starts_with(r#"{"a": "#));
        let sorted = |text| python_json_sorted(&parsed(text));
        assert_eq!(sorted("[3.0e0,1E5,1.50,1,-0.0]"), sorted("[3.0,100000.0,1.5,1,-0e0]"));
        assert_ne!(sorted("[1]"), sorted("[1.0]"));
        assert_ne!(sorted("[1e999]"), sorted("[-1e999]"));
    }

    #[test]
    fn indented_json_is_pythons() {
        let value = parsed(r#"{"b":[1.50,[],{}],"a":{"é\n":null}}"#);
        let style = Style { indented: true, ..Style::default() };
        assert_eq!(
            written(&value, style),
            "{\n  \"b\": [\n    1.50,\n    [],\n    {}\n  ],\n  \"a\": {\n    \"\\u00e9\\n\": null\n  }\n}"
        );
        let unicode = written(&value, Style { unicode: true, ..style });
        assert!(unicode.contains("\"é\\n\""), "{unicode}");
    }

    #[test]
    fn characters_are_counted_as_they_are_written() {
        for text in [
            "null",
            "[true,false,null,1e16,-0,1.50]",
            r#"["é😀\u0001\u007f\"\\\b\f\n\r\t/",""]"#,
            r#"{"a":{"b":[[],{},[1],{"c":[{"d":"日本"}]}]},"é":""}"#,
            r#"["plain text of several words","eight b\"","tail \u001f and more","1234567\u007f89 ~~~~","ends in 日本"]"#,
        ] {
            let value = parsed(text);
            assert_eq!(line_characters(&value), python_json(&value).len(), "{text}");
            let indented = written(&value, Style { indented: true, ..Style::default() });
            assert_eq!(indented_characters(&value), indented.len(), "{text}");
        }
    }
}
