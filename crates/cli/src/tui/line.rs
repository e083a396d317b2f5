//! A line of the screen: pieces of text with a tone each. Text from the log is made visible here, whatever it holds, and only as much
//! of it is looked at as fits into the line.

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use taskreel_log::views::{columns, visible_cut};

use crate::tui::marks::{Marks, Tone};

/// A line of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ScreenLine(Vec<(String, Tone)>);

impl ScreenLine {
    /// Returns a line of one text.
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self(vec![(text.into(), tone)])
    }

    /// Returns a line of plain text.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }

    /// Returns the line with another piece at its end.
    #[must_use]
    pub(crate) fn and(mut self, text: impl Into<String>, tone: Tone) -> Self {
        self.0.push((text.into(), tone));
        self
    }

    /// Returns the line with the pieces of another one at its end.
    #[must_use]
    pub(crate) fn with(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().cloned());
        self
    }

    /// Returns the text of the line, as it was given.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// Whether a text in lower case stands in the line.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.0.iter().any(|(piece, _)| piece.to_lowercase().contains(text))
    }
}

/// A row of the screen to write into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScreenRow {
    /// The first column.
    pub(crate) x: u16,
    /// The row.
    pub(crate) y: u16,
    /// The number of columns.
    pub(crate) width: u16,
}

/// Writes a line into a row, cut to its width; `over` is laid over the style of each piece. Returns the columns that were used.
pub(crate) fn draw_line(
    buffer: &mut Buffer,
    row: ScreenRow,
    line: &ScreenLine,
    marks: Marks,
    over: Style,
) -> u16 {
    let mut used = 0;
    for (text, tone) in &line.0 {
        let room = row.width.saturating_sub(used);
        if room == 0 {
            break;
        }
        let shown = shown(text, usize::from(room), marks);
        let style = marks.style(*tone).patch(over);
        let (end, _) = buffer.set_stringn(row.x + used, row.y, &shown, usize::from(room), style);
        used = end.saturating_sub(row.x);
    }
    used
}

/// Returns a text as it is shown in this many columns.
pub(crate) fn shown(text: &str, room: usize, marks: Marks) -> String {
    let shown = visible_cut(text, room, marks.ellipsis());
    if marks.is_unicode {
        return shown;
    }
    let plain = shown.replace('→', "->").replace('·', "-").replace('…', "...");
    if columns(&plain) > room { visible_cut(&plain, room, marks.ellipsis()) } else { plain }
}
