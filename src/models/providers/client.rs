//! The HTTP client of a model.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::Client;

use crate::http_client;
use crate::models::backend::InferError;
use crate::models::providers::common;

/// The client of a model, made at its first call and shared by clones. It follows no redirect, so that a key goes to no
/// other server, and retries nothing, since one call is one attempt in the log.
#[derive(Clone, Default)]
pub(crate) struct ModelClient(Arc<OnceLock<Result<Client, String>>>);

impl ModelClient {
    /// The client; the first caller's timeout is the one that it has.
    pub(crate) fn get(&self, connect_timeout: Duration) -> Result<Client, InferError> {
        let made = self.0.get_or_init(|| {
            let careful = http_client::client()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never());
            careful.connect_timeout(connect_timeout).build().map_err(|error| http_client::with_causes(&error))
        });
        made.clone().map_err(|why| common::failed("ClientError", format!("no HTTP client: {why}")))
    }
}
