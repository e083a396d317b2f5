//! The output of the commands: colours, marks and widths that fit stdout.

use std::io;
use std::io::{BufWriter, IsTerminal, Stdout, Write};

use anstyle::{AnsiColor, Style};
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use taskreel_log::audit::json::one_line;

use crate::print::grid::{Cell, Column, Grid, Room};
use crate::print::pager;
use crate::print::pager::PagedOutput;
use crate::print::plain::{cut, escaped, indented, without_control};
use crate::print::problem::Problem;
use crate::print::state_style::StateStyle;

/// The longest text of a cell if the width is not known, in characters.
const CELL_CHARS: usize = 100;

/// The user's choice of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ColorChoice {
    /// Colours on a terminal, unless the environment forbids them.
    #[default]
    Auto,
    /// Colours always.
    Always,
    /// No colours.
    Never,
}

/// The output of a command. Only data goes through it; notes go to stderr by [`note`].
pub(crate) struct Screen {
    out: BufWriter<Box<dyn Write>>,
    /// Whether lines are JSON for programs.
    pub json: bool,
    /// Whether texts are printed in full, without cutting.
    pub full: bool,
    support: TerminalSupport,
    width: Option<usize>,
    reader: OutputReader,
}

/// The reader of stdout, and what its end means to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputReader {
    /// The command ends when its reader is gone.
    Needed,
    /// The command's answer counts, whether its output is read or not.
    Optional,
    /// The reader of such a command is gone.
    Gone,
}

