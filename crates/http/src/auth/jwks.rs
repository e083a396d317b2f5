//! The keys by which an issuer's tokens are checked: one secret, or a set of public keys.

use std::sync::{Arc, PoisonError, RwLock};

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};

use crate::limits::{KEY_SET_MAX, KEYS_MAX};

/// The fewest bytes of the modulus of an RSA key: 2,048 bits.
const RSA_BYTES_MIN: usize = 256;

/// A key, with what its set says of it.
#[derive(Clone)]
pub(crate) struct Key {
    /// The name of the key.
    id: Option<String>,
    /// The one algorithm that the key is for.
    algorithm: Option<String>,
    pub(crate) verifier: DecodingKey,
}

/// The keys of an issuer, which may be read anew.
pub(crate) struct Keys(RwLock<Arc<Vec<Key>>>);

/// A set of keys that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadKeys {
    #[error("it is no JSON Web Key Set")]
    Malformed,
    #[error("it has more than {KEY_SET_MAX} bytes or {KEYS_MAX} keys")]
    TooLarge,
    #[error("it holds a secret or a private key; a set holds public keys only")]
    NotPublic,
    #[error("it holds an RSA key of fewer than 2048 bits")]
    Weak,
    #[error("it holds no key for signatures that is known here")]
    Empty,
}

impl Keys {
    /// Returns the keys of an issuer that shares a secret with us.
    pub(crate) fn of_secret(secret: &[u8]) -> Self {
        let verifier = DecodingKey::from_secret(secret);
        Self::from_keys(vec![Key { id: None, algorithm: None, verifier }])
    }

    pub(crate) fn from_keys(keys: Vec<Key>) -> Self {
        Self(RwLock::new(Arc::new(keys)))
    }

    /// Puts other keys in place.
    #[cfg(feature = "client")]
    pub(crate) fn replace(&self, keys: Vec<Key>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Returns the keys that may have signed a token with this header.
    pub(crate) fn fitting(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<Key> {
        let all = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let is_named = |key: &&Key| match (&key.id, id) {
            (Some(own), Some(named)) => own == named,
            _ => true,
        };
        let name = format!("{algorithm:?}");
        let fits = |key: &&Key| {
            // A key of one family never checks a signature of another: a public key is not a secret.
            key.verifier.family() == algorithm.family()
                && key.algorithm.as_ref().is_none_or(|own| *own == name)
        };
        all.iter().filter(is_named).filter(fits).cloned().collect()
    }

    /// Whether a key with exactly this name is at hand.
    #[cfg(feature = "client")]
    pub(crate) fn names(&self, id: &str) -> bool {
        let all = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        all.iter().any(|key| key.id.as_deref() == Some(id))
    }
}

/// Reads a set of public keys.
///
/// # Errors
/// [`BadKeys`] if the set is not valid, or holds what no set of public keys holds.
pub(crate) fn read_keys(text: &[u8]) -> Result<Vec<Key>, BadKeys> {
    if text.len() > KEY_SET_MAX {
        return Err(BadKeys::TooLarge);
    }
    let set: JwkSet = serde_json::from_slice(text).map_err(|_| BadKeys::Malformed)?;
    if set.keys.len() > KEYS_MAX {
        return Err(BadKeys::TooLarge);
    }
    let keys: Vec<Option<Key>> = set.keys.iter().map(read_key).collect::<Result<_, _>>()?;
    let keys: Vec<Key> = keys.into_iter().flatten().collect();
    if keys.is_empty() { Err(BadKeys::Empty) } else { Ok(keys) }
}

/// Reads a key; `None` if it is not for signatures, or of a kind that is not known here.
fn read_key(jwk: &Jwk) -> Result<Option<Key>, BadKeys> {
    let common = &jwk.common;
    let is_use = common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
    let may_verify = |operations: &Vec<KeyOperations>| operations.contains(&KeyOperations::Verify);
    let is_operation = common.key_operations.as_ref().is_none_or(may_verify);
    if let AlgorithmParameters::OctetKey(_) = jwk.algorithm {
        return Err(BadKeys::NotPublic);
    }
    if !is_use || !is_operation {
        return Ok(None);
    }
    let Ok(verifier) = DecodingKey::from_jwk(jwk) else { return Ok(None) };
    if let jsonwebtoken::DecodingKeyKind::RsaModulusExponent { n, .. } = verifier.kind()
        && n.iter().skip_while(|byte| **byte == 0).count() < RSA_BYTES_MIN
    {
        return Err(BadKeys::Weak);
    }
    let algorithm = common.key_algorithm.as_ref().map(|algorithm| format!("{algorithm:?}"));
    Ok(Some(Key { id: common.key_id.clone(), algorithm, verifier }))
}

/// Whether an algorithm takes a secret that both sides have.
pub(crate) fn takes_secret(algorithm: Algorithm) -> bool {
    algorithm.family() == AlgorithmFamily::Hmac
}
