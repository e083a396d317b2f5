//! Text from the log made safe for a terminal, and its width there.

use std::fmt::Write;

use proto_events::json::JsonText;
use taskreel_log::audit::json::one_line;
pub(crate) use taskreel_log::views::{columns, cut, visible as without_control};
use taskreel_log::views::{is_invisible, is_obeyed};

/// Returns JSON indented, with every character that a terminal obeys or shows nothing for as an escape.
pub(crate) fn indented(json: &JsonText) -> String {
    plain_json(&serde_json::to_string_pretty(&json.tree()).unwrap_or_else(|_| json.to_string()))
}

/// Returns JSON on one line, with every character that a terminal obeys or shows nothing for as an escape.
pub(crate) fn escaped(json: &JsonText) -> String {
    plain_json(&one_line(json))
}

/// Returns JSON as it is written, with every character that a terminal obeys or shows nothing for as an escape.
pub(crate) fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        // The indentation aside, such a character stands in a string only.
        if letter == '\n' || !(is_obeyed(letter) || is_invisible(letter)) {
            plain.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                let _ = write!(plain, "\\u{unit:04x}");
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_indented_json_of_the_same_value_without_what_it_would_obey() {
        let json = concat!(
            r#"{"a":["\u009b2J\u009b31m","\u001b]0;x\u0007","","#,
            "\"\u{202e}abc\u{2066}\u{7f}\u{85}\u{200b}\u{e0041}\",",
            r#"1.50,1180591620717411303424],"b":{}}"#
        );
        let shown = indented(&JsonText::parse(json).unwrap());
        assert!(shown.lines().count() > 5, "{shown}");
        let harmful = |letter: char| letter != '\n' && (is_obeyed(letter) || is_invisible(letter));
        assert!(!shown.chars().any(harmful), "{shown:?}");
        assert!(shown.contains("1.50") && shown.contains("1180591620717411303424"), "{shown}");
        assert_eq!(JsonText::parse(&shown).unwrap().tree(), JsonText::parse(json).unwrap().tree());
    }

    #[test]
    fn what_turns_a_line_around_or_cannot_be_seen_is_shown_as_an_escape() {
        let shown = without_control("a\u{1b}[2J\u{202e}b\u{200b}c\u{9b}\nd\u{e0041}");
        assert_eq!(shown, "a\\u001b[2J\\u202eb\\u200bc\\u009b d\\u{e0041}");
        assert_eq!(without_control("Österreich 日本 👍"), "Österreich 日本 👍");
    }

    #[test]
    fn a_text_that_is_too_wide_ends_in_a_mark_and_fits() {
        assert_eq!(cut("abcdef", 6, "…"), "abcdef");
        assert_eq!(cut("abcdefg", 6, "…"), "abcde…");
        assert_eq!(cut("äöüäöüä", 6, "..."), "äöü...");
        assert_eq!(cut("日本日本", 6, "…"), "日本…");
    }
}
