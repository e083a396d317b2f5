//! The clipboard of the terminal, by the escape sequence OSC 52: it works over ssh too, where the terminal allows it.

/// The most bytes that are copied: terminals take no more, and a longer sequence may end in the middle.
const BYTES_MAX: usize = 74_994;

/// Returns the sequence that puts a text on the clipboard; none if it is too long for it.
pub(crate) fn sequence(text: &str) -> Option<String> {
    (text.len() <= BYTES_MAX).then(|| format!("\u{1b}]52;c;{}\u{7}", base64(text.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for piece in bytes.chunks(3) {
        let at = |place: usize| u32::from(piece.get(place).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let six = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or_default();
            let letter = LETTERS.get(six).copied().filter(|_| place <= piece.len());
            text.push(char::from(letter.unwrap_or(b'=')));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_any_length_is_encoded_and_nothing_of_it_reaches_the_terminal_as_it_is() {
        for (text, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(text.as_bytes()), encoded, "{text}");
        }
        let sequence = sequence("\u{1b}[2J\u{7}").unwrap();
        assert_eq!(sequence.matches('\u{1b}').count(), 1);
        assert_eq!(sequence.matches('\u{7}').count(), 1);
        assert!(super::sequence(&"a".repeat(100_000)).is_none());
    }
}
