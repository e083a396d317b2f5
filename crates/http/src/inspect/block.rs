//! A piece of content: JSON on lines of its own, or a text; shown whole up to a bound, and beyond it on demand.

use proto_events::json::JsonText;

use crate::inspect::words;
use crate::limits::{INSPECT_BLOCK_MAX, INSPECT_PAGE_MAX};

/// The bytes that are shown of each content for which a page has no room.
const BEYOND_BYTES: usize = 256;

/// The deepest indentation; what lies deeper is indented as much.
const DEPTH_MAX: usize = 32;

/// A piece of content.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    /// The text, or its beginning.
    pub(crate) text: String,
    /// The size of the whole and the address where it is, if this is only its beginning.
    pub(crate) rest: Option<(String, String)>,
    /// The address where the whole is.
    whole_at: String,
    /// The whole, if this is only the beginning of something that no other page has.
    whole: Option<Whole>,
}

/// A whole content.
#[derive(Debug, Clone)]
enum Whole {
    Text(String),
    Json(JsonText),
}

impl Block {
    /// Returns a text, which stands whole at an address, or as [`whole`](Self::whole).
    pub(crate) fn text(text: &str, whole_at: &str) -> Self {
        let block = Self::within(text, INSPECT_BLOCK_MAX, whole_at);
        let whole = block.rest.as_ref().map(|_| Whole::Text(text.to_owned()));
        Self { whole, ..block }
    }

    /// Returns a text, of which a longer one than this many bytes is shown by its beginning.
    pub(crate) fn within(text: &str, bytes_max: usize, whole_at: &str) -> Self {
        let whole_at = whole_at.to_owned();
        if text.len() <= bytes_max {
            return Self { text: text.to_owned(), whole_at, ..Self::default() };
        }
        // A sixteenth of the bound: a caller that wants more asks for all.
        let beginning = beginning(text, INSPECT_BLOCK_MAX / 16).to_owned();
        let rest = Some((words::bytes(text.len()), whole_at.clone()));
        Self { text: beginning, rest, whole_at, whole: None }
    }

    /// Returns JSON on lines of its own.
    pub(crate) fn json(json: &JsonText, whole_at: &str) -> Self {
        let block = Self::json_within(json, INSPECT_BLOCK_MAX, whole_at);
        let whole = block.rest.as_ref().map(|_| Whole::Json(json.clone()));
        Self { whole, ..block }
    }

    /// Returns JSON on lines of its own, of which a longer one than this many bytes is shown by its beginning.
    pub(crate) fn json_within(json: &JsonText, bytes_max: usize, whole_at: &str) -> Self {
        if json.as_str().len() > bytes_max {
            return Self::within(json.as_str(), bytes_max, whole_at);
        }
        // Its lines are longer than the JSON itself, and stay whole, unless indentation is nearly all that they hold.
        let lines = indented(json.as_str());
        let is_deep = lines.len() > bytes_max.saturating_mul(4);
        Self::within(if is_deep { json.as_str() } else { &lines }, usize::MAX, whole_at)
    }

    /// Returns the whole content, however long it is.
    pub(crate) fn whole(self) -> String {
        match self.whole {
            Some(Whole::Text(text)) => text,
            Some(Whole::Json(json)) => indented(json.as_str()),
            None => self.text,
        }
    }

    /// Says where the whole is, if this is only its beginning.
    pub(crate) fn stands_at(&mut self, whole_at: impl FnOnce() -> String) {
        if let Some((_, address)) = self.rest.as_mut().filter(|_| self.whole.is_some()) {
            *address = whole_at();
            self.whole_at.clone_from(address);
        }
    }

    /// Leaves the contents of a page as they are as far as it has room for them, and of the others beginnings: a page of many
    /// contents that are each within their bound is too much for a browser.
    pub(crate) fn fit<'a>(blocks: impl IntoIterator<Item = &'a mut Self>) {
        let mut room = INSPECT_PAGE_MAX;
        for block in blocks {
            if block.text.len() > room.max(BEYOND_BYTES) {
                block.cut();
            }
            room = room.saturating_sub(block.text.len());
        }
    }

    fn cut(&mut self) {
        let kept = beginning(&self.text, BEYOND_BYTES).to_owned();
        let text = std::mem::replace(&mut self.text, kept);
        if self.rest.is_none() {
            self.rest = Some((words::bytes(text.len()), self.whole_at.clone()));
            self.whole = Some(Whole::Text(text));
        }
    }
}

/// Returns the beginning of a text, of at most this many bytes.
fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
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
        assert_eq!(block.whole(), long);
        assert!(Block::text("short", "/whole").rest.is_none());
        let deep = format!("{}1{}", "[".repeat(120), "]".repeat(120));
        let wide = JsonText::parse(&format!("[{}0]", format!("{deep},").repeat(60))).unwrap();
        let block = Block::json(&wide, "/whole");
        assert!(block.rest.is_none() && block.text.len() <= 4 * INSPECT_BLOCK_MAX, "{}", block.text.len());
        let json = JsonText::string(&long);
        let mut block = Block::json(&json, "/whole");
        block.stands_at(|| "/other".to_owned());
        assert_eq!(block.rest.as_ref().unwrap().1, "/other");
        assert_eq!(block.whole(), json.as_str());
    }

    #[test]
    fn a_page_shows_contents_as_far_as_it_has_room_and_each_is_there_on_demand() {
        let one = "x".repeat(INSPECT_BLOCK_MAX);
        let mut blocks: Vec<Block> = (0..100).map(|at| Block::text(&one, &format!("/{at}"))).collect();
        Block::fit(&mut blocks);
        let shown: usize = blocks.iter().map(|block| block.text.len()).sum();
        assert!(shown <= INSPECT_PAGE_MAX + 100 * BEYOND_BYTES, "{shown}");
        assert!(blocks[0].rest.is_none());
        assert_eq!(blocks[99].rest, Some(("64.0 KiB".to_owned(), "/99".to_owned())));
        assert!(blocks.into_iter().all(|block| block.whole() == one));
        let mut few = vec![Block::text("a", ""), Block::text(&one, "")];
        Block::fit(&mut few);
        assert!(few.iter().all(|block| block.rest.is_none()));
    }
}
