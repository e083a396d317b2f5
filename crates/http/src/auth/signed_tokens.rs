//! Signed tokens (JWT): the issuers that are trusted, and the check of a token's signature, times, issuer and audience.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};

use crate::auth::caller::{Scope, Scopes};
use crate::auth::jwks::Keys;
#[cfg(feature = "client")]
use crate::auth::jwks_fetch::KeySource;
use crate::limits::{PRINCIPAL_MAX, TOKEN_MAX};

/// An issuer of tokens that is trusted.
pub(crate) struct Issuer {
    /// The algorithms, all of one family.
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) keys: Arc<Keys>,
    /// The address from which the keys are read anew.
    #[cfg(feature = "client")]
    pub(crate) source: Option<KeySource>,
    /// The `iss` of its tokens.
    pub(crate) name: Option<String>,
    pub(crate) audience: Vec<String>,
    pub(crate) leeway: u64,
    pub(crate) requires_exp: bool,
    /// The claim that names the principal.
    pub(crate) principal_claim: String,
    /// The text before the name, which keeps names of several issuers apart.
    pub(crate) prefix: String,
    /// The claim that names scopes.
    pub(crate) scope_claim: String,
    /// The most that a token of this issuer allows.
    pub(crate) scopes: Scopes,
}

/// The reason why a token is refused, in Protolink's words where it has some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    #[error("JWT must contain header, payload and signature segments")]
    Malformed,
    #[error("JWT algorithm mismatch")]
    Algorithm,
    #[error("JWT signature verification failed")]
    Signature,
    #[error("JWT has expired")]
    Expired,
    #[error("JWT is not valid yet")]
    NotYet,
    #[error("JWT issued-at time is in the future")]
    IssuedLater,
    #[error("JWT issuer mismatch")]
    Issuer,
    #[error("JWT audience mismatch")]
    Audience,
    #[error("JWT claim is missing or has another type")]
    Claim,
    #[cfg(feature = "client")]
    #[error("the keys of the JWT's issuer could not be read")]
    KeysUnread,
}

/// The claims of a token.
type Claims = serde_json::Map<String, serde_json::Value>;

impl BadToken {
    /// Returns the one of two refusals that says more: a signature that was right, but something else that was not; then a
    /// signature that was not, then a token of another kind.
    pub(crate) fn or(self, other: Self) -> Self {
        let says_less = self == Self::Algorithm || self == Self::Signature && other != Self::Algorithm;
        if says_less { other } else { self }
    }
}

impl Issuer {
    /// Checks a token with the keys at hand, and returns its principal and scopes.
    ///
    /// # Errors
    /// [`BadToken`], which says no more than what is wrong.
    pub(crate) async fn check(&self, token: &str) -> Result<(String, Scopes), BadToken> {
        let header = self.header(token)?;
        #[cfg(feature = "client")]
        if let Some(source) = &self.source {
            source.keep_fresh().await;
        }
        #[cfg(not(feature = "client"))]
        std::future::ready(()).await;
        self.check_with_keys(token, &header)
    }

    /// Checks a token that no key at hand has signed, if it names a key that is not known: the issuer may have a new one.
    /// `None` if another issuer's keys are all that there is to say.
    #[cfg(feature = "client")]
    pub(crate) async fn check_with_new_keys(
        &self,
        token: &str,
    ) -> Option<Result<(String, Scopes), BadToken>> {
        let source = self.source.as_ref()?;
        let header = self.header(token).ok()?;
        if !self.may_have_issued(token) {
            return None;
        }
        // A reading that ended since the first check may have brought the key.
        if header.kid.as_deref().is_some_and(|id| self.keys.names(id)) {
            return Some(self.check_with_keys(token, &header));
        }
        source.read().await;
        if !source.was_read() {
            return Some(Err(BadToken::KeysUnread));
        }
        Some(self.check_with_keys(token, &header))
    }

    /// Whether a token says that it is of this issuer. What it says is not checked yet.
    #[cfg(feature = "client")]
    fn may_have_issued(&self, token: &str) -> bool {
        let Some(name) = &self.name else { return true };
        let claims = jsonwebtoken::dangerous::insecure_decode_claims::<Claims>(token);
        claims.is_ok_and(|claims| claims.get("iss").and_then(|iss| iss.as_str()) == Some(name))
    }

    fn header(&self, token: &str) -> Result<Header, BadToken> {
        let header = read_header(token)?;
        if self.algorithms.contains(&header.alg) { Ok(header) } else { Err(BadToken::Algorithm) }
    }

