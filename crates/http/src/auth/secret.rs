//! Secrets: read from files or the environment, kept as digests, compared in constant time, and never printed.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};
use zeroize::Zeroizing;

use crate::limits::SECRET_MAX;

/// The text of a secret, wiped from memory when it is dropped. It has no `Debug`: nothing can print it by mistake.
pub(crate) struct Secret(Zeroizing<Vec<u8>>);

/// The reason why a secret cannot be used. It never says what the secret is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadSecret {
    #[error("it cannot be read ({0})")]
    Unreadable(std::io::ErrorKind),
    #[error("there is none: it is empty or not set")]
    Empty,
    #[error("it has more than {SECRET_MAX} bytes")]
    TooLong,
}

impl Secret {
    /// Reads a secret from a file: its text without the white space around it.
    pub(crate) fn from_file(path: &Path) -> Result<Self, BadSecret> {
        let text = std::fs::read(path).map_err(|error| BadSecret::Unreadable(error.kind()))?;
        Self::from_bytes(Zeroizing::new(text).trim_ascii())
    }

    /// Reads a secret from a variable of the environment.
    pub(crate) fn from_env(name: &str) -> Result<Self, BadSecret> {
        let text = Zeroizing::new(std::env::var(name).map_err(|_| BadSecret::Empty)?);
        Self::from_bytes(text.as_bytes().trim_ascii())
    }

    /// Returns a secret of these bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, BadSecret> {
        match bytes.len() {
            0 => Err(BadSecret::Empty),
            1..=SECRET_MAX => Ok(Self(Zeroizing::new(bytes.to_vec()))),
            _ => Err(BadSecret::TooLong),
        }
    }

    /// Returns the bytes, for a key that is made from them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the digest that is kept in place of the secret.
    pub(crate) fn digest(&self) -> SecretDigest {
        SecretDigest::from_presented(&self.0)
    }
}

/// The SHA-256 of a secret. It can be compared in constant time only: it has no `PartialEq`.
#[derive(Clone, Copy)]
pub(crate) struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// Returns the digest of a presented secret.
    pub(crate) fn from_presented(presented: &[u8]) -> Self {
        Self(Sha256::digest(presented).into())
    }

    /// Returns a digest that was written as 64 hexadecimal digits.
    pub(crate) fn parse(hex: &str) -> Option<Self> {
        proto_events::id::Digest::parse(&hex.to_ascii_lowercase()).map(|digest| Self(digest.0))
    }

    /// Compares two digests in a time that does not depend on them.
    pub(crate) fn is(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a type to whether it can be compared by `==`: the inherent constant wins where it is.
    struct Comparable<T>(std::marker::PhantomData<T>);
    trait Otherwise {
        const IS: bool = false;
    }
    impl<T> Otherwise for Comparable<T> {}
    impl<T: PartialEq> Comparable<T> {
        const IS: bool = true;
    }

    #[test]
    fn digests_of_secrets_can_only_be_compared_in_constant_time() {
        const { assert!(Comparable::<[u8; 32]>::IS, "the question works") };
        const { assert!(!Comparable::<SecretDigest>::IS, "`==` stops at the first difference") };
        let secret = Secret::from_bytes(b"s3cret").unwrap();
        assert!(bool::from(secret.digest().is(&SecretDigest::from_presented(b"s3cret"))));
        assert!(!bool::from(secret.digest().is(&SecretDigest::from_presented(b"s3creT"))));
    }

    #[test]
    fn a_secret_of_a_file_has_no_white_space_around_it_and_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, " s3cret \n").unwrap();
        assert!(bool::from(
            Secret::from_file(&path).unwrap().digest().is(&SecretDigest::from_presented(b"s3cret"))
        ));
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(Secret::from_file(&path), Err(BadSecret::Empty)));
        std::fs::write(&path, vec![b'x'; SECRET_MAX + 1]).unwrap();
        assert!(matches!(Secret::from_file(&path), Err(BadSecret::TooLong)));
        assert!(matches!(Secret::from_file(dir.path()), Err(BadSecret::Unreadable(_))));
    }

    #[test]
    fn a_digest_is_read_from_hexadecimal_digits() {
        let hex = "2BB80D537B1DA3E38BD30361AA855686BDE0EACD7162FEF6A25FE97BF527A25B";
        assert!(bool::from(SecretDigest::parse(hex).unwrap().is(&SecretDigest::from_presented(b"secret"))));
        assert!(SecretDigest::parse("2bb8").is_none());
    }
}
