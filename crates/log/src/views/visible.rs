//! Text from the log made safe to look at: whatever would steer a screen or hide what is said stands as an escape.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Whether a screen obeys the character instead of showing it: a control character, or one that changes the direction in which
/// text is shown.
pub fn is_obeyed(letter: char) -> bool {
    let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || turns
}

/// Whether a screen shows nothing for the character, so that two different texts look the same.
pub fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}'
        | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns a text in which every character that a screen obeys, or shows nothing for, stands as the escape that JSON has for
/// it; one beyond the first plane as its number in braces. Line ends and tabs become blanks.
pub fn visible(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' | '\t' => plain.push(' '),
            letter if is_obeyed(letter) || is_invisible(letter) => {
                let number = u32::from(letter);
                let _ = if number > 0xffff {
                    write!(plain, "\\u{{{number:x}}}")
                } else {
                    write!(plain, "\\u{number:04x}")
                };
            }
            letter => plain.push(letter),
        }
    }
    plain
}

/// Returns the number of columns that a text takes on a screen.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Cuts a text to this number of columns, with `end` as the mark of what is missing. Takes time in proportion to the number of
/// columns where the text is wider.
pub fn cut(text: &str, room: usize, end: &str) -> String {
    let kept = room.saturating_sub(columns(end));
    let (mut used, mut cut_at) = (0, 0);
    for (at, letter) in text.char_indices() {
        used += letter.width().unwrap_or_default();
        if used <= kept {
            cut_at = at + letter.len_utf8();
        }
        if used > room {
            return format!("{}{end}", text.get(..cut_at).unwrap_or_default());
        }
    }
    text.to_owned()
}

/// Returns a text made visible and cut to this number of columns. Takes time in proportion to the number of columns.
pub fn visible_cut(text: &str, room: usize, end: &str) -> String {
    // More characters than columns, since some take none.
    let most = room.saturating_mul(2).saturating_add(16);
    match text.char_indices().nth(most) {
        Some((at, _)) => cut(&format!("{}{end}", visible(text.get(..at).unwrap_or_default())), room, end),
        None => cut(&visible(text), room, end),
    }
}
