//! The rules by which callers are let in: credentials, issuers of tokens, hosts, origins and bounds.

use std::path::Path;
use std::time::Duration;

use proto_events::envelope::Principal;
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

use crate::auth::caller::{Caller, Scopes};
use crate::auth::places::Places;
use crate::auth::presented_secret::PresentedSecret;
use crate::auth::quota::Quota;
use crate::auth::secret::{BadSecret, Secret, SecretDigest};
use crate::auth::signed_tokens::{BadToken, Issuer};
use crate::limits::{PRINCIPAL_MAX, REQUEST_SECONDS};

/// The rules by which callers are let in. Without a credential and without an issuer, every caller may do all, under no
/// name: such a server stands on a loopback address.
pub struct Access {
    pub(crate) credentials: Vec<Credential>,
    pub(crate) issuers: Vec<Issuer>,
    pub(crate) places: Places,
    pub(crate) quota: Quota,
    pub(crate) answer_within: Duration,
}

/// A secret that somebody has, with the name and the scopes of its bearer.
pub(crate) struct Credential {
    pub(crate) name: String,
    /// The user of HTTP Basic; `None` for a token.
    pub(crate) user: Option<SecretDigest>,
    pub(crate) secret: SecretDigest,
    pub(crate) scopes: Scopes,
}

/// Rules that cannot be used. The text never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccessError(pub(crate) String);

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("credentials", &self.credentials.len())
            .field("issuers", &self.issuers.len())
            .field("places", &self.places)
            .field("quota", &self.quota)
            .finish_non_exhaustive()
    }
}

impl Default for Access {
    fn default() -> Self {
        Self::open()
    }
}

impl Access {
    /// Returns rules without authentication.
    pub fn open() -> Self {
        Self {
            credentials: Vec::new(),
            issuers: Vec::new(),
            places: Places::default(),
            quota: Quota::default(),
            answer_within: Duration::from_secs(REQUEST_SECONDS),
        }
    }

    /// Adds a token that stands alone in a file. Its bearer has every scope and this name.
    ///
    /// # Errors
    /// [`AccessError`] if the file cannot be used, or the name is not valid.
    pub fn with_token_file(self, name: &str, path: &Path) -> Result<Self, AccessError> {
        self.with_secret(name, Scopes::ALL, Secret::from_file(path))
            .map_err(|error| error.with_source(path.display()))
    }

    /// Adds a token that stands in a variable of the environment. Its bearer has every scope and this name.
    ///
    /// # Errors
    /// [`AccessError`] if the variable is not set or empty, or the name is not valid.
    pub fn with_token_env(self, name: &str, variable: &str) -> Result<Self, AccessError> {
        self.with_secret(name, Scopes::ALL, Secret::from_env(variable))
            .map_err(|error| error.with_source(variable))
    }

    /// Adds a token of a program's own making. Its bearer has these scopes and this name.
    ///
    /// # Errors
    /// [`AccessError`] if the token is empty or too long, or the name is not valid.
    pub fn with_token(self, name: &str, scopes: Scopes, token: &str) -> Result<Self, AccessError> {
        self.with_secret(name, scopes, Secret::from_bytes(token.as_bytes()))
            .map_err(|error| error.with_source("the token"))
    }

    fn with_secret(
        mut self,
        name: &str,
        scopes: Scopes,
        secret: Result<Secret, BadSecret>,
    ) -> Result<Self, AccessError> {
        let secret = secret.map_err(|error| AccessError(error.to_string()))?.digest();
        self.add(Credential { name: name.to_owned(), user: None, secret, scopes })?;
        Ok(self)
    }

    pub(crate) fn add(&mut self, credential: Credential) -> Result<(), AccessError> {
        let name = &credential.name;
        if name.is_empty() || name.len() > PRINCIPAL_MAX || name.chars().any(char::is_control) {
            let why = format!("a name has 1 to {PRINCIPAL_MAX} bytes and no control characters");
            return Err(AccessError(why));
        }
        self.credentials.push(credential);
        Ok(())
    }

