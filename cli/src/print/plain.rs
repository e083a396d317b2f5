//! Text from the log made safe for a terminal.

use std::fmt::Write;

use proto_events::json::JsonText;

/// Whether a terminal obeys the character instead of showing it: a control character, or one that changes the direction
/// in which text is shown.
fn is_obeyed(letter: char) -> bool {
    let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || turns
}

/// Replaces characters that a terminal obeys by blanks, so that no text from a log or an input moves the cursor.
pub(crate) fn strip_control_chars(text: &str) -> String {
    text.chars().map(|letter| if is_obeyed(letter) { ' ' } else { letter }).collect()
}

/// Returns JSON indented, with every character that a terminal obeys as an escape.
pub(crate) fn indented(json: &JsonText) -> String {
    let text = serde_json::to_string_pretty(&json.tree()).unwrap_or_else(|_| json.to_string());
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        // The indentation aside, such a character stands in a string only.
        if is_obeyed(letter) && letter != '\n' {
            let _ = write!(plain, "\\u{:04x}", u32::from(letter));
        } else {
            plain.push(letter);
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
            "\"\u{202e}abc\u{2066}\u{7f}\u{85}\",",
            r#"1.50,1180591620717411303424],"b":{}}"#
        );
        let shown = indented(&JsonText::parse(json).unwrap());
        assert!(shown.lines().count() > 5, "{shown}");
        assert!(!shown.chars().any(|letter| is_obeyed(letter) && letter != '\n'), "{shown:?}");
        assert!(shown.contains("1.50") && shown.contains("1180591620717411303424"), "{shown}");
        assert_eq!(JsonText::parse(&shown).unwrap().tree(), JsonText::parse(json).unwrap().tree());
    }

    #[test]
    fn no_text_turns_a_line_around_or_moves_the_cursor() {
        assert_eq!(strip_control_chars("a\u{1b}[2J\u{202e}b\u{2069}\u{9b}c"), "a [2J b  c");
    }
}
