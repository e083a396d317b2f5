//! Texts that are known to be JSON as trees. Such a text has been through a validating parser, so this one
//! only has to find where each value ends.

use crate::json::number::JsonNumber;
use crate::json::tree::{JsonMap, JsonValue};

/// Reads a text that a parser has accepted as one JSON value. Its nesting is bounded by who accepted it.
pub(super) fn parse_valid(text: &str) -> JsonValue {
    Reader { text, at: 0 }.value()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    /// Returns the next byte that is not a space, without taking it.
    fn peek(&mut self) -> u8 {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += spaces;
        rest.get(spaces).copied().unwrap_or_default()
    }

    /// Takes the next byte that is not a space, if it is this one.
    fn skip_if(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> JsonValue {
        match self.peek() {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => JsonValue::String(self.string()),
            b't' => self.word(4, JsonValue::Bool(true)),
            b'f' => self.word(5, JsonValue::Bool(false)),
            b'n' => self.word(4, JsonValue::Null),
            _ => self.number(),
        }
    }

    fn word(&mut self, bytes: usize, value: JsonValue) -> JsonValue {
        self.at += bytes;
        value
    }

    fn number(&mut self) -> JsonValue {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'));
        let end = end.unwrap_or(rest.len());
        self.at += end;
        JsonValue::Number(JsonNumber::of_valid(rest.get(..end).unwrap_or_default()))
    }

    fn string(&mut self) -> String {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let (mut end, mut escaped) = (start + 1, false);
        while let Some(byte) = bytes.get(end).filter(|byte| **byte != b'"') {
            let escape = *byte == b'\\';
            escaped |= escape;
            end += 1 + usize::from(escape);
        }
        self.at = end + 1;
        if escaped {
            let quoted = self.text.get(start..=end).unwrap_or_default();
            return serde_json::from_str(quoted).unwrap_or_default();
        }
        self.text.get(start + 1..end).unwrap_or_default().to_owned()
    }

    fn array(&mut self) -> JsonValue {
        let mut items = Vec::new();
        self.skip_if(b'[');
        while !self.skip_if(b']') && self.peek() != 0 {
            items.push(self.value());
            self.skip_if(b',');
        }
        JsonValue::Array(items)
    }

    fn object(&mut self) -> JsonValue {
        let mut fields = JsonMap::new();
        self.skip_if(b'{');
        while !self.skip_if(b'}') && self.peek() != 0 {
            let key = self.string();
            self.skip_if(b':');
            fields.insert(key, self.value());
            self.skip_if(b',');
        }
        JsonValue::Object(fields)
    }
}
