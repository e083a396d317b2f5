//! Keys of an issuer that are read from its address: when a token names a key that is not known, and every ten minutes,
//! so that a key which the issuer has withdrawn is not trusted for long.
//!
//! A reading is a task of its own: it ends though the request that it began for is gone, and a token whose key is known does
//! not wait for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use http::Uri;
use reqwest::Client;
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

use crate::auth::jwks::{Key, Keys, read_keys};
use crate::auth::places::is_loopback;
use crate::limits::{KEY_SET_MAX, KEYS_AGAIN_SECONDS, KEYS_FRESH_SECONDS, KEYS_WITHIN_SECONDS};

/// The times of readings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyTimes {
    /// The age above which the keys are read again though every token's key is known.
    pub(crate) fresh: Duration,
    /// The pause between two readings, however many tokens name a key that is not known.
    pub(crate) again: Duration,
    /// The time within which the keys are read.
    pub(crate) within: Duration,
}

/// The address of an issuer's keys, and the keys that were read from it.
#[derive(Clone)]
pub(crate) struct KeySource(Arc<Inner>);

struct Inner {
    url: String,
    client: Client,
    times: KeyTimes,
    keys: Arc<Keys>,
    /// Held while the keys are read: who waits for it uses what was read.
    reading: tokio::sync::Mutex<()>,
    last: Mutex<Last>,
}

/// The time at which the keys were last read.
#[derive(Default, Clone, Copy)]
struct Last {
    tried: Option<Instant>,
    succeeded: Option<Instant>,
    failed: Option<Instant>,
}

impl Default for KeyTimes {
    fn default() -> Self {
        Self {
            fresh: Duration::from_secs(KEYS_FRESH_SECONDS),
            again: Duration::from_secs(KEYS_AGAIN_SECONDS),
            within: Duration::from_secs(KEYS_WITHIN_SECONDS),
        }
    }
}

impl KeySource {
    /// Returns the source at an address, `https` or `http` on this machine, which puts what it reads among these keys.
    ///
    /// # Errors
    /// A text if the address may not be used, or no client can be made.
    pub(crate) fn new(url: &str, times: KeyTimes, keys: Arc<Keys>) -> Result<Self, String> {
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
            .timeout(times.within)
            .build()
            .map_err(|error| error.to_string())?;
        let inner = Inner {
            url: url.to_owned(),
            client,
            times,
            keys,
            reading: tokio::sync::Mutex::default(),
            last: Mutex::default(),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Begins to read the keys where those at hand are old. It waits only for keys that are so old that nobody has asked for
    /// them in a while, and not where the issuer has failed since: then those at hand are used until it answers.
    pub(crate) async fn keep_fresh(&self) {
        let inner = &self.0;
        let last = inner.last();
        // Keys that were never read are read for the first token that names one.
        let Some(succeeded) = last.succeeded else { return };
        let age = succeeded.elapsed();
        if age <= inner.times.fresh {
            return;
        }
        let has_failed = last.failed.is_some_and(|failed| failed > succeeded);
        if age > inner.times.fresh * 2 && !has_failed {
            self.read().await;
        } else if inner.reading.try_lock().is_ok() && !inner.is_early() {
            drop(self.start());
        }
    }

    /// Reads the keys, or waits until those that read them have done so. However often this is asked for, the issuer is asked
    /// at most once in a while.
    pub(crate) async fn read(&self) {
        if self.start().await.is_err() {
            tracing::debug!("the reading of an issuer's keys was interrupted");
        }
    }

    /// Whether the issuer has answered at least once.
    pub(crate) fn was_read(&self) -> bool {
        self.0.last().succeeded.is_some()
    }

    fn start(&self) -> tokio::task::JoinHandle<()> {
        let inner = Arc::clone(&self.0);
        tokio::spawn(async move { inner.read_if_due().await })
    }
}

impl Inner {
    fn last(&self) -> Last {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Last)) {
        change(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn is_early(&self) -> bool {
        self.last().tried.is_some_and(|at| at.elapsed() < self.times.again)
    }

    async fn read_if_due(&self) {
        let _turn = self.reading.lock().await;
        if self.is_early() {
            return;
        }
        self.update(|last| last.tried = Some(Instant::now()));
        match self.fetch().await {
            Ok(keys) => {
                self.keys.replace(keys);
                self.update(|last| last.succeeded = Some(Instant::now()));
            }
            Err(error) => {
                tracing::warn!(url = %self.url, error, "the keys of an issuer could not be read");
                self.update(|last| last.failed = Some(Instant::now()));
            }
        }
    }

    async fn fetch(&self) -> Result<Vec<Key>, String> {
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
