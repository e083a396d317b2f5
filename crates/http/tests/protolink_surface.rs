//! Protolink's public names, of 0.6.4 and of what 0.8.3 has added: docs/protolink.md says of each what does its work here,
//! or why nothing does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

/// The names, one a line.
const NAMES: &str = include_str!("protolink_names.txt");

const PAGE: &str = include_str!("../../../docs/protolink.md");

/// Whether a text has a name as a word of its own.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[test]
fn each_public_name_of_protolink_is_settled_on_the_page_about_it() {
    assert!(has_word("a `b_c` d", "b_c") && !has_word("a `b_c` d", "b") && !has_word("", "b"));
    let missing: Vec<&str> = NAMES.lines().filter(|name| !has_word(PAGE, name)).collect();
    assert!(missing.is_empty(), "docs/protolink.md does not say what becomes of {missing:?}");
    assert!(NAMES.lines().count() > 150, "{}", NAMES.lines().count());
}
