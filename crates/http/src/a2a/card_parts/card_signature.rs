//! Signatures of cards: JWS over the canonical card, by a key of a file.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::crypto::sign;
use jsonwebtoken::{Algorithm, EncodingKey};
use proto_events::json::JsonText;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::a2a::card_parts::canonical::{canonical, of_1, unsigned};

/// The most bytes of a file with a key.
const FILE_MAX: u64 = 64 * 1024;

/// The key by which an agent's cards are signed.
#[derive(Clone)]
pub struct CardKey {
    key: EncodingKey,
    algorithm: Algorithm,
    id: String,
    jku: Option<String>,
}

/// A key that cannot be used. The text holds nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {why}")]
pub struct CardKeyError {
    file: String,
    why: String,
}

impl fmt::Debug for CardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardKey")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl CardKey {
    /// Reads a private key in PEM: PKCS#8 of the curves P-256, P-384 or Ed25519 (`BEGIN PRIVATE KEY`), or RSA in PKCS#1
    /// (`BEGIN RSA PRIVATE KEY`). Its id is the name of the file without its ending.
    ///
    /// # Errors
    /// [`CardKeyError`] if the file cannot be read or holds no such key.
    pub fn from_file(path: &Path) -> Result<Self, CardKeyError> {
        let wrong = |why: &str| CardKeyError { file: path.display().to_string(), why: why.to_owned() };
        let size = std::fs::metadata(path).map_err(|error| wrong(&error.kind().to_string()))?.len();
        if size > FILE_MAX {
            return Err(wrong("it has more than 64 KiB"));
        }
        let text = std::fs::read_to_string(path).map(Zeroizing::new);
        let text = text.map_err(|error| wrong(&error.kind().to_string()))?;
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let (key, algorithm) =
            read(&text).ok_or_else(|| wrong("it holds no private key that is known here"))?;
        Ok(Self { key, algorithm, id, jku: None })
    }

    /// Sets the id of the key, which signatures name.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self }
    }

    /// Sets the address of the key set with the public key, which signatures name.
    #[must_use]
    pub fn jku(self, url: &str) -> Self {
        Self { jku: Some(url.to_owned()), ..self }
    }

    /// Returns the card with its signatures: one for readers that check the card as it stands, and one for readers that keep
    /// what A2A 1.0 knows of it, where that is less.
    pub(crate) fn signed(&self, card: JsonText) -> JsonText {
        let Ok(mut whole) = serde_json::from_str::<Value>(card.as_str()) else { return card };
        let payloads = payloads(&whole);
        let signatures: Option<Vec<Value>> = payloads.iter().map(|payload| self.signature(payload)).collect();
        let (Value::Object(members), Some(signatures)) = (&mut whole, signatures) else { return card };
        members.insert("signatures".to_owned(), Value::Array(signatures));
        JsonText::parse(&whole.to_string()).unwrap_or(card)
    }

    fn signature(&self, payload: &str) -> Option<Value> {
        let mut header = json!({"alg": format!("{:?}", self.algorithm), "typ": "JOSE", "kid": self.id});
        if let (Value::Object(members), Some(jku)) = (&mut header, &self.jku) {
            members.insert("jku".to_owned(), Value::from(jku.as_str()));
        }
        let protected = URL_SAFE_NO_PAD.encode(header.to_string());
        let input = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload));
        let signature = sign(input.as_bytes(), &self.key, self.algorithm).ok()?;
        Some(json!({"protected": protected, "signature": signature}))
    }
}

/// Returns the texts of a card that are signed: of the card as it stands, and of what A2A 1.0 knows of it, where that is less.
pub(crate) fn payloads(card: &Value) -> Vec<String> {
    let mut payloads = vec![canonical(&unsigned(card)), canonical(&of_1(card))];
    payloads.dedup();
    payloads
}

/// Reads a key of PEM, and finds the algorithm by which it signs.
fn read(pem: &str) -> Option<(EncodingKey, Algorithm)> {
    let body = |name: &str| {
        let (_, rest) = pem.split_once(&format!("-----BEGIN {name}-----"))?;
        let (body, _) = rest.split_once(&format!("-----END {name}-----"))?;
        let body: Zeroizing<String> = Zeroizing::new(body.split_whitespace().collect());
        STANDARD.decode(body.as_bytes()).ok().map(Zeroizing::new)
    };
    let mut ways = Vec::new();
    if let Some(der) = body("PRIVATE KEY") {
        let curve = || EncodingKey::from_ec_der(&der);
        ways.extend([(curve(), Algorithm::ES256), (curve(), Algorithm::ES384)]);
        ways.push((EncodingKey::from_ed_der(&der), Algorithm::EdDSA));
    }
    if let Some(der) = body("RSA PRIVATE KEY") {
        ways.push((EncodingKey::from_rsa_der(&der), Algorithm::RS256));
    }
    ways.into_iter().find(|(key, algorithm)| sign(b"", key, *algorithm).is_ok())
}
