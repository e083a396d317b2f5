//! A typed text with a mark under its fault.

use std::fmt;

use taskreel_log::views::{ExpressionError, PatternError};

use crate::print::plain::{columns, without_control};
use crate::print::problem::{EXIT_USAGE, Problem};

/// The most characters that are shown on either side of a fault.
const AROUND_CHARACTERS_MAX: usize = 60;

/// A typed text, and the place of its fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marked {
    /// The text up to the fault, as it is shown.
    before: String,
    /// The text from the fault on, as it is shown.
    behind: String,
}

impl Marked {
    fn new(text: &str, at: usize) -> Self {
        let (before, behind) = text.split_at_checked(at).unwrap_or((text, ""));
        let (mut before, mut behind) = (without_control(before), without_control(behind));
        if let Some((cut, _)) =
            before.char_indices().rev().nth(AROUND_CHARACTERS_MAX - 1).filter(|(at, _)| *at > 0)
        {
            before = format!("...{}", before.split_off(cut));
        }
        if let Some((cut, _)) = behind.char_indices().nth(AROUND_CHARACTERS_MAX) {
            behind.truncate(cut);
            behind.push_str("...");
        }
        Self { before, behind }
    }
}

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    {}{}", self.before, self.behind)?;
        write!(f, "    {}^", " ".repeat(columns(&self.before)))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_under_the_fault_whatever_is_before_it() {
        for (text, shown) in [
            ("ab = ", "    ab = \n         ^"),
            ("日本 c", "    日本 c\n         ^"),
            ("\u{1b}[c", "    \\u001b[c\n           ^"),
        ] {
            let at = text
                .char_indices()
                .next_back()
                .map_or(0, |(at, _)| if text.ends_with(' ') { text.len() } else { at });
            assert_eq!(Marked::new(text, at).to_string(), shown, "{text}");
        }
        let long = format!("{}?{}", "a".repeat(500), "b".repeat(500));
        let shown = Marked::new(&long, 500).to_string();
        assert!(shown.contains("a?b") && shown.lines().all(|line| line.len() < 140), "{shown}");
        assert_eq!(shown.lines().last().unwrap().find('^'), shown.find('?'));
    }
}
