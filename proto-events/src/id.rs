//! Stream names, versions, positions and ids. No id is generated here: ids and times arrive through [`Mint`].

mod check;
mod stream;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::id::check::{IdError, check_id};
pub use crate::id::stream::{Category, StreamId};

/// The only source of new ids and times in the pure crate, implemented by code that has a clock and
/// randomness.
pub trait Mint {
    /// Returns a new id that begins with `prefix`, in Protolink's form `<prefix><UTC stamp>_<8 hex>`.
    fn id(&mut self, prefix: &str) -> String;
    /// Returns a new id in plain UUID form, as Protolink gives to LLM messages.
    fn uuid(&mut self) -> String;
    /// Returns the current time in Protolink's form, `2026-11-21T07:03:20.123456+00:00`.
    fn timestamp(&mut self) -> String;
}

/// The id of a log, drawn when it is created. Its exports and copies keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LogId(pub [u8; 16]);

impl LogId {
    /// Parses the printed form.
    pub fn parse(text: &str) -> Option<Self> {
        let canonical = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        u128::from_str_radix(text, 16).ok().filter(|_| canonical).map(|id| Self(id.to_be_bytes()))
    }
}

impl fmt::Display for LogId {
    /// Prints 32 hexadecimal digits, lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The version of an event in its stream: 0 is the empty stream, the first event has 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Version(pub u64);

/// The position of an event in the whole log, counted in events: 0 is before all, the first event has 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Position(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The condition of an append. Every writer is an actor that knows its stream's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// The stream does not exist yet.
    NoStream,
    /// The stream ends with exactly this version.
    Exact(Version),
}

impl ExpectedVersion {
    /// Returns the condition that the stream still ends at this version.
    pub fn exactly(version: Version) -> Self {
        if version == Version(0) { Self::NoStream } else { Self::Exact(version) }
    }

    /// Returns the version that the stream must have; 0 if it must not exist.
    pub fn version(self) -> Version {
        match self {
            Self::NoStream => Version(0),
            Self::Exact(version) => version,
        }
    }
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the digest of `bytes`.
    pub fn compute(bytes: &[u8]) -> Self {
        Self::of_parts(&[bytes])
    }

    /// Returns the digest of the concatenated parts.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        Self::of_all(parts.iter().copied())
    }

    /// Returns the digest of the concatenated parts of an iterator.
    pub fn of_all<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        use sha2::Digest as _;
        let mut hasher = sha2::Sha256::new();
        #[cfg(feature = "testing")]
        let mut bytes = 0_usize;
        for part in parts {
            #[cfg(feature = "testing")]
            {
                bytes = bytes.saturating_add(part.len());
            }
            hasher.update(part);
        }
        #[cfg(feature = "testing")]
        crate::hash_count::count(bytes);
        Self(hasher.finalize().into())
    }
}

impl Digest {
    /// Parses the printed form: 64 hexadecimal digits, lower case.
    pub fn parse(text: &str) -> Option<Self> {
        let canonical = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
        }
        canonical.then_some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // At once, since each call of a tool has a digest in its idempotency key.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |half: u8| DIGITS.get(usize::from(half)).copied().unwrap_or(b'0');
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(&self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_back_from_its_printed_form_and_from_no_other() {
        let digest = Digest::compute(b"abc");
        let printed = digest.to_string();
        assert_eq!(printed, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Digest::parse(&printed), Some(digest));
        let signed = printed.replacen('b', "+", 1);
        for wrong in ["", "ff", &printed[1..], &printed.to_uppercase(), &signed, &"é".repeat(32)] {
            assert_eq!(Digest::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_log_id_is_read_back_from_its_printed_form_and_from_no_other() {
        let id = LogId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0eff");
        assert_eq!(LogId::parse(&id.to_string()), Some(id));
        for wrong in ["", "ff", "000102030405060708090A0B0C0D0EFF", "+00102030405060708090a0b0c0d0eff"] {
            assert_eq!(LogId::parse(wrong), None, "{wrong}");
        }
    }
}
