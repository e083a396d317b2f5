//! A typed text with a mark under its fault.

use std::fmt;

use crate::print::plain::{columns, without_control};

/// The most characters that are shown on either side of a fault.
const AROUND_CHARACTERS_MAX: usize = 60;

/// A typed text, and the place of its fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkedText {
    /// The text up to the fault, as it is shown.
    before: String,
    /// The text from the fault on, as it is shown.
    behind: String,
}

impl MarkedText {
    /// Returns a text with a mark under a place in it, given in bytes.
    pub(crate) fn new(text: &str, at: usize) -> Self {
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

impl fmt::Display for MarkedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    {}{}", self.before, self.behind)?;
        write!(f, "    {}^", " ".repeat(columns(&self.before)))
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
            assert_eq!(MarkedText::new(text, at).to_string(), shown, "{text}");
        }
        let long = format!("{}?{}", "a".repeat(500), "b".repeat(500));
        let shown = MarkedText::new(&long, 500).to_string();
        assert!(shown.contains("a?b") && shown.lines().all(|line| line.len() < 140), "{shown}");
        assert_eq!(shown.lines().last().unwrap().find('^'), shown.find('?'));
    }
}
