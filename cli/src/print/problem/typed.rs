//! Errors of conditions and expressions that were typed.

use taskreel_log::views::{ExpressionError, PatternError};

use crate::print::marked::Marked;
use crate::print::problem::{EXIT_USAGE, Problem};

impl Problem {
    /// A condition that is not one, or that compares a field which is not there.
    pub(crate) fn condition(error: &ExpressionError, text: &str) -> Self {
        let hint =
            "write FIELD, one of = != < <= > >= ~, and a value; join conditions by and, or, not and braces";
        let what = "the condition of --where is not valid";
        let mut problem = Self::new(EXIT_USAGE, what, error.to_string(), hint);
        problem.marked = Some(Box::new(Marked::new(text, error.at())));
        problem
    }

    /// A text that is not a regular expression.
    pub(crate) fn pattern(error: &PatternError, text: &str) -> Self {
        let hint = "without --regex the text is searched for as it is";
        let what = "the text is not a regular expression";
        let mut problem = Self::new(EXIT_USAGE, what, error.to_string(), hint);
        problem.marked = error.at.map(|at| Box::new(Marked::new(text, at)));
        problem
    }
}