    /// Allows requests that name this host, such as `example.org` or `example.org:8080`.
    ///
    /// # Errors
    /// [`AccessError`] if it is not valid.
    pub fn allow_host(mut self, host: &str) -> Result<Self, AccessError> {
        self.places.allow_host(host).map_err(|error| AccessError(error.to_string()))?;
        Ok(self)
    }

    /// Allows the pages of this origin, such as `https://example.org`.
    ///
    /// # Errors
    /// [`AccessError`] if it is not valid.
    pub fn allow_origin(mut self, origin: &str) -> Result<Self, AccessError> {
        self.places.allow_origin(origin).map_err(|error| AccessError(error.to_string()))?;
        Ok(self)
    }

    /// Answers only requests that name a host of this machine, or an allowed one: for a server on a loopback address.
    #[must_use]
    pub fn only_local_hosts(mut self) -> Self {
        self.places.is_local = true;
        self
    }

    /// Sets the bounds for each principal.
    #[must_use]
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quota = quota;
        self
    }

    /// Whether callers are asked for a credential.
    pub fn authenticates(&self) -> bool {
        !self.credentials.is_empty() || !self.issuers.is_empty()
    }

    /// Returns the caller with this credential.
    ///
    /// # Errors
    /// The reason, in Protolink's words.
    pub(crate) async fn caller(&self, presented: &PresentedSecret) -> Result<Caller, String> {
        let (name, scopes) = match presented {
            PresentedSecret::Ambiguous => return Err("Several credentials".to_owned()),
            PresentedSecret::Basic(None) => return Err("Invalid Basic authentication format".to_owned()),
            PresentedSecret::Basic(Some((user, password))) => {
                let user = Some(SecretDigest::from_presented(user.as_bytes()));
                let found = self.find(user, SecretDigest::from_presented(password.as_bytes()));
                found.ok_or_else(|| "Invalid username or password".to_owned())?
            }
            PresentedSecret::Token(token) => {
                match self.find(None, SecretDigest::from_presented(token.as_bytes())) {
                    Some(found) => found,
                    None => self.signed(token).await?,
                }
            }
        };
        Ok(Caller { principal: Principal::authenticated(name), scopes })
    }

    /// Returns the name and the scopes of a static credential. Every one is compared, in constant time, whichever fits.
    fn find(&self, user: Option<SecretDigest>, secret: SecretDigest) -> Option<(String, Scopes)> {
        let mut found = u64::MAX;
        for (index, credential) in (0_u64..).zip(&self.credentials) {
            let is_user = match (&credential.user, &user) {
                (Some(own), Some(named)) => own.is(named),
                (own, named) => u8::from(own.is_some()).ct_eq(&u8::from(named.is_some())),
            };
            found.conditional_assign(&index, is_user & credential.secret.is(&secret));
        }
        let credential = self.credentials.get(usize::try_from(found).ok()?)?;
        Some((credential.name.clone(), credential.scopes))
    }

    /// Returns the name and the scopes of a signed token.
    async fn signed(&self, token: &str) -> Result<(String, Scopes), String> {
        if self.issuers.is_empty() || (token.split('.').count() != 3 && !self.credentials.is_empty()) {
            return Err("Invalid API key".to_owned());
        }
        let mut refusal: Option<BadToken> = None;
        // What the issuer of the token says counts more than that others have not signed it.
        let mut note = |error: BadToken| refusal = Some(refusal.map_or(error, |first| first.or(error)));
        for issuer in &self.issuers {
            match issuer.check(token).await {
                Ok(found) => return Ok(found),
                Err(error) => note(error),
            }
        }
        // Only a token that nobody at hand has signed waits for an issuer elsewhere.
        #[cfg(feature = "client")]
        for issuer in &self.issuers {
            match issuer.check_with_new_keys(token).await {
                Some(Ok(found)) => return Ok(found),
                Some(Err(error)) => note(error),
                None => {}
            }
        }
        let why = refusal.map(|error| error.to_string()).unwrap_or_default();
        Err(format!("Token authentication failed: {why}"))
    }
}

impl AccessError {
    fn with_source(self, source: impl std::fmt::Display) -> Self {
        Self(format!("{source}: {self}"))
    }
}
