//! Errors of conditions and expressions that were typed.

use taskreel_log::views::{ExpressionError, PatternError, PointError};

use crate::print::marked_text::MarkedText;
use crate::print::problem::{EXIT_UNKNOWN, EXIT_USAGE, Problem};

impl Problem {
    /// A condition that is not one, or that compares a field which is not there.
    pub(crate) fn condition(error: &ExpressionError, text: &str) -> Self {
        let hint =
            "write FIELD, one of = != < <= > >= ~, and a value; join conditions by and, or, not and braces";
        let what = "the condition of --where is not valid";
        let mut problem = Self::new(EXIT_USAGE, what, error.to_string(), hint);
        problem.marked = Some(Box::new(MarkedText::new(text, error.at())));
        problem
    }

    /// A text that is not a regular expression.
    pub(crate) fn pattern(error: &PatternError, text: &str) -> Self {
        let hint = "without --regex the text is searched for as it is";
        let what = "the text is not a regular expression";
        let mut problem = Self::new(EXIT_USAGE, what, error.to_string(), hint);
        problem.marked = error.at.map(|at| Box::new(MarkedText::new(text, at)));
        problem
    }

    /// A point that a stream, or the log, does not have; `name` is its name.
    pub(crate) fn point(error: PointError, name: &str) -> Self {
        match error {
            PointError::Read(error) => error.into(),
            PointError::OfOneStream => {
                let hint = "write @ and a position, such as @1204, a time, or -10; or name a task";
                Self::new(EXIT_USAGE, "that is not a point of the log", error.to_string(), hint)
            }
            error => {
                let what = format!("{name} has no event up to that point");
                let hint = "`taskreel events` lists events with positions and times";
                Self::new(EXIT_UNKNOWN, what, error.to_string(), hint)
            }
        }
    }
}
