//! Base64 as Python's `b64decode` reads it: other characters are skipped, the padding is checked.

use crate::files::error::FileError;

/// Returns the bytes of a text.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, FileError> {
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

#[cfg(test)]
mod tests {
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
            assert!(decoded(text).is_err(), "{text}");
        }
    }
}
