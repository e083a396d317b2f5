//! The text of a model's reply without what stands around it: its reasoning, and a code fence.

/// The tags between which models reason before they answer, in any case.
const REASONING_TAGS: [(&str, &str); 5] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("[THINK]", "[/THINK]"),
];

/// Returns the text behind the blocks of reasoning with which a reply begins. Of a block that never ends nothing is behind
/// it. Tags elsewhere are part of the text: a model that quotes one does not begin to reason.
pub(crate) fn without_reasoning(raw: &str) -> &str {
    let mut rest = raw;
    while let Some((behind, closing)) = opened(rest) {
        rest = match find_ignoring_case(behind, closing) {
            Some(at) => behind.get(at + closing.len()..).unwrap_or_default(),
            None => "",
        };
    }
    rest
}

/// Returns the text behind the tag with which a text begins, and the tag that closes it.
fn opened(text: &str) -> Option<(&str, &'static str)> {
    let text = start_of(text);
    REASONING_TAGS.iter().find_map(|(opening, closing)| {
        let (tag, behind) = text.split_at_checked(opening.len())?;
        tag.eq_ignore_ascii_case(opening).then_some((behind, *closing))
    })
}

/// Returns the text without the space and byte order mark at its beginning.
fn start_of(text: &str) -> &str {
    text.trim_start_matches(|char: char| char.is_whitespace() || char == '\u{feff}')
}

/// The tags are ASCII, so that a match begins and ends between characters.
fn find_ignoring_case(text: &str, tag: &str) -> Option<usize> {
    text.as_bytes().windows(tag.len()).position(|window| window.eq_ignore_ascii_case(tag.as_bytes()))
}

/// Whether the beginning of a reply may still become a tag of reasoning, for a reader of pieces.
pub(crate) fn may_open_reasoning(start: &str) -> bool {
    let is_start = |(opening, _): &(&str, &str)| {
        opening.get(..start.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(start))
    };
    REASONING_TAGS.iter().any(is_start)
}

/// Returns the tag that ends the reasoning which this tag begins.
pub(crate) fn closing_of(tag: &str) -> Option<&'static str> {
    let known = REASONING_TAGS.iter().find(|(opening, _)| opening.eq_ignore_ascii_case(tag));
    known.map(|(_, closing)| *closing)
}

/// Returns the text within the one code fence that stands around all of it, else the text without the space around it.
pub(crate) fn unfenced(text: &str) -> &str {
    let text = start_of(text).trim_end();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let is_of_info = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '+');
    match inner.map(|inner| inner.trim_start_matches(is_of_info)) {
        Some(inner) if !inner.contains("```") => inner.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_at_the_beginning_is_taken_off_and_nothing_else() {
        for (raw, said) in [
            ("plain", "plain"),
            ("<think>a</think>b", "b"),
            (" \u{feff}\n<Think>\n{}\n</THINK>\n\nb", "\n\nb"),
            ("<think>a</think> <thought>c</thought>b", "b"),
            ("[THINK]a[/THINK]b", "b"),
            ("<think>a</thinking>b</think>c", "c"),
            ("<think>never closed {\"type\":\"final\"}", ""),
            ("<thin>b", "<thin>b"),
            ("b <think>a</think>", "b <think>a</think>"),
            ("a</think>b", "a</think>b"),
            ("<think>ä", ""),
            ("<thinkä", "<thinkä"),
        ] {
            assert_eq!(without_reasoning(raw), said, "{raw:?}");
        }
    }

    #[test]
    fn a_fence_around_the_whole_text_is_taken_off_and_no_other() {
        for (text, inner) in [
            ("{}", "{}"),
            (" {} ", "{}"),
            ("```json\n{}\n```", "{}"),
            ("```\n{}\n``` \n", "{}"),
            ("```json {}```", "{}"),
            ("a ```json\n{}\n```", "a ```json\n{}\n```"),
            ("```json\n{}\n``` b", "```json\n{}\n``` b"),
            ("```a\n```\n```\nb\n```", "```a\n```\n```\nb\n```"),
            ("```", "```"),
            ("`{}`", "`{}`"),
        ] {
            assert_eq!(unfenced(text), inner, "{text:?}");
        }
    }
}
