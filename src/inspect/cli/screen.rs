//! Where lines go and how they look: colours, marks and widths by what stdout is.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use anstyle::{AnsiColor, Style};
use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, TableStyle};
use proto_events::json::JsonText;
use proto_events::model::TaskState;

use super::Problem;
use crate::audit::json::one_line;

/// Longest text of a cell where the width is not known, in characters.
const CELL_CHARS: usize = 100;

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorWish {
    /// On a terminal, unless the environment says no.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What commands print on. Only data goes through it; notes go to stderr by [`note`].
pub struct Screen {
    out: BufWriter<Box<dyn Write>>,
    /// Whether lines are JSON for programs.
    pub json: bool,
    /// Whether nothing is cut off.
    pub full: bool,
    shows: Shows,
    width: Option<usize>,
}

/// What the other end can show.
#[derive(Debug, Clone, Copy)]
struct Shows {
    terminal: bool,
    colour: bool,
    unicode: bool,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("json", &self.json).finish_non_exhaustive()
    }
}

impl Screen {
    /// The process's own stdout.
    pub fn stdout(json: bool, full: bool, wish: ColorWish) -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let colour = match wish {
            ColorWish::Always => true,
            ColorWish::Never => false,
            ColorWish::Auto => auto_colour(&stdout),
        };
        Self {
            out: BufWriter::new(Box::new(stdout)),
            json,
            full,
            shows: Shows { terminal, colour, unicode: speaks_utf8() },
            width: terminal
                .then(terminal_size::terminal_size)
                .flatten()
                .map(|(width, _)| usize::from(width.0)),
        }
    }

    /// Anything that takes bytes, as if it were a file: no colours, no width.
    pub fn onto(out: impl Write + 'static, json: bool) -> Self {
        Self {
            out: BufWriter::new(Box::new(out)),
            json,
            full: true,
            shows: Shows { terminal: false, colour: false, unicode: true },
            width: None,
        }
    }

    /// Whether a person looks at it.
    pub fn is_terminal(&self) -> bool {
        self.shows.terminal
    }

    /// One line.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader has gone.
    pub fn line(&mut self, text: &str) -> Result<(), Problem> {
        writeln!(self.out, "{text}").map_err(|error| Problem::output(&error))
    }

    /// One line of JSON.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader has gone.
    pub fn json_line(&mut self, json: &JsonText) -> Result<(), Problem> {
        self.line(&one_line(json))
    }

    /// One thing: indented on a terminal, one line of JSON elsewhere.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader has gone.
    pub fn json_thing(&mut self, json: &JsonText) -> Result<(), Problem> {
        if self.json || !self.shows.terminal {
            return self.json_line(json);
        }
        // What nests deeper than a value may is shown on one line rather than not at all.
        match serde_json::from_str::<serde_json::Value>(json.as_str()) {
            Ok(value) => self.line(&format!("{value:#}")),
            Err(_) => self.json_line(json),
        }
    }

    /// Hands everything to the reader now.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader has gone.
    pub fn flush(&mut self) -> Result<(), Problem> {
        self.out.flush().map_err(|error| Problem::output(&error))
    }

    /// A table with these columns.
    pub fn table(&self, columns: &[&str]) -> Table {
        let mut table = Table::new();
        table.load_style(TableStyle::new());
        if self.shows.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        if let Some(width) = self.width {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        }
        table.set_header(columns.iter().map(|column| Cell::new(column).add_attribute(Attribute::Dim)));
        table
    }

    /// Prints a table.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader has gone.
    pub fn print(&mut self, table: &Table) -> Result<(), Problem> {
        for line in table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// A state as mark and word, in its colour.
    pub fn state(&self, state: TaskState) -> String {
        let look = Look::of(state);
        self.colored(&look.words(state, self.shows.unicode), look.colour)
    }

    /// A state as the cell of a table.
    pub fn state_cell(&self, state: TaskState) -> Cell {
        let look = Look::of(state);
        Cell::new(look.words(state, self.shows.unicode)).fg(look.cell)
    }

    /// Important text as the cell of a table.
    pub fn bold_cell(&self, text: &str) -> Cell {
        Cell::new(text).add_attribute(Attribute::Bold)
    }

    /// Important text.
    pub fn bold(&self, text: &str) -> String {
        self.paint(text, Style::new().bold())
    }

    /// Text in one of the terminal's colours.
    pub fn colored(&self, text: &str, colour: AnsiColor) -> String {
        self.paint(text, Style::new().fg_color(Some(colour.into())))
    }

    fn paint(&self, text: &str, style: Style) -> String {
        if self.shows.colour {
            format!("{}{text}{}", style.render(), style.render_reset())
        } else {
            text.to_owned()
        }
    }

    /// A text cut to what fits behind `used` characters of its line; whole, where everything is wanted.
    pub fn fit(&self, text: &str, used: usize) -> String {
        let text = self.plain(text);
        if self.full {
            return text;
        }
        let room = self.width.map_or(CELL_CHARS, |width| width.saturating_sub(used).max(20));
        cut(&text, room, if self.shows.unicode { "…" } else { "..." })
    }

    /// A text from the log with the letters that this terminal has, and none that would steer it.
    pub fn plain(&self, text: &str) -> String {
        let text = harmless(text);
        if self.shows.unicode {
            return text;
        }
        text.replace('→', "->").replace('·', "-").replace('…', "...")
    }
}

/// How a state looks: never by colour alone.
struct Look {
    mark: &'static str,
    ascii: &'static str,
    colour: AnsiColor,
    cell: Color,
}

impl Look {
    fn of(state: TaskState) -> Self {
        let (mark, ascii, colour, cell) = match state {
            TaskState::Submitted => ("○", "o", AnsiColor::Blue, Color::DarkBlue),
            TaskState::Working => ("●", "*", AnsiColor::Cyan, Color::DarkCyan),
            TaskState::InputRequired => ("?", "?", AnsiColor::Yellow, Color::DarkYellow),
            TaskState::Completed => ("✓", "+", AnsiColor::Green, Color::DarkGreen),
            TaskState::Failed => ("✗", "x", AnsiColor::Red, Color::DarkRed),
            TaskState::Canceled => ("⊘", "-", AnsiColor::Magenta, Color::DarkMagenta),
            TaskState::Unknown => ("·", ".", AnsiColor::White, Color::Grey),
        };
        Self { mark, ascii, colour, cell }
    }

    fn words(&self, state: TaskState, unicode: bool) -> String {
        format!("{} {state}", if unicode { self.mark } else { self.ascii })
    }
}

/// A text without control characters: what comes from a log or an input must not move anybody's cursor.
pub(super) fn harmless(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// A number of things in words: `1 task`, `2 tasks`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A note for the person, on stderr. A stderr that is gone is nobody's loss.
pub fn note(text: &str) {
    let lines: Vec<_> = text.split('\n').map(harmless).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

fn cut(text: &str, room: usize, end: &str) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(end.chars().count())).collect();
    kept + end
}

fn auto_colour(stdout: &Stdout) -> bool {
    // NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM are looked at there.
    !matches!(anstream::AutoStream::choice(stdout), anstream::ColorChoice::Never)
}

/// Whether the locale says UTF-8: the first of the three that is set decides.
pub(super) fn speaks_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_ends_in_a_mark_and_fits() {
        assert_eq!(cut("abcdef", 6, "…"), "abcdef");
        assert_eq!(cut("abcdefg", 6, "…"), "abcde…");
        assert_eq!(cut("äöüäöüä", 6, "..."), "äöü...");
    }
}
