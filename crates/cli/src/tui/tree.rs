//! The rows of a content: sections, JSON as a tree that folds, texts in their lines. What is folded is not laid out.

use std::collections::HashMap;
use std::fmt::Write as _;

use proto_events::json::{JsonText, JsonValue};
use taskreel_log::views::columns;

use crate::tui::data::{Body, Content, Section};
use crate::tui::line::ScreenLine;
use crate::tui::marks::Tone;
use crate::tui::wrap::wrapped;

/// The most children of a value that is open by itself.
const CHILDREN_OPEN_MAX: usize = 60;

/// The depth down to which values are open by themselves.
const DEPTH_OPEN_MAX: usize = 7;

/// The most rows that are open by themselves.
const ROWS_OPEN_MAX: usize = 400;

/// The most bytes of a text in a value that is open by itself.
const TEXT_OPEN_BYTES: usize = 1_000;

/// The most bytes of the text of a section that is open by itself.
const SECTION_OPEN_BYTES: usize = 64 << 10;

/// The bytes of a text that are looked at for a row that shows its beginning.
const BEGINNING_BYTES: usize = 400;

/// The place of a row: the number of the section, then the numbers of the children on the way to it.
pub(crate) type RowId = Vec<usize>;

/// The values that were opened or folded by hand.
pub(crate) type Folds = HashMap<RowId, bool>;

/// A row of a content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContentRow {
    /// The place; empty for a line at the top.
    pub(crate) id: RowId,
    /// The columns that it is indented by.
    pub(crate) indent: usize,
    /// Whether it is open, of a row that folds.
    pub(crate) is_open: Option<bool>,
    /// The text.
    pub(crate) line: ScreenLine,
}

/// Returns the rows of a content in this many columns.
pub(crate) fn rows(content: &Content, folds: &Folds, width: usize) -> Vec<ContentRow> {
    let mut made = Layout { folds, width, rows: Vec::new() };
    for line in &content.head {
        made.head(line);
    }
    for (at, section) in content.sections.iter().enumerate() {
        made.section(&[at], section);
    }
    made.rows
}

struct Layout<'a> {
    folds: &'a Folds,
    width: usize,
    rows: Vec<ContentRow>,
}

