//! Tables that fit the width of the terminal: ids are never cut, and no line wraps.

use std::fmt::Write as _;

use anstyle::Style;

use crate::print::plain::{columns, cut};

/// The blanks between two columns.
const GAP: &str = "  ";

/// The width to which a column of texts is cut at the most.
const CUT_COLUMNS_MIN: usize = 8;

/// The behaviour of a column where a line is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// The column is never cut: an id that is cut names nothing.
    Whole,
    /// The texts are cut to the room that is left.
    Cut,
    /// The column is left out.
    Spare,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    fit: Fit,
}

/// Returns a column that is never cut.
pub(crate) const fn uncut(name: &'static str) -> Column {
    Column { name, fit: Fit::Whole }
}

/// Returns a column whose texts are cut where a line is too long.
pub(crate) const fn words(name: &'static str) -> Column {
    Column { name, fit: Fit::Cut }
}

/// Returns a column that is left out where a line is too long; of several ones, the last is left out first.
pub(crate) const fn spare(name: &'static str) -> Column {
    Column { name, fit: Fit::Spare }
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    style: Style,
    is_figure: bool,
}

impl Cell {
    /// Returns a cell with this text, which holds no character that a terminal obeys.
    #[expect(clippy::needless_pass_by_value, reason = "figures and texts are given as they are")]
    pub(crate) fn new(text: impl ToString) -> Self {
        Self { text: text.to_string(), ..Self::default() }
    }

    /// Returns a cell whose text stands at the right.
    pub(crate) fn figure(text: impl ToString) -> Self {
        Self { is_figure: true, ..Self::new(text) }
    }

    /// Returns the cell in this style.
    pub(crate) fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }
}

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// The room and the means of the place where a table is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// The columns of the terminal, if lines must not be longer.
    pub(crate) width: Option<usize>,
    /// The width to which texts are cut in any case.
    pub(crate) text_max: Option<usize>,
    /// Whether styles are shown.
    pub(crate) colour: bool,
    /// The mark of a text that is cut.
    pub(crate) end: &'static str,
}

impl Grid {
    /// Returns an empty table with these columns.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Returns the lines of the table, the header first.
    pub(crate) fn lines(&self, room: Room) -> Vec<String> {
        let widths = self.widths(room);
        let head: Vec<Cell> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let is_figure =
                    self.rows.first().and_then(|row| row.get(at)).is_some_and(|cell| cell.is_figure);
                Cell { is_figure, ..Cell::new(column.name).styled(Style::new().dimmed()) }
            })
            .collect();
        std::iter::once(&head).chain(&self.rows).map(|row| format_row(row, &widths, room)).collect()
    }

    /// Returns the width of each column; `None` for one that is left out.
    fn widths(&self, room: Room) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| Some(self.natural(at, *column, room)))
            .collect();
        let Some(width) = room.width else { return widths };
        let least = |widths: &[Option<usize>]| -> usize {
            let all = widths.iter().zip(&self.columns).filter_map(|(width, column)| {
                let width = (*width)?;
                Some(if column.fit == Fit::Cut { width.min(CUT_COLUMNS_MIN) } else { width } + GAP.len())
            });
            all.sum::<usize>().saturating_sub(GAP.len())
        };
        for (at, column) in self.columns.iter().enumerate().rev() {
            if least(&widths) > width && column.fit == Fit::Spare {
                widths.get_mut(at).map(Option::take);
            }
        }
        let sum = |widths: &[Option<usize>]| {
            widths.iter().flatten().map(|width| width + GAP.len()).sum::<usize>().saturating_sub(GAP.len())
        };
        while sum(&widths) > width {
            let texts = widths.iter_mut().zip(&self.columns).filter(|(_, column)| column.fit == Fit::Cut);
            match texts.filter_map(|(width, _)| width.as_mut()).max() {
                Some(widest) if *widest > CUT_COLUMNS_MIN => *widest -= 1,
                _ => break,
            }
        }
        widths
    }

    fn natural(&self, at: usize, column: Column, room: Room) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(&cell.text));
        let widest = cells.chain([columns(column.name)]).max().unwrap_or_default();
        match (column.fit, room.text_max) {
            (Fit::Cut, Some(most)) => widest.min(most),
            _ => widest,
        }
    }
}

fn format_row(row: &[Cell], widths: &[Option<usize>], room: Room) -> String {
    let mut line = String::new();
    let mut blanks = 0;
    for (cell, width) in row.iter().zip(widths).filter_map(|(cell, width)| Some((cell, (*width)?))) {
        // The text of an id is never wider than its column.
        let text = cut(&cell.text, width, room.end);
        let missing = width.saturating_sub(columns(&text));
        let (before, after) = if cell.is_figure { (missing, 0) } else { (0, missing) };
        line.push_str(&" ".repeat(blanks + before));
        if room.colour && !cell.style.is_plain() {
            let _ = write!(line, "{}{text}{}", cell.style.render(), cell.style.render_reset());
        } else {
            line.push_str(&text);
        }
        blanks = after + GAP.len();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new(&[uncut("id"), words("what"), spare("age")]);
        grid.row(vec![Cell::new("task-1234567890"), Cell::new("a text of some length"), Cell::figure(7)]);
        grid.row(vec![Cell::new("t"), Cell::new("日本"), Cell::figure(12)]);
        grid
    }

    fn room(width: Option<usize>) -> Room {
        Room { width, text_max: None, colour: false, end: "…" }
    }

    #[test]
    fn a_table_is_as_wide_as_its_texts_where_no_width_is_known() {
        let lines = grid().lines(room(None));
        assert_eq!(lines[1], "task-1234567890  a text of some length    7");
        assert_eq!(lines[2], "t                日本                    12");
    }

    #[test]
    fn texts_are_cut_and_spare_columns_left_out_but_ids_stay_whole() {
        for width in 25..60 {
            let lines = grid().lines(room(Some(width)));
            assert!(lines.iter().all(|line| columns(line) <= width), "{width}: {lines:#?}");
            assert!(lines[1].starts_with("task-1234567890"), "{width}: {lines:#?}");
        }
        assert!(!grid().lines(room(Some(25)))[0].contains("age"));
        assert!(grid().lines(room(Some(5)))[1].contains("task-1234567890"));
    }
}
