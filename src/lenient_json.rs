//! The repair of JSON that only a lenient reader takes.

/// Returns JSON with halves of surrogate pairs as U+FFFD and non-finite numbers as null. Any other text stays as it is.
#[cfg(feature = "mcp")]
pub(crate) fn repaired(text: &str) -> String {
    mended(text, &|_| '\u{fffd}')
}

/// Returns JSON with halves of surrogate pairs as characters of the last private plane, and non-finite numbers as null: a half
/// may have its other half in the next piece of a stream, see [`joined`].
#[cfg(feature = "openai")]
pub(crate) fn repaired_piece(text: &str) -> String {
    mended(text, &|unit| char::from_u32(u32::from(unit) + HALVES_MOVED).unwrap_or('\u{fffd}'))
}

/// The distance by which half a surrogate pair is moved: the 2,048 halves become the last characters of Unicode, which nobody may exchange.
#[cfg(feature = "openai")]
const HALVES_MOVED: u32 = 0x10_f800 - 0xd800;

/// Whether a text ends with the first half of a pair, as [`repaired_piece`] writes it.
#[cfg(feature = "openai")]
pub(crate) fn ends_in_half(text: &str) -> bool {
    text.chars().next_back().is_some_and(|last| (0x10_f800..0x10_fc00).contains(&u32::from(last)))
}

/// Returns the text of pieces put together: halves that stand side by side become their character, any other one U+FFFD.
#[cfg(feature = "openai")]
pub(crate) fn joined(text: &str) -> String {
    if !text.chars().any(|char| u32::from(char) >= 0x10_f800) {
        return text.to_owned();
    }
    let mut chars = text.chars().peekable();
    let mut made = String::with_capacity(text.len());
    let half = |char: char| u32::from(char).checked_sub(0x10_f800);
    while let Some(char) = chars.next() {
        let Some(first) = half(char) else {
            made.push(char);
            continue;
        };
        let second =
            chars.peek().and_then(|next| half(*next)).filter(|second| first < 0x400 && *second >= 0x400);
        let whole = second.and_then(|second| char::from_u32(0x1_0000 + (first << 10) + (second - 0x400)));
        if whole.is_some() {
            chars.next();
        }
        made.push(whole.unwrap_or('\u{fffd}'));
    }
    made
}

fn mended(text: &str, half: &dyn Fn(u16) -> char) -> String {
    let (mut made, mut rest, mut is_inside) = (String::with_capacity(text.len()), text, false);
    while let Some(first) = rest.chars().next() {
        let used = if is_inside { inside(rest, half, &mut made) } else { outside(rest, &mut made) };
        is_inside ^= first == '"';
        let used = used.unwrap_or_else(|| {
            made.push(first);
            first.len_utf8()
        });
        rest = rest.get(used..).unwrap_or_default();
    }
    made
}

/// Reads a word outside of quotation marks that stands for a non-finite number; returns its length.
fn outside(rest: &str, made: &mut String) -> Option<usize> {
    let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| rest.starts_with(word))?;
    made.push_str("null");
    Some(word.len())
}

/// Reads an escape; returns its length.
fn inside(rest: &str, half: &dyn Fn(u16) -> char, made: &mut String) -> Option<usize> {
    if !rest.starts_with('\\') {
        return None;
    }
    let length = match unit(rest) {
        Some(0xd800..=0xdbff) if matches!(rest.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) => 12,
        Some(unit @ 0xd800..=0xdfff) => {
            made.push(half(unit));
            return Some(6);
        }
        Some(_) => 6,
        // An escape of two characters: an escaped quotation mark ends nothing.
        None => 2,
    };
    made.push_str(rest.get(..length)?);
    Some(length)
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
            (r#"{"a":"\ud83d"}"#, "{\"a\":\"\u{fffd}\"}"),
            (r#"{"a":"\ud83d\ude00 NaN \" NaN"}"#, r#"{"a":"\ud83d\ude00 NaN \" NaN"}"#),
            (r#"{"a":"\ude00\\ud83d"}"#, "{\"a\":\"\u{fffd}\\\\ud83d\"}"),
            (r#"[NaN,-Infinity,Infinity,"é\\",NaN]"#, r#"[null,null,null,"é\\",null]"#),
        ] {
            assert_eq!(super::mended(text, &|_| '\u{fffd}'), mended);
        }
    }

    #[cfg(feature = "openai")]
    #[test]
    fn halves_in_two_pieces_are_joined_and_lone_ones_are_replaced() {
        let first = repaired_piece(r#""a\ud83d""#);
        assert!(ends_in_half(first.trim_matches('"')));
        let whole =
            first.trim_matches('"').to_owned() + repaired_piece(r#""\ude00b\ude00""#).trim_matches('"');
        assert_eq!(joined(&whole), "a😀b\u{fffd}");
        assert_eq!(joined("plain \u{10ffff}"), "plain \u{fffd}");
    }
}
