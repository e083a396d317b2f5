//! Keys of an issuer that are read from its address: when a token names a key that is not known, and every ten minutes,
//! so that a key which the issuer has withdrawn is not trusted for longer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use http::Uri;
use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::sync::Mutex;

use crate::auth::jwks::{Keys, read_keys};
use crate::auth::places::is_loopback;
use crate::limits::{KEY_SET_MAX, KEYS_AGAIN_SECONDS};

/// The time within which the keys are read.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// The time after which the keys are read again though every token's key is known.
const FRESH_FOR: Duration = Duration::from_secs(600);

/// The address of an issuer's keys.
pub(crate) struct KeySource {
    url: String,
    client: Client,
    state: Mutex<Read>,
}

/// The readings so far.
#[derive(Default)]
struct Read {
    tried: Option<Instant>,
    succeeded: Option<Instant>,
}

impl KeySource {
    /// Returns the source at an address: `https`, or `http` on this machine.
    ///
    /// # Errors
    /// A text if the address may not be used, or no client can be made.
    pub(crate) fn new(url: &str) -> Result<Self, String> {
        let parsed: Uri = url.parse().map_err(|_| "it is no address".to_owned())?;
        let host = parsed.host().unwrap_or_default();
        match parsed.scheme_str() {
            Some("https") => {}
            Some("http") if is_loopback(host) => {}
            _ => return Err("keys are read by https, or from this machine".to_owned()),
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(BuilderVerifierExt::with_platform_verifier)
            .map_err(|error| error.to_string())?
            .with_no_client_auth();
        let client = Client::builder()
            .user_agent(concat!("taskreel/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .timeout(READ_WITHIN)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { url: url.to_owned(), client, state: Mutex::default() })
    }

    /// Reads the keys if those at hand may be out of date.
    pub(crate) async fn keep_fresh(&self, keys: &Keys) {
        let is_old = |read: &Read| read.succeeded.is_none_or(|at| at.elapsed() > FRESH_FOR);
        self.read_if(keys, is_old).await;
    }

    /// Reads the keys for a token whose key is not known, and returns whether they were read. However many such tokens
    /// come, the issuer is asked at most once in a while.
    pub(crate) async fn read_again(&self, keys: &Keys) -> bool {
        let seen = Instant::now();
        self.read_if(keys, |_| true).await || self.state.lock().await.succeeded.is_some_and(|at| at > seen)
    }

    async fn read_if(&self, keys: &Keys, is_due: impl Fn(&Read) -> bool + Send) -> bool {
        // One reading at a time: who waits for it uses what it has read.
        let mut state = self.state.lock().await;
        let is_early = state.tried.is_some_and(|at| at.elapsed() < Duration::from_secs(KEYS_AGAIN_SECONDS));
        if is_early || !is_due(&state) {
            return false;
        }
        state.tried = Some(Instant::now());
        match self.read().await {
            Ok(read) => {
                keys.replace(read);
                state.succeeded = state.tried;
                true
            }
            Err(error) => {
                tracing::warn!(url = %self.url, error, "the keys of an issuer could not be read");
                false
            }
        }
    }

    async fn read(&self) -> Result<Vec<crate::auth::jwks::Key>, String> {
        let response =
            self.client.get(&self.url).send().await.map_err(|error| error.without_url().to_string())?;
        if !response.status().is_success() {
            return Err(format!("the issuer answered with status {}", response.status().as_u16()));
        }
        let mut body = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece.map_err(|error| error.without_url().to_string())?);
            if body.len() > KEY_SET_MAX {
                return Err(format!("the answer has more than {KEY_SET_MAX} bytes"));
            }
        }
        read_keys(&body).map_err(|error| error.to_string())
    }
}
