//! Base64 as Python's `b64decode` reads it: other characters are skipped, the padding is checked. Beside it the strict reading,
//! of a text that is the base64 of its bytes and nothing else.

use crate::files::error::FileError;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the bytes of a text.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, FileError> {
    if !text.is_ascii() {
        return Err(FileError::NotAscii);
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut digits, mut padding) = (0_u32, 0_usize, 0_usize);
    let mut total = 0_usize;
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                if digits >= 2 && digits + padding >= 4 {
                    return Ok(bytes);
                }
                continue;
            }
            _ => continue,
        };
        padding = 0;
        group = (group << 6) | u32::from(digit);
        (digits, total) = (digits + 1, total + 1);
        // Each digit after the first of a group completes a byte.
        if digits > 1 {
            let shift = 8 - 2 * u32::try_from(digits).unwrap_or(4);
            bytes.extend((group >> shift).to_le_bytes().first());
        }
        if digits == 4 {
            (group, digits) = (0, 0);
        }
    }
    match digits {
        0 => Ok(bytes),
        1 => Err(FileError::Base64(format!(
            "Invalid base64-encoded string: number of data characters ({total}) cannot be 1 more than a multiple of 4"
        ))),
        _ => Err(FileError::Base64("Incorrect padding".to_owned())),
    }
}

/// Returns the bytes of which a text is the base64, character by character; nothing for any other text. A caller that has the bytes
/// has the text.
pub(super) fn exactly(text: &str) -> Option<Vec<u8>> {
    // Most other texts are told by their length or by a character, before anything is decoded.
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    if !text.len().is_multiple_of(4) || !text.bytes().all(is_digit) {
        return None;
    }
    let bytes = decoded(text).ok()?;
    encoded(&bytes).eq(text.bytes()).then_some(bytes)
}

/// Returns the characters of the base64 of these bytes.
pub(super) fn encoded(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.chunks(3).flat_map(|group| {
        let number = group.iter().fold(0_usize, |number, byte| (number << 8) | usize::from(*byte))
            << (8 * (3 - group.len()));
        (0..4_usize).map(move |at| {
            let digit = DIGITS.get((number >> (18 - 6 * at)) & 63).copied().unwrap_or(b'?');
            if at <= group.len() { digit } else { b'=' }
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_decode_as_python_decodes_them() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("aGVsbG8=", b"hello"),
            ("aGVs\n bG8=", b"hello"),
            ("YQ==", b"a"),
            ("YWJj", b"abc"),
            ("/+8=", b"\xff\xef"),
            ("YQ==YWJj", b"a"),
        ] {
            assert_eq!(decoded(text).unwrap(), bytes, "{text}");
        }
        for text in ["abc", "a", "YQ=", "YW"] {
            assert!(matches!(decoded(text), Err(FileError::Base64(_))), "{text}");
        }
        for text in ["YQ==é", "é", "YWJj\u{a0}"] {
            assert!(matches!(decoded(text), Err(FileError::NotAscii)), "{text}");
        }
    }

    #[test]
    fn only_a_text_that_its_bytes_give_back_is_read_strictly() {
        for (text, bytes) in [("", &b""[..]), ("aGVsbG8=", b"hello"), ("YQ==", b"a"), ("/+8=", b"\xff\xef")] {
            assert_eq!(exactly(text).as_deref(), Some(bytes), "{text}");
        }
        for text in [
            "aGVs\nbG8=",
            "aGVsbG8=\n",
            "data:image/jpeg;base64,/9j/4AAQ",
            "YQ==YWJj",
            "YR==",
            "YQ=",
            "YQ",
            "YQ===",
            "YQ=a",
            "====",
            "plain English text",
            "_-8=",
            "YQ==é===",
        ] {
            assert_eq!(exactly(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_strictly_is_written_as_the_same_text(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            text in "[A-Za-z0-9+/=\n ,:;]{0,40}",
        ) {
            let written = String::from_utf8(encoded(&bytes).collect()).unwrap();
            prop_assert_eq!(exactly(&written), Some(bytes));
            if let Some(read) = exactly(&text) {
                prop_assert_eq!(String::from_utf8(encoded(&read).collect()).unwrap(), text);
            }
        }
    }
}
