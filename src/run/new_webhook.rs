//! A webhook that is registered: its secret values become references before anything is decided.

use std::fmt;

use proto_events::json::JsonText;
use proto_events::secret::KeptSecret;
use proto_events::task::{Webhook, WebhookCommand};

use crate::run::secrets::ReplacedSecret;

/// The word under which the secret values of webhooks are kept, in the place of a tool's name. No tool has this name.
pub(crate) const OF_WEBHOOK: &str = "~webhook";

/// A webhook to be registered with [`TaskHandle::set_webhook`](crate::TaskHandle::set_webhook).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewWebhook {
    /// The id, unique in its task.
    pub id: String,
    /// The address.
    pub url: String,
    /// The form of what is delivered: a word of the program that delivers it.
    pub format: String,
    /// The token that the webhook compares.
    pub token: Option<String>,
    /// The scheme of the deliveries' authorization.
    pub scheme: Option<String>,
    /// The credentials of that scheme.
    pub credentials: Option<String>,
    /// The version of the task's stream after which events are delivered. By default, what follows the registration is.
    pub after: Option<u64>,
}

/// Shows everything but the secret values.
impl fmt::Debug for NewWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, url, format, scheme, after, .. } = self;
        f.debug_struct("NewWebhook")
            .field("id", id)
            .field("url", url)
            .field("format", format)
            .field("scheme", scheme)
            .field("after", after)
            .finish_non_exhaustive()
    }
}

impl NewWebhook {
    /// Returns a webhook without secrets.
    pub fn new(id: impl Into<String>, url: impl Into<String>, format: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            url: url.into(),
            format: format.into(),
            token: None,
            scheme: None,
            credentials: None,
            after: None,
        }
    }

    /// Returns the command, with references in the place of the secret values, and these values. `version` is that of the
    /// task's stream now.
    pub(crate) fn command(
        self,
        most: usize,
        version: u64,
        salt: &mut dyn FnMut() -> [u8; 16],
    ) -> (WebhookCommand, Vec<ReplacedSecret>) {
        let mut replaced = Vec::new();
        let mut kept = |argument: &str, value: Option<String>| {
            let value = JsonText::string(&value?);
            let reference = KeptSecret::new(salt(), &value);
            let (tool, argument) = (OF_WEBHOOK.to_owned(), argument.to_owned());
            replaced.push(ReplacedSecret { tool, argument, reference, value });
            Some(reference)
        };
        let Self { id, url, format, token, scheme, credentials, after } = self;
        let (token, credentials) = (kept("token", token), kept("credentials", credentials));
        let after = after.unwrap_or(version).min(version);
        let webhook = Webhook { id, url, format, token, scheme, credentials, after };
        (WebhookCommand::Set { webhook, most }, replaced)
    }
}