/// The capabilities of the output.
#[derive(Debug, Clone, Copy)]
struct TerminalSupport {
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
    /// Returns the screen of the process's own stdout.
    pub(crate) fn stdout(json: bool, full: bool, wish: ColorChoice) -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let colour = match wish {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => auto_colour(&stdout),
        };
        Self {
            out: BufWriter::new(Box::new(stdout)),
            json,
            full,
            support: TerminalSupport { terminal, colour, unicode: locale_is_utf8() },
            width: terminal
                .then(terminal_size::terminal_size)
                .flatten()
                .map(|(width, _)| usize::from(width.0)),
            reader: OutputReader::Needed,
        }
    }

    /// Returns the screen of a command whose output goes through a pager where it is longer than the terminal; lines of JSON do
    /// not.
    #[must_use]
    pub(crate) fn paged(self, is_wanted: bool) -> Self {
        let size =
            terminal_size::terminal_size().filter(|_| is_wanted && self.support.terminal && !self.json);
        let Some((width, height)) = size else { return self };
        let paged = PagedOutput::new(io::stdout(), (usize::from(width.0), usize::from(height.0)));
        Self { out: BufWriter::new(Box::new(paged)), ..self }
    }

    /// Returns the screen of a command whose answer counts also where nobody reads its output to the end: a closed pipe
    /// ends the printing, and neither the command nor its exit code.
    #[must_use]
    pub(crate) fn for_answer(self) -> Self {
        Self { reader: OutputReader::Optional, ..self }
    }

    /// Whether the reader of the output is gone, of a command that goes on all the same.
    pub(crate) fn is_unread(&self) -> bool {
        self.reader == OutputReader::Gone
    }

    /// Returns the number of columns of the terminal; `None` if stdout is not a terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Returns a screen that writes to `out` as to a file: no colours, no width.
    #[cfg(test)]
    pub(crate) fn onto(out: impl Write + 'static, json: bool) -> Self {
        Self {
            out: BufWriter::new(Box::new(out)),
            json,
            full: true,
            support: TerminalSupport { terminal: false, colour: false, unicode: true },
            width: None,
            reader: OutputReader::Needed,
        }
    }

    /// Returns a screen that writes as to a terminal.
    #[cfg(test)]
    pub(crate) fn onto_terminal(self) -> Self {
        Self { support: TerminalSupport { terminal: true, ..self.support }, ..self }
    }

    /// Returns a screen of this width that cuts texts, as a terminal does.
    #[cfg(test)]
    pub(crate) fn with_width(self, width: usize) -> Self {
        Self { width: Some(width), full: false, ..self }
    }

    /// Whether the output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.support.terminal
    }

    /// Prints one line.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader is gone.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Problem> {
        if self.is_unread() {
            return Ok(());
        }
        let written = writeln!(self.out, "{text}");
        self.written(written)
    }

    /// Prints a text: as it is where stdout is not a terminal; on a terminal line by line, without what the terminal would obey,
    /// and with the end of its last line.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader is gone.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Problem> {
        if self.support.terminal {
            let text = text.strip_suffix('\n').unwrap_or(text);
            return text.split('\n').try_for_each(|line| self.line(&without_control(line)));
        }
        if self.is_unread() {
            return Ok(());
        }
        let written = self.out.write_all(text.as_bytes());
        self.written(written)
    }

    fn written(&mut self, written: io::Result<()>) -> Result<(), Problem> {
        match written {
            Err(error)
                if error.kind() == io::ErrorKind::BrokenPipe && self.reader != OutputReader::Needed =>
            {
                self.reader = OutputReader::Gone;
                Ok(())
            }
            written => written.map_err(|error| Problem::output(&error)),
        }
    }

    /// Prints one line of JSON; on a terminal with an escape for each character that it would obey or show nothing for.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader is gone.
    pub(crate) fn json_line(&mut self, json: &JsonText) -> Result<(), Problem> {
        self.line(&if self.support.terminal { escaped(json) } else { one_line(json) })
    }

    /// Prints a JSON value: indented on a terminal, on one line elsewhere.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader has gone.
    pub(crate) fn json_value(&mut self, json: &JsonText) -> Result<(), Problem> {
        if self.json || !self.support.terminal {
            return self.json_line(json);
        }
        self.line(&indented(json))
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader is gone.
    pub(crate) fn flush(&mut self) -> Result<(), Problem> {
        if self.is_unread() {
            return Ok(());
        }
        let written = self.out.flush();
        self.written(written)
    }

    /// Prints a table.
    ///
    /// # Errors
    /// A quiet [`Problem`] if the reader is gone.
    pub(crate) fn print(&mut self, table: &Grid) -> Result<(), Problem> {
        let room = Room {
            width: self.width.filter(|_| !self.full),
            text_max: if self.full || self.width.is_some() { None } else { Some(CELL_CHARS) },
            colour: self.support.colour,
            end: self.end(),
        };
        table.lines(room).iter().try_for_each(|line| self.line(line.trim_end()))
    }

    /// Returns an empty table with these columns.
    pub(crate) fn table(columns: &[Column]) -> Grid {
        Grid::new(columns)
    }

    /// Returns a state as mark and word, in its colour.
    pub(crate) fn state(&self, state: TaskState) -> String {
        let look = StateStyle::from_state(state);
        self.colored(&look.words(state, self.support.unicode), look.colour)
    }

    /// Returns the mark of something that is well, or that failed.
    pub(crate) fn mark(&self, is_failed: bool) -> String {
        let look = StateStyle::from_state(if is_failed { TaskState::Failed } else { TaskState::Completed });
        self.colored(if self.support.unicode { look.mark } else { look.ascii }, look.colour)
    }

    /// Whether the locale shows characters beyond ASCII.
    pub(crate) fn is_unicode(&self) -> bool {
        self.support.unicode
    }

    /// Whether colours are used.
    #[cfg(feature = "tui")]
    pub(crate) fn is_coloured(&self) -> bool {
        self.support.colour
    }

    /// Returns a state as a table cell.
    pub(crate) fn state_cell(&self, state: TaskState) -> Cell {
        let look = StateStyle::from_state(state);
        Cell::new(look.words(state, self.support.unicode))
            .styled(Style::new().fg_color(Some(look.colour.into())))
    }

    /// Returns important text as a table cell.
    pub(crate) fn bold_cell(&self, text: &str) -> Cell {
        Cell::new(self.plain(text)).styled(Style::new().bold())
    }

    /// Returns important text.
    pub(crate) fn bold(&self, text: &str) -> String {
        self.paint(text, Style::new().bold())
    }

    /// Returns text in one of the terminal's colours.
    pub(crate) fn colored(&self, text: &str, colour: AnsiColor) -> String {
        self.paint(text, Style::new().fg_color(Some(colour.into())))
    }

    fn paint(&self, text: &str, style: Style) -> String {
        if self.support.colour {
            format!("{}{text}{}", style.render(), style.render_reset())
        } else {
            text.to_owned()
        }
    }

    /// Returns text of less importance.
    pub(crate) fn dim(&self, text: &str) -> String {
        self.paint(text, Style::new().dimmed())
    }

    /// Cuts a text to the width left after `used` columns of its line, unless texts are printed in full.
    pub(crate) fn fit(&self, text: &str, used: usize) -> String {
        let text = self.plain(text);
        if self.full {
            return text;
        }
        cut(&text, self.width.map_or(CELL_CHARS, |width| width.saturating_sub(used)), self.end())
    }

    /// Returns the mark of a text that is cut.
    pub(crate) fn end(&self) -> &'static str {
        if self.support.unicode { "…" } else { "..." }
    }

    /// Returns a text from the log in the characters that this terminal can show, without control characters.
    pub(crate) fn plain(&self, text: &str) -> String {
        let text = without_control(text);
        if self.support.unicode {
            return text;
        }
        text.replace('→', "->").replace('·', "-").replace('…', "...")
    }
}

