//! Positions of characters and lines in a text, found block by block.

/// The bytes that are counted at once: as many whole vectors as fit the counter of one byte, which the compiler turns into one
/// vector operation for many bytes.
const BLOCK: usize = 224;

const fn begins_character(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

const fn is_newline(byte: u8) -> bool {
    byte == b'\n'
}

fn count(bytes: &[u8], of: impl Fn(u8) -> bool + Copy) -> usize {
    bytes.chunks(BLOCK).map(|block| count_block(block, of)).sum()
}

fn count_block(block: &[u8], of: impl Fn(u8) -> bool + Copy) -> usize {
    usize::from(block.iter().fold(0_u8, |sum, byte| sum.wrapping_add(u8::from(of(*byte)))))
}

/// Returns the offset of the byte number `wanted` (from 0) among those that `of` accepts; the length if there are
/// fewer.
fn offset_of(bytes: &[u8], of: impl Fn(u8) -> bool + Copy, wanted: usize) -> usize {
    let (mut seen, mut start) = (0, 0);
    for block in bytes.chunks(BLOCK) {
        let here = count_block(block, of);
        if seen + here > wanted {
            let accepted = block.iter().enumerate().filter(|(_, byte)| of(**byte));
            return accepted.map(|(at, _)| start + at).nth(wanted - seen).unwrap_or(bytes.len());
        }
        seen += here;
        start += block.len();
    }
    bytes.len()
}

/// Counts the characters (code points) of a text.
pub(super) fn characters(text: &str) -> usize {
    count(text.as_bytes(), begins_character)
}

/// Counts the characters and the line feeds of a text, in one pass over its memory.
pub(super) fn characters_and_newlines(text: &str) -> (usize, usize) {
    let blocks = text.as_bytes().chunks(BLOCK);
    blocks.fold((0, 0), |(characters, newlines), block| {
        (characters + count_block(block, begins_character), newlines + count_block(block, is_newline))
    })
}

/// Returns the last `wanted` characters of a text.
pub(super) fn last_characters(text: &str, wanted: usize) -> &str {
    let Some(before) = wanted.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(before).and_then(|(at, _)| text.get(at..)).unwrap_or(text)
}

/// Counts the line feeds of a text.
pub(super) fn newlines(text: &str) -> usize {
    count(text.as_bytes(), is_newline)
}

/// Splits a text after `wanted` characters; all of it is before the cut if it has fewer.
pub(super) fn split_at_character(text: &str, wanted: usize) -> (&str, &str) {
    let offset = offset_of(text.as_bytes(), begins_character, wanted);
    text.split_at_checked(offset).unwrap_or((text, ""))
}

/// Returns the first `wanted` characters of a text.
pub(super) fn first_characters(text: &str, wanted: usize) -> &str {
    split_at_character(text, wanted).0
}

/// Returns the offset after the line feed number `wanted` (from 0); the length if there are fewer.
pub(super) fn after_newline(text: &str, wanted: usize) -> usize {
    (offset_of(text.as_bytes(), is_newline, wanted) + 1).min(text.len())
}

/// Returns the offset of the line feed number `wanted` (from 0); the length if there are fewer.
pub(super) fn at_newline(text: &str, wanted: usize) -> usize {
    offset_of(text.as_bytes(), is_newline, wanted)
}

/// The characters that a tip may have; a longer one is cut, since it counts as part of what is shown.
pub(super) const TIP_CHARACTERS_MAX: usize = 500;

/// Returns a tip at the length at which it is shown.
pub(super) fn shown_tip(tip: &str) -> &str {
    first_characters(tip, TIP_CHARACTERS_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_and_ends_are_those_of_a_plain_walk(piece in "[a\né😀]{0,9}", times in 0_usize..200, wanted in 0_usize..900) {
            let text = piece.repeat(times);
            let characters = text.chars().count();
            prop_assert_eq!(characters_and_newlines(&text), (characters, text.matches('\n').count()));
            let last: String = text.chars().skip(characters.saturating_sub(wanted)).collect();
            prop_assert_eq!(last_characters(&text, wanted), last);
        }
    }
}
