//! References that stand where a call has a secret argument: a stored event holds the reference, never the value.
//!
//! `secret:NAME` is written by a caller or a model and names a value that the host looks up when the call is sent.
//! `secret:sha256-<salt>-<digest>` is written by the system in place of a value that arrived in clear; the value
//! stands outside the log until its call is settled.

use std::fmt;

use crate::id::Digest;
use crate::json::{JsonObject, JsonText};

/// The first characters of each reference.
const PREFIX: &str = "secret:";

/// The first characters of what follows in the reference of a kept value.
const KEPT: &str = "sha256-";

/// The first characters of the reference of a kept value.
const KEPT_PREFIX: &str = "secret:sha256-";

/// The length of the reference of a kept value: salt and digest are in hexadecimal digits, with a `-` between.
const KEPT_REFERENCE_BYTES: usize = KEPT_PREFIX.len() + 32 + 1 + 64;

/// The longest name of a secret, in bytes.
pub const SECRET_NAME_BYTES_MAX: usize = 200;

/// A value that is kept outside the log, named by a salted digest of its JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeptSecret {
    /// Sixteen random bytes.
    pub salt: [u8; 16],
    /// SHA-256(salt ‖ JSON text of the value).
    pub digest: Digest,
}

impl KeptSecret {
    /// Returns the reference to a value under a salt.
    pub fn new(salt: [u8; 16], value: &JsonText) -> Self {
        let text = value.to_str().map_or_else(|| value.clone(), |text| JsonText::string(&text));
        Self { salt, digest: Digest::of_all([&salt[..], text.as_str().as_bytes()]) }
    }

    /// Whether this is the reference to the value.
    pub fn fits(&self, value: &JsonText) -> bool {
        Self::new(self.salt, value) == *self
    }
}

impl fmt::Display for KeptSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{KEPT}")?;
        self.salt.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{}", self.digest)
    }
}

/// A reference to a secret value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// A value that the host looks up by this name.
    Named(String),
    /// A value that is kept outside the log.
    Kept(KeptSecret),
}

impl SecretRef {
    /// Reads a reference; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?;
        if let Some(kept) = rest.strip_prefix(KEPT) {
            let (salt, digest) = kept.split_once('-')?;
            let (salt, digest) = (bytes_of::<16>(salt)?, Digest(bytes_of::<32>(digest)?));
            return Some(Self::Kept(KeptSecret { salt, digest }));
        }
        let is_named = (1..=SECRET_NAME_BYTES_MAX).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte));
        is_named.then(|| Self::Named(rest.to_owned()))
    }

    /// Reads the reference that an argument holds; `None` if its value is something else.
    pub fn of_value(value: &JsonText) -> Option<Self> {
        Self::parse(&value.to_str()?)
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "{PREFIX}{name}"),
            Self::Kept(kept) => write!(f, "{kept}"),
        }
    }
}

/// Returns the kept values that a text names.
pub fn kept_in(text: &str) -> impl Iterator<Item = KeptSecret> + '_ {
    text.match_indices(KEPT_PREFIX).filter_map(|(at, _)| {
        match SecretRef::parse(text.get(at..at + KEPT_REFERENCE_BYTES)?)? {
            SecretRef::Kept(kept) => Some(kept),
            SecretRef::Named(_) => None,
        }
    })
}

/// Returns the first secret argument that holds a value in clear. An argument that is absent or null holds none.
pub fn in_clear<'a>(args: &JsonText, secrets: &'a [String]) -> Option<&'a str> {
    if secrets.is_empty() {
        return None;
    }
    let args: JsonObject = args.read().unwrap_or_default();
    let clear = |name: &&String| {
        args.get(name).is_some_and(|value| !value.is_null() && SecretRef::of_value(value).is_none())
    };
    secrets.iter().find(clear).map(String::as_str)
}

/// Returns the secret arguments and the references that they hold.
pub fn references(args: &JsonText, secrets: &[String]) -> Vec<(String, SecretRef)> {
    if secrets.is_empty() {
        return Vec::new();
    }
    let args: JsonObject = args.read().unwrap_or_default();
    let of = |name: &String| Some((name.clone(), SecretRef::of_value(args.get(name)?)?));
    secrets.iter().filter_map(of).collect()
}

fn bytes_of<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let is_lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if hex.len() != 2 * N || !hex.bytes().all(is_lower) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_read_back_and_fits_its_value_alone() {
        let kept = KeptSecret::new([7; 16], &JsonText::string("hunter2"));
        let text = kept.to_string();
        assert_eq!((text.len(), &text[..KEPT_PREFIX.len()]), (KEPT_REFERENCE_BYTES, KEPT_PREFIX));
        let named = format!("{{\"key\":\"{text}\",\"cut\":\"{}\",\"é{text}\"", &text[..80]);
        assert_eq!(kept_in(&named).collect::<Vec<_>>(), [kept, kept]);
        assert_eq!(SecretRef::parse(&text), Some(SecretRef::Kept(kept)));
        assert!(kept.fits(&JsonText::parse(r#""hunter\u0032""#).unwrap()), "the escapes do not matter");
        assert!(!kept.fits(&JsonText::string("hunter3")));
        assert_ne!(kept, KeptSecret::new([8; 16], &JsonText::string("hunter2")), "the salt counts");
        let named = SecretRef::parse("secret:prod/db.password").unwrap();
        assert_eq!(named.to_string(), "secret:prod/db.password");
    }

    #[test]
    fn what_is_no_reference_is_a_value_in_clear() {
        let long = format!("secret:{}", "a".repeat(201));
        let upper = KeptSecret::new([0xab; 16], &JsonText::null()).to_string().to_uppercase();
        for text in
            ["hunter2", "secret:", "secret:two words", "secret:sha256-00-11", "secret:é", &long, &upper]
        {
            assert_eq!(SecretRef::parse(text), None, "{text}");
        }
        let secrets = ["pin".to_owned(), "token".to_owned()];
        let clear = |args: &str| in_clear(&JsonText::parse(args).unwrap(), &secrets).map(str::to_owned);
        assert_eq!(clear(r#"{"pin":1234}"#).as_deref(), Some("pin"));
        assert_eq!(clear(r#"{"pin":null,"token":"secret:t","to":"clear"}"#), None);
        assert_eq!(clear(r#"{"pin":"secret:p","token":""}"#).as_deref(), Some("token"));
        let args = JsonText::parse(r#"{"token":"secret:t","pin":"x"}"#).unwrap();
        assert_eq!(references(&args, &secrets), [("token".to_owned(), SecretRef::Named("t".to_owned()))]);
    }
}
