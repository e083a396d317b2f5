//! The keys that a client trusts, and the signatures of cards that they have made.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::verify;
use jsonwebtoken::{AlgorithmFamily, Header};
use proto_events::json::JsonText;
use serde_json::Value;

use crate::a2a::card_parts::canonical::{canonical, of_1, unsigned};
use crate::a2a::client::card::Card;
use crate::a2a::client::error::A2aError;
use crate::auth::jwks::{Keys, read_keys};

/// The most signatures of a card that are checked.
const SIGNATURES_MAX: usize = 16;

/// Public keys that a client trusts for the cards of agents.
pub struct CardKeys(Keys);

/// A set of keys that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CardKeysError(String);

impl fmt::Debug for CardKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardKeys").finish_non_exhaustive()
    }
}

impl CardKeys {
    /// Reads a JSON Web Key Set of public keys.
    ///
    /// # Errors
    /// [`CardKeysError`] if it is not valid, or holds what no set of public keys holds.
    pub fn from_jwks(text: &str) -> Result<Self, CardKeysError> {
        let keys = read_keys(text.as_bytes()).map_err(|error| CardKeysError(error.to_string()))?;
        Ok(Self(Keys::from_keys(keys)))
    }

    /// Whether one of the keys has made a signature over a text.
    fn have_signed(&self, signature: &Value, payload: &str) -> bool {
        let member = |name: &str| signature.get(name).and_then(Value::as_str);
        let (Some(protected), Some(signature)) = (member("protected"), member("signature")) else {
            return false;
        };
        let Ok(protected_header) = URL_SAFE_NO_PAD.decode(protected) else { return false };
        let members: Value = serde_json::from_slice(&protected_header).unwrap_or_default();
        let Ok(header) = serde_json::from_slice::<Header>(&protected_header) else { return false };
        // A secret that both sides have proves nothing about who has signed, and what must be understood is not known here.
        if header.alg.family() == AlgorithmFamily::Hmac || members.get("crit").is_some() {
            return false;
        }
        let input = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload));
        let keys = self.0.fitting(header.kid.as_deref(), header.alg);
        keys.iter().any(|key| verify(signature, input.as_bytes(), &key.verifier, header.alg).unwrap_or(false))
    }
}

impl Card {
    /// Reads a card that one of these keys has signed. What the signature does not cover is not read: of a card whose signature
    /// covers what A2A 1.0 knows, only that.
    ///
    /// # Errors
    /// [`A2aError::Card`] if no signature is of one of the keys, and as [`Card::read`].
    pub fn verified(json: &JsonText, url: &str, keys: &CardKeys) -> Result<Self, A2aError> {
        let wrong = |why: &str| A2aError::Card { url: url.to_owned(), why: why.to_owned() };
        let whole: Value = serde_json::from_str(json.as_str()).map_err(|error| wrong(&error.to_string()))?;
        let signatures = whole.get("signatures").and_then(Value::as_array);
        let signatures = signatures.filter(|all| !all.is_empty()).ok_or_else(|| wrong("it is not signed"))?;
        for covered in [unsigned(&whole), of_1(&whole)] {
            let payload = canonical(&covered);
            if signatures.iter().take(SIGNATURES_MAX).any(|one| keys.have_signed(one, &payload)) {
                let covered = JsonText::parse(&covered.to_string());
                return Self::read(&covered.map_err(|error| wrong(&error.to_string()))?, url);
            }
        }
        Err(wrong("none of its signatures was made by a key that is trusted"))
    }
}
