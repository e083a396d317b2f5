//! Texts and counts as they are shown where the whole text has no place: in samples, and in errors, which name what was asked
//! for and what there is, at a length that a model reads.

use std::borrow::Cow;

use crate::artifacts::characters::{characters, first_characters};

/// The characters of an argument, an id or a name that an error repeats.
pub(super) const QUOTED_CHARACTERS: usize = 200;

/// The characters of one name in a list of names.
const LISTED_NAME_CHARACTERS: usize = 100;

/// The characters of a list of names.
const LIST_CHARACTERS: usize = 1_000;

/// The characters of a reason that somebody else gave.
const REASON_CHARACTERS: usize = 1_000;

/// Writes a count with commas between groups of three digits.
pub(super) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the beginning of a text that has more than `keep` characters, with the number of the others.
pub(super) fn shortened(text: &str, keep: usize) -> Option<String> {
    if text.len() <= keep {
        return None;
    }
    let total = characters(text);
    let more = total.checked_sub(keep).filter(|more| *more > 0)?;
    Some(format!("{}... [{} more chars]", first_characters(text, keep), grouped(more)))
}

/// Returns an argument, an id or a name as an error repeats it.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    within(text, QUOTED_CHARACTERS)
}

/// Returns a reason as an error repeats it.
pub(super) fn reason(text: &str) -> Cow<'_, str> {
    within(text, REASON_CHARACTERS)
}

/// Returns the first names of a list, and the number of the others.
pub(super) fn listed(names: &[String]) -> String {
    let (mut list, mut used) = (String::new(), 0);
    for (at, name) in names.iter().enumerate() {
        let name = within(name, LISTED_NAME_CHARACTERS);
        used += characters(&name) + 2;
        if used > LIST_CHARACTERS + 2 {
            return format!("{list}, ... [{} more]", grouped(names.len() - at));
        }
        if at > 0 {
            list.push_str(", ");
        }
        list.push_str(&name);
    }
    list
}

fn within(text: &str, keep: usize) -> Cow<'_, str> {
    shortened(text, keep).map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_stands_whole_and_of_the_rest_a_count() {
        assert_eq!(quoted("é"), "é");
        assert_eq!(quoted(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(quoted(&"é".repeat(1_201)), format!("{}... [1,001 more chars]", "é".repeat(200)));
        let names = |count: usize| (0..count).map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(listed(&names(3)), "0, 1, 2");
        let many = listed(&names(100_000));
        assert!(many.ends_with(", ... [99,778 more]") && many.len() < 1_030, "{many}");
        assert!(listed(&vec!["x".repeat(1 << 20); 50]).chars().count() < 1_030);
    }
}
