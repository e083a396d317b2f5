//! Long texts in rows of a width: at blanks where there are any, each character once.

use taskreel_log::views::{columns, visible};

/// Returns the rows of a text: its own lines, made visible and broken to this many columns.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut rows = Vec::new();
    for line in text.split('\n') {
        break_line(&visible(line.strip_suffix('\r').unwrap_or(line)), width, &mut rows);
    }
    rows
}

fn break_line(line: &str, width: usize, rows: &mut Vec<String>) {
    if line.is_ascii() && line.len() <= width {
        rows.push(line.to_owned());
        return;
    }
    let (mut begin, mut used, mut blank) = (0, 0, None);
    let mut letter_bytes = [0; 4];
    for (at, letter) in line.char_indices() {
        let wide = if letter.is_ascii() { 1 } else { columns(letter.encode_utf8(&mut letter_bytes)) };
        if used + wide > width {
            // A break at a blank, unless that leaves most of the row empty.
            let cut = blank.filter(|(_, at_blank)| *at_blank > width / 2);
            let (end, rest) = cut.map_or((at, 0), |(after, at_blank)| (after, used - at_blank));
            rows.push(line.get(begin..end).unwrap_or_default().trim_end().to_owned());
            (begin, used, blank) = (end, rest, None);
        }
        used += wide;
        if letter == ' ' {
            blank = Some((at + 1, used));
        }
    }
    rows.push(line.get(begin..).unwrap_or_default().to_owned());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_broken_at_blanks_and_where_there_are_none_anywhere() {
        assert_eq!(wrapped("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrapped("abcdefghijklmnop", 8), ["abcdefgh", "ijklmnop"]);
        assert_eq!(wrapped("a\n\nb\r\n", 8), ["a", "", "b", ""]);
        assert_eq!(wrapped("日本日本日本", 8), ["日本日本", "日本"]);
        assert_eq!(wrapped("\u{1b}[2J", 20), ["\\u001b[2J"]);
        // Characters without a width of their own fill no row.
        assert_eq!(wrapped("\u{301}\u{301}\u{301} abcdefg日", 9), ["\u{301}\u{301}\u{301} abcdefg", "日"]);
    }

    proptest! {
        #[test]
        fn no_row_is_too_wide_and_no_character_is_lost(text in "[a-z 日é\u{301}\u{1b}\n]{0,200}", width in 8_usize..40) {
            let rows = wrapped(&text, width);
            prop_assert!(rows.iter().all(|row| columns(row) <= width), "{:?}", rows);
            let without_blanks = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
            prop_assert_eq!(without_blanks(&rows.concat()), without_blanks(&visible(&text)));
        }
    }
}
