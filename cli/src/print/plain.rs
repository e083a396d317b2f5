//! Text from the log made safe for a terminal, and its width there.

use std::fmt::Write;

use proto_events::json::JsonText;
use taskreel_log::audit::json::one_line;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Whether a terminal obeys the character instead of showing it: a control character, or one that changes the direction
/// in which text is shown.
fn is_obeyed(letter: char) -> bool {
    let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || turns
}

/// Whether a terminal shows nothing for the character, so that two different texts look the same.
fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}'
        | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Writes a character as the escape that JSON has for it; one beyond the first plane as its number in braces.
fn escape(letter: char, text: &mut String) {
    let number = u32::from(letter);
    let _ = if number > 0xffff { write!(text, "\\u{{{number:x}}}") } else { write!(text, "\\u{number:04x}") };
}

/// Returns a text in which every character that a terminal obeys, or shows nothing for, stands as an escape, so that no
/// text from a log or an input moves the cursor or hides what it says. Line ends and tabs become blanks.
pub(crate) fn without_control(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' | '\t' => plain.push(' '),
            letter if is_obeyed(letter) || is_invisible(letter) => escape(letter, &mut plain),
            letter => plain.push(letter),
        }
    }
    plain
}

/// Returns JSON indented, with every character that a terminal obeys or shows nothing for as an escape.
pub(crate) fn indented(json: &JsonText) -> String {
    plain_json(&serde_json::to_string_pretty(&json.tree()).unwrap_or_else(|_| json.to_string()))
}

/// Returns JSON on one line, with every character that a terminal obeys or shows nothing for as an escape.
pub(crate) fn escaped(json: &JsonText) -> String {
    plain_json(&one_line(json))
}

fn plain_json(text: &str) -> String {
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

/// Returns the number of columns that a terminal takes for a text.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// Cuts a text to this number of columns, with `end` as the mark of what is missing.
pub(crate) fn cut(text: &str, room: usize, end: &str) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(columns(end));
    let (mut kept, mut used) = (String::new(), 0);
    for letter in text.chars() {
        used += letter.width().unwrap_or_default();
        if used > room {
            break;
        }
        kept.push(letter);
    }
    kept + end
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
