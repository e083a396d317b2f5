//! The output of `a2a`: fields and blocks for people, or the protocol's own JSON. Its form follows from the command line alone.

use proto_events::json::JsonText;

use crate::a2a::failure::Failure;
use crate::a2a::settings::Settings;
use crate::print::plain::{escaped, without_control};
use crate::print::problem::Problem;
use crate::print::screen::{ColorChoice, Screen, note};

/// The indentation of a block's lines, by which none of them is taken for a field, nor for the block's end.
const INDENT: &str = "  ";

/// The output.
#[derive(Debug)]
pub(crate) struct Out {
    /// Whether it is JSON.
    pub(crate) json: bool,
    /// Whether all is shown.
    pub(crate) verbose: bool,
    screen: Screen,
}

/// A failed write. The reader that has gone is not a failure that is told.
type Written = Result<(), Problem>;

impl Out {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::before_settings(settings.is_json(), settings.flag("verbose"))
    }

    /// Returns the output before the settings are known.
    pub(crate) fn before_settings(json: bool, verbose: bool) -> Self {
        Self { json, verbose, screen: Screen::stdout(json, true, ColorChoice::Never) }
    }

    /// Prints a value of the protocol on a line, and flushes it.
    pub(crate) fn value(&mut self, json: &JsonText) -> Written {
        self.screen.line(&escaped(json))?;
        self.screen.flush()
    }

    /// Prints a field.
    pub(crate) fn field(&mut self, label: &str, value: &str) -> Written {
        self.screen.line(&format!("{label}: {}", without_control(value)))
    }

    /// Prints a field that may be absent.
    pub(crate) fn optional(&mut self, label: &str, value: Option<&str>) -> Written {
        value.filter(|value| !value.is_empty()).map_or(Ok(()), |value| self.field(label, value))
    }

    /// Prints a text as a block: its label, its lines, and a blank line.
    pub(crate) fn block(&mut self, label: &str, text: &str) -> Written {
        self.screen.line(&format!("{label}:"))?;
        text.strip_suffix('\n').unwrap_or(text).split('\n').try_for_each(|line| {
            let line = line.strip_suffix('\r').unwrap_or(line);
            self.screen.line(&format!("{INDENT}{}", without_control(line)))
        })?;
        self.screen.line("")
    }

    /// Prints lines of a table, which hold no character that a terminal obeys.
    pub(crate) fn table_line(&mut self, line: &str) -> Written {
        self.screen.line(line)
    }

    /// Shows what was printed.
    pub(crate) fn flush(&mut self) -> Written {
        self.screen.flush()
    }

    /// Tells of a failure: as the specification's object where JSON was asked for, and to people on stderr.
    pub(crate) fn failure(&mut self, failure: &Failure) -> Written {
        note(&failure.to_problem().to_string());
        if self.json {
            self.value(&failure.to_json())?;
        }
        Ok(())
    }
}
