//! Integers of any size as positions in a list: read as Python's `int` reads a text, and counted from the end.

use crate::artifacts::natural::Natural;

/// The digits of an integer that Python reads.
const DIGITS_MAX: usize = 4_300;

/// An integer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Integer {
    /// An integer that is far from the ends of its type.
    Small(i128),
    /// A larger one: whether it is negative, and its digits without zeros in front.
    Large(bool, String),
}

impl Integer {
    pub(super) fn with_limbs(count: usize) -> Self {
        i128::try_from(count).map_or_else(|_| Self::Large(false, count.to_string()), Self::Small)
    }

    /// Reads a text: spaces around it, a sign, digits, and single underscores between digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_space = |char: char| char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char);
        let text = text.trim_matches(is_space);
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits.split('_').all(is_number) {
            return None;
        }
        let digits = digits.replace('_', "");
        if digits.len() > DIGITS_MAX {
            return None;
        }
        // Half of the type leaves room for the length of a list.
        match digits.parse::<i128>() {
            Ok(whole) if whole < i128::MAX / 2 => Some(Self::Small(if is_negative { -whole } else { whole })),
            _ => Some(Self::Large(is_negative, digits.trim_start_matches('0').to_owned())),
        }
    }

    pub(super) fn is_negative(&self) -> bool {
        match self {
            Self::Small(whole) => *whole < 0,
            Self::Large(is_negative, _) => *is_negative,
        }
    }

    /// Returns the position that a negative number counts from the end of a list.
    pub(super) fn counted_from_end(&self, total: usize) -> Self {
        match self {
            Self::Small(whole) if *whole < 0 => Self::Small(whole + i128::try_from(total).unwrap_or(0)),
            Self::Large(true, digits) => {
                let rest = Natural::from_digits(digits).minus(&Natural::from_digits(&total.to_string()));
                Self::Large(true, rest.digits())
            }
            other => other.clone(),
        }
    }

    /// Returns the position, if it is below `past`.
    pub(super) fn within(&self, past: usize) -> Option<usize> {
        match self {
            Self::Small(whole) => usize::try_from(*whole).ok().filter(|at| *at < past),
            Self::Large(..) => None,
        }
    }

    pub(super) fn as_i64(&self) -> Option<i64> {
        if let Self::Small(whole) = self { i64::try_from(*whole).ok() } else { None }
    }

    /// Returns the integer in digits.
    pub(super) fn printed(&self) -> String {
        match self {
            Self::Small(whole) => whole.to_string(),
            Self::Large(is_negative, digits) => format!("{}{digits}", if *is_negative { "-" } else { "" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_python_reads_them() {
        for (text, printed) in
            [("1_0", "10"), (" +7 ", "7"), ("-0", "0"), ("007", "7"), ("\u{1f}5\u{a0}", "5"), ("0_0", "0")]
        {
            assert_eq!(
                Integer::parse(text).map(|integer| integer.printed()).as_deref(),
                Some(printed),
                "{text}"
            );
        }
        for text in ["", " ", "_1", "1_", "1__0", "+-1", "- 1", "1.0", "0x1", "one", "+"] {
            assert_eq!(Integer::parse(text), None, "{text}");
        }
    }
}
