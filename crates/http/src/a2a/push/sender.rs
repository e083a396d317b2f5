//! The client of webhooks: a request for each delivery, within its bounds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use proto_events::json::JsonText;
use reqwest::Url;
use reqwest::redirect::Policy;
use taskreel::http_client;
use taskreel::webhook::{Webhook, WebhookSecrets};
use tokio::sync::Semaphore;

use crate::a2a::push::address::{Reach, pause_named};
use crate::a2a::push::format::secret_header;
use crate::client::error::ClientError;
use crate::limits::{
    PUSH_ANSWER_MAX, PUSH_AT_ONCE, PUSH_AT_ONCE_OF_HOST, PUSH_CONNECT_TIME, PUSH_HOSTS_KEPT,
};

/// The header with the token that the webhook compares.
const TOKEN: &str = "x-a2a-notification-token";

/// The reason why a delivery failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotDelivered {
    pub(crate) why: String,
    /// Whether another attempt cannot help.
    pub(crate) is_final: bool,
    /// The pause that the receiver asks for.
    pub(crate) pause: Option<Duration>,
}

impl NotDelivered {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_final: false, pause: None }
    }

    pub(crate) fn for_good(why: impl Into<String>) -> Self {
        Self { is_final: true, ..Self::new(why) }
    }
}

/// The client of all webhooks.
#[derive(Debug)]
pub(crate) struct Sender {
    http: reqwest::Client,
    pub(crate) reach: Reach,
    timeout: Duration,
    at_once: Semaphore,
    /// The turns of each host, so that one that does not answer holds back its own deliveries only.
    of_hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Sender {
    /// Returns the client.
    ///
    /// # Errors
    /// [`ClientError::Setup`] if HTTP cannot be set up.
    pub(crate) fn new(reach: Reach, timeout: Duration) -> Result<Self, ClientError> {
        // A proxy of the environment would look the host up again; a redirect would lead to an address that nobody checked.
        let http = http_client::client()
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .dns_resolver(Arc::new(reach.clone()))
            .connect_timeout(PUSH_CONNECT_TIME)
            .pool_max_idle_per_host(PUSH_AT_ONCE_OF_HOST)
            .pool_idle_timeout(Duration::from_secs(30));
        let http = http.build().map_err(|error| ClientError::Setup(error.to_string()))?;
        let (at_once, of_hosts) = (Semaphore::new(PUSH_AT_ONCE), Mutex::default());
        Ok(Self { http, reach, timeout, at_once, of_hosts })
    }

    /// Tells a webhook an event.
    pub(crate) async fn deliver(
        &self,
        webhook: &Webhook,
        secrets: &WebhookSecrets,
        media: &'static str,
        body: &JsonText,
    ) -> Result<(), NotDelivered> {
        let url =
            self.reach.url(&webhook.url).map_err(|why| NotDelivered::new(format!("the address {why}")))?;
        let mut request = self.http.post(url.clone()).header(CONTENT_TYPE, media);
        let unfit = |_| NotDelivered::for_good("its token or credentials cannot stand in a header");
        if let Some(token) = &secrets.token {
            request = request.header(TOKEN, secret_header(token).map_err(unfit)?);
        }
        if let (Some(scheme), Some(credentials)) = (&webhook.scheme, &secrets.credentials) {
            let value = secret_header(&format!("{scheme} {credentials}")).map_err(unfit)?;
            request = request.header(AUTHORIZATION, value);
        }
        let of_host = self.turns_of(&url);
        let late = |_| NotDelivered::new("the deliveries have ended");
        let _turn_of_host = of_host.acquire().await.map_err(late)?;
        let _turn = self.at_once.acquire().await.map_err(late)?;
        let sending = self.send(request.body(body.as_str().to_owned()));
        tokio::time::timeout(self.timeout, sending).await.unwrap_or_else(|_| {
            Err(NotDelivered::new(format!("no answer within {} s", self.timeout.as_secs_f64())))
        })
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<(), NotDelivered> {
        // The address may hold a key in its query.
        let failed =
            |error: reqwest::Error| NotDelivered::new(http_client::with_causes(&error.without_url()));
        let mut response = request.send().await.map_err(failed)?;
        if response.remote_addr().is_some_and(|peer| !self.reach.may_reach(peer.ip())) {
            return Err(NotDelivered::new("the connection led to an address that was not checked"));
        }
        let (status, pause) = (response.status(), pause_named(response.headers()));
        // The rest of a short answer is read, so that the connection serves the next delivery.
        let mut read = 0;
        while read < PUSH_ANSWER_MAX
            && let Ok(Some(piece)) = response.chunk().await
        {
            read += piece.len();
        }
        match status.as_u16() {
            200..=299 => Ok(()),
            300..=399 => {
                Err(NotDelivered::new(format!("HTTP {}: redirects are not followed", status.as_u16())))
            }
            410 => Err(NotDelivered::for_good("HTTP 410: the webhook is gone")),
            code => {
                let reason = status.canonical_reason().unwrap_or_default();
                Err(NotDelivered { pause, ..NotDelivered::new(format!("HTTP {code}: {reason}")) })
            }
        }
    }

    fn turns_of(&self, url: &Url) -> Arc<Semaphore> {
        let port = url.port_or_known_default().unwrap_or_default();
        let host = format!("{}:{port}", url.host_str().unwrap_or_default());
        let mut of_hosts = self.of_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if of_hosts.len() >= PUSH_HOSTS_KEPT {
            of_hosts.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let turns = of_hosts.entry(host).or_insert_with(|| Arc::new(Semaphore::new(PUSH_AT_ONCE_OF_HOST)));
        Arc::clone(turns)
    }
}