    fn check_with_keys(&self, token: &str, header: &Header) -> Result<(String, Scopes), BadToken> {
        let validation = self.validation(header.alg);
        let mut failed = BadToken::Signature;
        for key in self.keys.fitting(header.kid.as_deref(), header.alg) {
            match decode::<Claims>(token, &key.verifier, &validation) {
                Ok(data) => return self.caller(&data.claims),
                Err(error) => match reason(error.kind()) {
                    BadToken::Signature => {}
                    // The signature was right.
                    other => failed = other,
                },
            }
        }
        Err(failed)
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.leeway;
        validation.validate_nbf = true;
        let mut required: Vec<&str> = Vec::new();
        if self.requires_exp {
            required.push("exp");
        }
        if let Some(issuer) = &self.name {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        // Without an audience of ours, one that a token names is not checked.
        validation.validate_aud = !self.audience.is_empty();
        if !self.audience.is_empty() {
            validation.set_audience(&self.audience);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        validation
    }

    fn caller(&self, claims: &Claims) -> Result<(String, Scopes), BadToken> {
        if let Some(issued) = claims.get("iat") {
            let issued = issued.as_f64().ok_or(BadToken::Claim)?;
            if issued > seconds_now() + whole_seconds(self.leeway) {
                return Err(BadToken::IssuedLater);
            }
        }
        let name = claims.get(&self.principal_claim).and_then(|name| name.as_str());
        let name = name.filter(|name| !name.is_empty()).ok_or(BadToken::Claim)?;
        let name = format!("{}{name}", self.prefix);
        if name.len() > PRINCIPAL_MAX || name.chars().any(char::is_control) {
            return Err(BadToken::Claim);
        }
        let scopes = match claims.get(&self.scope_claim) {
            None => self.scopes,
            Some(named) => named_scopes(named).ok_or(BadToken::Claim)?.and(self.scopes),
        };
        Ok((name, scopes))
    }
}

/// Reads the header of a token.
fn read_header(token: &str) -> Result<Header, BadToken> {
    if token.len() > TOKEN_MAX || token.split('.').count() != 3 {
        return Err(BadToken::Malformed);
    }
    // An algorithm that is not known, such as `none`, is refused here.
    let header = decode_header(token).map_err(|_| BadToken::Algorithm)?;
    // A reader that does not know a critical extension must refuse the token (RFC 7515, 4.1.11).
    if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
        return Err(BadToken::Malformed);
    }
    Ok(header)
}

/// Reads scopes: words with blanks between them (RFC 8693), or an array of words. Other words are other services'.
fn named_scopes(named: &serde_json::Value) -> Option<Scopes> {
    let words: Vec<&str> = match named {
        serde_json::Value::String(text) => text.split_whitespace().collect(),
        serde_json::Value::Array(items) => items.iter().map(|item| item.as_str()).collect::<Option<_>>()?,
        _ => return None,
    };
    let add = |scopes: Scopes, word: &str| {
        Scope::parse(word.strip_prefix("taskreel:").unwrap_or(word))
            .map_or(scopes, |scope| scopes.with(scope))
    };
    Some(words.into_iter().fold(Scopes::NONE, add))
}

fn reason(kind: &jsonwebtoken::errors::ErrorKind) -> BadToken {
    use jsonwebtoken::errors::ErrorKind;
    match kind {
        ErrorKind::ExpiredSignature => BadToken::Expired,
        ErrorKind::ImmatureSignature => BadToken::NotYet,
        ErrorKind::InvalidIssuer => BadToken::Issuer,
        ErrorKind::InvalidAudience => BadToken::Audience,
        ErrorKind::InvalidAlgorithm => BadToken::Algorithm,
        ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => BadToken::Audience,
        ErrorKind::MissingRequiredClaim(claim) if claim == "iss" => BadToken::Issuer,
        ErrorKind::MissingRequiredClaim(_)
        | ErrorKind::InvalidClaimFormat(_)
        | ErrorKind::Json(_)
        | ErrorKind::Utf8(_) => BadToken::Claim,
        _ => BadToken::Signature,
    }
}

/// Returns the seconds since 1970; the times of tokens are of the real clock.
fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |passed| passed.as_secs_f64())
}

fn whole_seconds(seconds: u64) -> f64 {
    f64::from(u32::try_from(seconds).unwrap_or(u32::MAX))
}
