//! The settings of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::a2a::client::auth::{SecretSource, Secrets};
use crate::a2a::client::card::{Binding, Interface};
use crate::a2a::client::error::A2aError;
use crate::a2a::client::tap::{Observer, SecretQuery, Tap};
use crate::a2a::version::Version;
use crate::client::credentials::Credentials;
use crate::limits::{A2A_ATTEMPTS, CLIENT_ANSWER_MAX, CLIENT_TIMEOUT};

/// The settings of a [`Client`](crate::a2a::Client). No secret among them is shown by `Debug`.
#[derive(Clone)]
pub struct Options {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) secrets: Secrets,
    pub(crate) timeout: Duration,
    pub(crate) answer_max: usize,
    pub(crate) attempts: u32,
    binding: Option<Binding>,
    version: Option<Version>,
    pub(crate) other_hosts: bool,
    pub(crate) query: SecretQuery,
    pub(crate) signaled: Option<HeaderValue>,
    pub(crate) is_verified: bool,
    observer: Option<Arc<dyn Observer>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("credentials", &self.credentials)
            .field("headers", &self.headers)
            .field("timeout", &self.timeout)
            .field("binding", &self.binding)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            credentials: None,
            headers: Vec::new(),
            secrets: Secrets::default(),
            timeout: CLIENT_TIMEOUT,
            answer_max: CLIENT_ANSWER_MAX,
            attempts: A2A_ATTEMPTS,
            binding: None,
            version: None,
            other_hosts: false,
            query: SecretQuery::default(),
            signaled: None,
            is_verified: true,
            observer: None,
        }
    }
}

impl Options {
    /// Returns the settings of a client without credentials.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a token, as `Authorization: Bearer`.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        Self { credentials: Some(Credentials::Bearer(token.to_owned())), ..self }
    }

    /// Shows these credentials.
    #[must_use]
    pub fn credentials(self, credentials: Credentials) -> Self {
        Self { credentials: Some(credentials), ..self }
    }

    /// Sends a further header, such as that of an API key. Its value counts as a secret.
    ///
    /// # Errors
    /// [`A2aError::Request`] if the name or the value cannot stand in a header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, A2aError> {
        let wrong = || A2aError::Request("a header of the settings has a wrong name or value".to_owned());
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        self.headers.push((name, value));
        Ok(self)
    }

    /// Names the place of the secret for a scheme of the agent's card. Of the card's alternatives
    /// (`securityRequirements`) the first one is chosen of which all secrets are named and can be read: bearer tokens, the ones of
    /// OAuth 2.0 and `OpenID` Connect, API keys in a header, a query or a cookie, and Basic.
    #[must_use]
    pub fn secret(mut self, scheme: &str, source: SecretSource) -> Self {
        self.secrets.named.insert(scheme.to_owned(), source);
        self
    }

    /// Takes the secrets of the card's schemes from variables of the environment: that of the scheme `api-key` with the prefix
    /// `WEATHER` from `WEATHER_API_KEY`. The card names its schemes, so a prefix belongs to one agent: another one's card could
    /// ask for what was meant for the first.
    #[must_use]
    pub fn secrets_from_env(mut self, prefix: &str) -> Self {
        self.secrets.prefix = Some(prefix.to_owned());
        self
    }

    /// Sends a further parameter of the query, such as that of an API key. Its value counts as a secret.
    #[must_use]
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.query.0.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Names this version in requests, whatever the interface's is: for trying how an agent refuses one.
    ///
    /// # Errors
    /// [`A2aError::Request`] if it cannot stand in a header.
    pub fn signaled_version(self, version: &str) -> Result<Self, A2aError> {
        let wrong = |_| A2aError::Request("the version cannot stand in a header".to_owned());
        Ok(Self { signaled: Some(HeaderValue::from_str(version).map_err(wrong)?), ..self })
    }

    /// Believes every server over TLS, whosever its certificate is. For development only.
    #[must_use]
    pub fn without_verification(self) -> Self {
        Self { is_verified: false, ..self }
    }

    /// Has an observer watch the exchanges.
    #[must_use]
    pub fn observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Returns the way of exchanges to the observer, with what they show of the client.
    pub(crate) fn tap(&self) -> Tap {
        let (observer, query) = (self.observer.clone(), self.query.clone());
        Tap { observer, query, is_known: self.credentials.is_some() }
    }

    /// Sets the longest wait for a whole answer, and of a stream for its next bytes.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the most bytes of an answer, or of one event of a stream.
    #[must_use]
    pub fn answer_max(self, bytes: usize) -> Self {
        Self { answer_max: bytes, ..self }
    }

    /// Sets the number of times that what may be repeated is tried, at least one.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..self }
    }

    /// Chooses the binding; by default the card does.
    #[must_use]
    pub fn binding(self, binding: Binding) -> Self {
        Self { binding: Some(binding), ..self }
    }

    /// Chooses the version; by default it is the newest that both speak.
    #[must_use]
    pub fn version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Shows the credentials also at interfaces of other hosts than that of the card. By default such interfaces are passed
    /// over where there are credentials: the card would say to whom they are shown.
    #[must_use]
    pub fn credentials_for_other_hosts(self) -> Self {
        Self { other_hosts: true, ..self }
    }

    /// Whether the client shows anything that is secret.
    pub(crate) fn has_secrets(&self) -> bool {
        self.has_own_secrets() || !self.secrets.is_empty()
    }

    /// Whether the host set what is shown, whatever the card says.
    pub(crate) fn has_own_secrets(&self) -> bool {
        self.credentials.is_some() || !self.headers.is_empty() || !self.query.0.is_empty()
    }

    /// Whether an interface is one that was chosen.
    pub(crate) fn fits(&self, interface: &Interface) -> bool {
        self.binding.is_none_or(|binding| binding == interface.binding)
            && self.version.is_none_or(|version| version == interface.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_stands_in_what_a_person_reads() {
        let options = Options::new().bearer("hush").header("x-api-key", "hush").unwrap().query("key", "hush");
        assert!(!format!("{options:?}").contains("hush"));
        let error = Options::new().header("x-api-key", "hush\n").unwrap_err();
        assert!(!error.to_string().contains("hush"));
    }
}
