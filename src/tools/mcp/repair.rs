//! The repair of JSON that only a lenient reader takes.

/// Returns JSON with halves of surrogate pairs as U+FFFD and numbers that are none as null. Any other text stays as it is.
pub(crate) fn repaired(text: &str) -> String {
    let (mut made, mut rest, mut is_inside) = (String::with_capacity(text.len()), text, false);
    while let Some(first) = rest.chars().next() {
        let (part, used) = if is_inside { inside(rest) } else { outside(rest) };
        let (part, used) =
            if used == 0 { (rest.get(..first.len_utf8()), first.len_utf8()) } else { (part, used) };
        is_inside ^= first == '"';
        made.push_str(part.unwrap_or_default());
        rest = rest.get(used..).unwrap_or_default();
    }
    made
}

/// Returns what stands for the beginning of a text outside of quotation marks, and its length; 0 for nothing special.
fn outside(rest: &str) -> (Option<&str>, usize) {
    let words = ["NaN", "-Infinity", "Infinity"];
    let word = words.into_iter().find(|word| rest.starts_with(word));
    (Some("null"), word.map_or(0, str::len))
}

/// Returns what stands for an escape, and its length; 0 for any other text.
fn inside(rest: &str) -> (Option<&str>, usize) {
    if !rest.starts_with('\\') {
        return (None, 0);
    }
    match unit(rest) {
        Some(0xd800..=0xdbff) => match rest.get(6..).and_then(unit) {
            Some(0xdc00..=0xdfff) => (rest.get(..12), 12),
            _ => (Some("\\ufffd"), 6),
        },
        Some(0xdc00..=0xdfff) => (Some("\\ufffd"), 6),
        Some(_) => (rest.get(..6), 6),
        // An escape of two characters: an escaped quotation mark ends nothing.
        None => match rest.get(..2) {
            Some(escape) => (Some(escape), 2),
            None => (None, 0),
        },
    }
}

/// Returns the unit of UTF-16 that a text begins with as an escape.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_and_numbers_that_are_none_are_mended_and_nothing_else() {
        for (text, mended) in [
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
            (r#"{"a":"\ud83d\ude00 NaN \" NaN"}"#, r#"{"a":"\ud83d\ude00 NaN \" NaN"}"#),
            (r#"{"a":"\ude00\\ud83d"}"#, r#"{"a":"\ufffd\\ud83d"}"#),
            (r#"[NaN,-Infinity,Infinity,"é\\",NaN]"#, r#"[null,null,null,"é\\",null]"#),
        ] {
            assert_eq!(repaired(text), mended);
        }
    }
}