/// Returns a number with its noun: `1 task`, `2 tasks`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Prints a note for a person on stderr, ignoring a stderr that is gone.
pub(crate) fn note(text: &str) {
    let lines: Vec<_> = text.split('\n').map(without_control).collect();
    let lines = lines.join("\n");
    if !pager::keeps(&lines) {
        let _ = writeln!(io::stderr(), "{lines}");
    }
}

fn auto_colour(stdout: &Stdout) -> bool {
    // AutoStream respects NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM.
    !matches!(anstream::AutoStream::choice(stdout), anstream::ColorChoice::Never)
}

/// Whether the locale is UTF-8: the first of the three variables that is set decides.
pub(crate) fn locale_is_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_text_and_a_line_of_json_are_exact_in_a_file_and_steer_no_terminal() {
        let done = |print: &dyn Fn(&mut Screen), is_terminal: bool| {
            let page = Page::default();
            let screen = Screen::onto(page.clone(), false);
            let mut screen = if is_terminal { screen.onto_terminal() } else { screen };
            print(&mut screen);
            screen.flush().unwrap();
            let bytes = page.0.lock().unwrap().clone();
            String::from_utf8(bytes).unwrap()
        };
        let printed = |text: &str, is_terminal| done(&|screen| screen.text(text).unwrap(), is_terminal);
        let json = JsonText::string("\u{9b}2J\u{202e}turned");
        let line = |is_terminal| done(&|screen| screen.json_line(&json).unwrap(), is_terminal);
        assert_eq!(line(false), format!("{json}\n"));
        assert_eq!(line(true), "\"\\u009b2J\\u202eturned\"\n", "the same value");
        for text in ["", "a", "a\n", "\u{1b}[31mred\r\n\u{202e}turned", "\n\n"] {
            assert_eq!(printed(text, false), text);
        }
        let shown = printed("\u{1b}]0;title\u{7}\tred\n\u{9b}2J\u{202e}turned\n", true);
        assert_eq!(shown, "\\u001b]0;title\\u0007 red\n\\u009b2J\\u202eturned\n");
        assert_eq!(printed("a", true), "a\n", "the prompt begins on a line of its own");
    }
}
