//! Regular expressions of people who search: of bounded size, matched in linear time.

use std::ops::Range;

use regex::{Regex, RegexBuilder};

/// The most memory that a compiled expression, and the cache of its search, may take in bytes.
const SIZE_MAX: usize = 8 << 20;

/// The deepest nesting of an expression.
const DEPTH_MAX: u32 = 100;

/// A regular expression, which matches in time in proportion to the text.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Whether it matches anywhere in a text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// Returns the first place in a text where it matches, in bytes.
    pub fn find(&self, text: &str) -> Option<Range<usize>> {
        self.0.find(text).map(|found| found.range())
    }
}

/// A text that is not a regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
#[non_exhaustive]
pub struct PatternError {
    /// The place of the fault in the text, in bytes, as far as it is known.
    pub at: Option<usize>,
    /// The fault.
    pub what: String,
}

/// Returns a regular expression. It matches in time in proportion to the text, whatever it is.
///
/// # Errors
/// [`PatternError`] if it is not valid, or too large.
pub fn pattern(text: &str, ignores_case: bool) -> Result<Pattern, PatternError> {
    let built = RegexBuilder::new(text)
        .case_insensitive(ignores_case)
        .size_limit(SIZE_MAX)
        .dfa_size_limit(SIZE_MAX)
        .nest_limit(DEPTH_MAX)
        .build();
    built.map(Pattern).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            PatternError { at: None, what: "it is too large when it is compiled".to_owned() }
        }
        error => of_message(text, &error.to_string()),
    })
}

/// Takes the place and the fault from the message of several lines that is made for a person: the text, `^` under the fault,
/// and the fault behind `error:`.
fn of_message(text: &str, message: &str) -> PatternError {
    let mut lines = message.lines();
    let what = message.lines().filter_map(|line| line.trim().strip_prefix("error: ")).next_back();
    // A text of several lines is shown otherwise.
    let shown = lines.clone().find_map(|line| line.strip_suffix(text).filter(|_| !text.is_empty()));
    let caret =
        lines.find_map(|line| line.trim_end_matches(['^', ' ']).is_empty().then(|| line.find('^'))?);
    let column = caret.zip(shown).and_then(|(caret, indent)| caret.checked_sub(indent.len()));
    let at = column.filter(|_| !text.contains('\n'));
    let at = at.map(|column| text.char_indices().nth(column).map_or(text.len(), |(at, _)| at));
    PatternError { at, what: what.unwrap_or("it cannot be parsed").to_owned() }
}

/// Returns an expression that finds this very text, in any case of letters.
///
/// # Errors
/// [`PatternError`] if the text is too long.
pub fn pattern_of_text(text: &str) -> Result<Pattern, PatternError> {
    pattern(&regex::escape(text), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fault_of_an_expression_has_its_place() {
        let fault = pattern("a(b", false).unwrap_err();
        assert_eq!((fault.at, fault.what.as_str()), (Some(1), "unclosed group"));
        assert_eq!(pattern("ü[z-a]", false).unwrap_err().at, Some(3));
        assert!(pattern(&"(".repeat(1_000), false).is_err());
        assert!(pattern(r"\w{1000}{1000}", false).unwrap_err().what.contains("too large"));
    }

    #[test]
    fn a_text_is_found_as_it_is_in_any_case() {
        let found = pattern_of_text("a.B(").unwrap();
        assert!(found.is_match("xA.b(x") && !found.is_match("aXb("));
    }
}
