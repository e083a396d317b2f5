//! The characters of all diagrams, and texts that are safe inside SVG, Mermaid and DOT.

use std::fmt::Write as _;

use proto_events::id::Version;

use crate::views::visible::{columns, cut};

/// The narrowest diagram in characters, in columns.
pub const DIAGRAM_COLUMNS_MIN: usize = 40;

/// The characters of a diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiagramMarks {
    pub(crate) line: char,
    pub(crate) across: char,
    pub(crate) right: char,
    pub(crate) left: char,
    pub(crate) here: char,
    pub(crate) failed: char,
    pub(crate) to_right: char,
    pub(crate) to_left: char,
    pub(crate) crossing: char,
    /// The mark of a text that is cut.
    pub end: &'static str,
}

impl DiagramMarks {
    /// Lines in box characters.
    pub const BOX: Self = Self {
        line: '│',
        across: '─',
        right: '▶',
        left: '◀',
        here: '●',
        failed: '✗',
        to_right: '├',
        to_left: '┤',
        crossing: '┼',
        end: "…",
    };

    /// Lines in ASCII.
    pub const ASCII: Self = Self {
        line: '|',
        across: '-',
        right: '>',
        left: '<',
        here: '*',
        failed: 'x',
        to_right: '+',
        to_left: '+',
        crossing: '+',
        end: "...",
    };
}

/// A row of characters of one column each.
#[derive(Debug, Clone)]
pub(crate) struct Cells(Vec<char>);

impl Cells {
    pub(crate) fn new(width: usize) -> Self {
        Self(vec![' '; width])
    }

    pub(crate) fn set(&mut self, at: usize, mark: char) {
        if let Some(cell) = self.0.get_mut(at) {
            *cell = mark;
        }
    }

    pub(crate) fn get(&self, at: usize) -> char {
        self.0.get(at).copied().unwrap_or(' ')
    }

    pub(crate) fn text(&self) -> String {
        self.0.iter().collect()
    }
}

/// Puts a text behind what is drawn, cut to the width.
pub(crate) fn labelled(drawn: &str, label: &str, width: usize, end: &str) -> String {
    let room = width.saturating_sub(columns(drawn) + 1);
    format!("{drawn} {}", cut(label, room, end)).trim_end().to_owned()
}

/// Returns a text for the contents or an attribute of XML. Characters that XML does not have were made visible before.
pub(crate) fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

/// A function that returns the address of a version.
pub(crate) type Address<'a> = &'a dyn Fn(Version) -> String;

/// Puts what is drawn of a version into a link to its address, where there is one.
pub(crate) fn linked(drawn: &str, version: Version, address: Option<Address<'_>>) -> String {
    match address.map(|address| address(version)).filter(|address| !address.is_empty()) {
        Some(address) => format!("<a href=\"{}\">{drawn}</a>", xml(&address)),
        None => drawn.to_owned(),
    }
}

/// Returns a text for a label of Mermaid: what its language, or the HTML that it becomes, would read is written by number.
pub(crate) fn mermaid(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        // `end` closes a block of Mermaid wherever it stands.
        let is_end = text.get(at..at + 3).is_some_and(|word| word.eq_ignore_ascii_case("end"));
        if (letter.is_alphanumeric() && !is_end) || " .,/=_…·→".contains(letter) {
            safe.push(letter);
        } else {
            let _ = write!(safe, "#{};", u32::from(letter));
        }
    }
    safe
}

/// Returns a text in quotes for DOT.
pub(crate) fn dot(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Begins a picture of this size in pixels. It has no script, no style sheet and no reference to anything outside.
pub(crate) fn svg_begin(width: usize, height: usize, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" font-family=\"monospace\" font-size=\"13\" fill=\"currentColor\" stroke=\"none\">\n<title>{}</title>\n",
        xml(title)
    )
}