impl Layout<'_> {
    fn push(&mut self, id: &[usize], indent: usize, is_open: Option<bool>, line: ScreenLine) {
        self.rows.push(ContentRow { id: id.to_vec(), indent, is_open, line });
    }

    /// Adds a line at the top, broken where it is too long: what it says is never cut.
    fn head(&mut self, line: &ScreenLine) {
        let text = line.text();
        if text.len() <= self.width {
            return self.push(&[], 0, None, line.clone());
        }
        for (at, row) in wrapped(&text, self.width).into_iter().enumerate() {
            self.push(&[], usize::from(at > 0), None, ScreenLine::plain(row));
        }
    }

    fn is_open(&self, id: &[usize], by_itself: bool) -> bool {
        self.folds.get(id).copied().unwrap_or(by_itself)
    }

    fn section(&mut self, id: &[usize], section: &Section) {
        let title = |text: String| ScreenLine::new(text, section.tone);
        match &section.body {
            Body::Empty => self.push(id, 0, None, title(section.title.clone())),
            Body::Text(text) => {
                let is_open = self.is_open(id, text.len() <= SECTION_OPEN_BYTES);
                let size = if text.len() > TEXT_OPEN_BYTES { bytes(text.len()) } else { String::new() };
                let line = title(section.title.clone()).and(size, Tone::Dim);
                self.push(id, 0, Some(is_open), line);
                if is_open {
                    self.text(id, 2, text);
                }
            }
            Body::Json(value) => {
                let is_open = self.is_open(id, true);
                self.push(id, 0, Some(is_open), title(section.title.clone()));
                if is_open {
                    match &**value {
                        JsonValue::Object(_) | JsonValue::Array(_) => self.children(id, 2, value),
                        one => self.value(&[id, &[0]].concat(), 2, None, one),
                    }
                }
            }
        }
    }

    fn text(&mut self, id: &[usize], indent: usize, text: &str) {
        for row in wrapped(text, self.width.saturating_sub(indent)) {
            self.push(id, indent, None, ScreenLine::plain(row));
        }
    }

    fn children(&mut self, id: &[usize], indent: usize, value: &JsonValue) {
        let child = |at: usize| [id, &[at]].concat();
        match value {
            JsonValue::Object(fields) => {
                for (at, (key, value)) in fields.iter().enumerate() {
                    self.value(&child(at), indent, Some(key.clone()), value);
                }
            }
            JsonValue::Array(items) => {
                for (at, value) in items.iter().enumerate() {
                    self.value(&child(at), indent, Some(at.to_string()), value);
                }
            }
            _ => {}
        }
    }

    fn value(&mut self, id: &[usize], indent: usize, key: Option<String>, value: &JsonValue) {
        let named = match key {
            Some(key) => ScreenLine::new(key, Tone::Key).and(": ", Tone::Dim),
            None => ScreenLine::default(),
        };
        let by_itself = |children: usize| {
            children <= CHILDREN_OPEN_MAX && id.len() <= DEPTH_OPEN_MAX && self.rows.len() < ROWS_OPEN_MAX
        };
        let (children, word) = match value {
            JsonValue::Object(fields) => (fields.iter().count(), "{}"),
            JsonValue::Array(items) => (items.len(), "[]"),
            JsonValue::String(text) => return self.string(id, indent, named, text),
            other => {
                return self.push(id, indent + 2, None, named.and(other.to_string(), Tone::Plain));
            }
        };
        if children == 0 {
            return self.push(id, indent + 2, None, named.and(word, Tone::Plain));
        }
        let is_open = self.is_open(id, by_itself(children));
        let of = match word {
            "{}" => format!("{{{children}}}"),
            _ => format!("[{children}]"),
        };
        let mut line = named.and(of, Tone::Dim);
        if !is_open {
            line = line.and(format!(" {}", beginning(value)), Tone::Dim);
        }
        self.push(id, indent, Some(is_open), line);
        if is_open {
            self.children(id, indent + 2, value);
        }
    }

    fn string(&mut self, id: &[usize], indent: usize, named: ScreenLine, text: &str) {
        let room = self.width.saturating_sub(indent + columns(&named.text()) + 4);
        // Cheap for a long one: more bytes than four times the columns do not fit.
        let fits = text.len() <= room.saturating_mul(4) && !text.contains('\n') && columns(text) <= room;
        if fits {
            // Beside the marks of those that fold.
            return self.push(id, indent + 2, None, named.and(quoted(text), Tone::Plain));
        }
        let is_open = self.is_open(id, text.len() <= TEXT_OPEN_BYTES);
        let size = bytes(text.len());
        let line = if is_open {
            named.and(size.trim_start().to_owned(), Tone::Dim)
        } else {
            let end = (0..=BEGINNING_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
            let text = text.get(..end.unwrap_or_default()).unwrap_or_default();
            named.and(size.trim_start().to_owned(), Tone::Dim).and(format!(" {}", quoted(text)), Tone::Plain)
        };
        self.push(id, indent, Some(is_open), line);
        if is_open {
            self.text(id, indent + 2, text);
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn bytes(number: usize) -> String {
    match number {
        ..1_024 => format!("  {number} B"),
        1_024..1_048_576 => format!("  {}.{} KiB", number / 1_024, number % 1_024 * 10 / 1_024),
        _ => format!("  {}.{} MiB", number / 1_048_576, number % 1_048_576 * 10 / 1_048_576),
    }
}

/// Returns the beginning of a value that is folded, from its first children only.
fn beginning(value: &JsonValue) -> String {
    let short = |value: &JsonValue| match value {
        JsonValue::Object(_) => "{…}".to_owned(),
        JsonValue::Array(_) => "[…]".to_owned(),
        JsonValue::String(text) => quoted(&text.chars().take(40).collect::<String>()),
        other => other.to_string(),
    };
    match value {
        JsonValue::Object(fields) => {
            let some = fields.iter().take(6).map(|(key, value)| format!("{key}: {}", short(value)));
            some.collect::<Vec<_>>().join(", ")
        }
        JsonValue::Array(items) => items.iter().take(8).map(short).collect::<Vec<_>>().join(", "),
        other => short(other),
    }
}

/// Returns the value at a row, and its path as `--where` takes it, below `root`.
pub(crate) fn value_at(content: &Content, id: &[usize], root: &str) -> Option<(JsonText, String)> {
    let (section, steps) = id.split_first()?;
    let Body::Json(value) = &content.sections.get(*section)?.body else { return None };
    let (mut value, mut path) = (&**value, root.to_owned());
    for step in steps {
        match value {
            JsonValue::Object(fields) => {
                let (key, next) = fields.iter().nth(*step)?;
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                value = next;
            }
            JsonValue::Array(items) => {
                let _ = write!(path, "[{step}]");
                value = items.get(*step)?;
            }
            _ => break,
        }
    }
    Some((value.to_text(), path))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn content(json: &str) -> Content {
        let mut content = Content::default();
        content.json("payload", &JsonText::parse(json).unwrap());
        content
    }

    fn texts(rows: &[ContentRow]) -> Vec<String> {
        rows.iter().map(|row| format!("{}{}", " ".repeat(row.indent), row.line.text())).collect()
    }

    #[test]
    fn a_value_folds_and_its_path_is_the_one_of_conditions() {
        let content = content(r#"{"a":{"b":[1,"x"]},"c":null,"d":{}}"#);
        let open = rows(&content, &Folds::new(), 60);
        assert_eq!(
            texts(&open),
            [
                "payload",
                "  a: {1}",
                "    b: [2]",
                "        0: 1",
                "        1: \"x\"",
                "    c: null",
                "    d: {}"
            ]
        );
        let folded = rows(&content, &Folds::from([(vec![0, 0], false)]), 60);
        assert_eq!(texts(&folded)[1], "  a: {1} b: […]");
        assert_eq!(folded.len(), 4);
        let (value, path) = value_at(&content, &open[4].id, "payload").unwrap();
        assert_eq!((value.as_str(), path.as_str()), ("\"x\"", "payload.a.b[1]"));
    }

    #[test]
    fn what_is_large_is_folded_and_costs_nothing_until_it_is_opened() {
        let text =
            format!(r#"{{"text":"{}","list":[{}0]}}"#, "long ".repeat(2_000_000), "0,".repeat(100_000));
        let content = content(&text);
        let began = Instant::now();
        let made = rows(&content, &Folds::new(), 40);
        assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
        assert_eq!(made.len(), 3);
        assert!(texts(&made)[1].contains("9.5 MiB"), "{:?}", &texts(&made)[1].get(..60));
        let opened = rows(&content, &Folds::from([(vec![0, 1], true)]), 40);
        assert_eq!(opened.len(), 3 + 100_001);
    }
}
