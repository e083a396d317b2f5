//! A piece of content: JSON on lines of its own, or a text; shown whole up to a bound, and beyond it on demand.

use proto_events::json::JsonText;

use crate::inspect::words;
use crate::limits::INSPECT_BLOCK_MAX;

/// The deepest indentation; what lies deeper is indented as much.
const DEPTH_MAX: usize = 32;

/// A piece of content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    /// The text, or its beginning.
    pub(crate) text: String,
    /// The size of the whole and the address where it is, if this is only its beginning.
    pub(crate) rest: Option<(String, String)>,
}

impl Block {
    /// Returns a text, which stands whole at an address.
    pub(crate) fn text(text: &str, whole_at: &str) -> Self {
        Self::within(text, INSPECT_BLOCK_MAX, whole_at)
    }

    /// Returns a text, of which a longer one than this many bytes is shown by its beginning.
    pub(crate) fn within(text: &str, bytes_max: usize, whole_at: &str) -> Self {
        if text.len() <= bytes_max {
            return Self { text: text.to_owned(), rest: None };
        }
        // A sixteenth of the bound: whoever wants more asks for all.
        let mut end = INSPECT_BLOCK_MAX / 16;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let beginning = text.get(..end).unwrap_or_default().to_owned();
        Self { text: beginning, rest: Some((words::bytes(text.len()), whole_at.to_owned())) }
    }

    /// Returns JSON on lines of its own.
    pub(crate) fn json(json: &JsonText, whole_at: &str) -> Self {
        Self::json_within(json, INSPECT_BLOCK_MAX, whole_at)
    }

    /// Returns JSON on lines of its own, of which a longer one than this many bytes is shown by its beginning.
    pub(crate) fn json_within(json: &JsonText, bytes_max: usize, whole_at: &str) -> Self {
        if json.as_str().len() > bytes_max {
            return Self::within(json.as_str(), bytes_max, whole_at);
        }
        // Its lines are longer than the JSON itself, and stay whole.
        Self::within(&indented(json.as_str()), usize::MAX, whole_at)
    }
}

/// Returns JSON on lines of its own, each value in its own writing.
pub(crate) fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 3 / 2);
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(DEPTH_MAX)));
    };
    let mut letters = json.chars().peekable();
    while let Some(letter) = letters.next() {
        if in_text {
            out.push(letter);
            in_text = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
            continue;
        }
        match letter {
            ' ' | '\n' | '\r' | '\t' => {}
            '"' => {
                in_text = true;
                out.push('"');
            }
            '{' | '[' => {
                out.push(letter);
                while letters.peek().is_some_and(char::is_ascii_whitespace) {
                    letters.next();
                }
                if matches!(letters.peek(), Some('}' | ']')) {
                    out.extend(letters.next());
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_writing_of_its_values() {
        let json = r#"{"a":[1.50,{ },[ ]],"b":"x\"{,}:","c":{"d":null}}"#;
        let lines = "{\n  \"a\": [\n    1.50,\n    {},\n    []\n  ],\n  \"b\": \"x\\\"{,}:\",\n  \"c\": {\n    \"d\": null\n  }\n}";
        assert_eq!(indented(json), lines);
        assert_eq!(indented(&"[".repeat(10_000)).matches('[').count(), 10_000);
    }

    #[test]
    fn a_long_text_is_there_on_demand() {
        let long = "ü".repeat(INSPECT_BLOCK_MAX);
        let block = Block::text(&long, "/whole");
        assert!(block.text.len() <= INSPECT_BLOCK_MAX / 16 && long.starts_with(&block.text));
        assert_eq!(block.rest, Some(("128.0 KiB".to_owned(), "/whole".to_owned())));
        assert!(Block::text("short", "/whole").rest.is_none());
    }
}
