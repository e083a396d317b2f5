//! Storage structs of the events of a task's webhooks.

use serde::{Deserialize, Serialize};

use crate::codec::error::CodecError;
use crate::codec::kind;
use crate::codec::storable::Payload;
use crate::codec::upcast::{first_version, read, write};
use crate::id::{Category, Digest};
use crate::secret::KeptSecret;
use crate::task::webhook::{Webhook, WebhookEvent};

/// A salted digest: the salt and the digest.
type SaltedV1 = ([u8; 16], [u8; 32]);

#[derive(Serialize, Deserialize)]
struct WebhookSetV1 {
    id: String,
    url: String,
    format: String,
    token: Option<SaltedV1>,
    scheme: Option<String>,
    credentials: Option<SaltedV1>,
    after: u64,
}

#[derive(Serialize, Deserialize)]
struct WebhookRemovedV1 {
    id: String,
}

#[derive(Serialize, Deserialize)]
struct WebhookDeliveredV1 {
    id: String,
    through: u64,
    is_over: bool,
}

#[derive(Serialize, Deserialize)]
struct WebhookFailedV1 {
    id: String,
    attempts: u32,
    error: String,
    gives_up: bool,
}

first_version!(WebhookSetV1, WebhookRemovedV1, WebhookDeliveredV1, WebhookFailedV1);

const fn salted(kept: KeptSecret) -> SaltedV1 {
    (kept.salt, kept.digest.0)
}

const fn salted_secret((salt, digest): SaltedV1) -> KeptSecret {
    KeptSecret { salt, digest: Digest(digest) }
}

pub(super) fn encode(event: &WebhookEvent) -> Result<Payload, CodecError> {
    match event.clone() {
        WebhookEvent::Set(webhook) => {
            let Webhook { id, url, format, token, scheme, credentials, after } = *webhook;
            let (token, credentials) = (token.map(salted), credentials.map(salted));
            write(kind::WEBHOOK_SET, &WebhookSetV1 { id, url, format, token, scheme, credentials, after })
        }
        WebhookEvent::Removed { id } => write(kind::WEBHOOK_REMOVED, &WebhookRemovedV1 { id }),
        WebhookEvent::Delivered { id, through, is_over } => {
            write(kind::WEBHOOK_DELIVERED, &WebhookDeliveredV1 { id, through, is_over })
        }
        WebhookEvent::Failed { id, attempts, error, gives_up } => {
            write(kind::WEBHOOK_FAILED, &WebhookFailedV1 { id, attempts, error, gives_up })
        }
    }
}

pub(super) fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<WebhookEvent, CodecError> {
    Ok(match kind {
        kind::WEBHOOK_SET => {
            let WebhookSetV1 { id, url, format, token, scheme, credentials, after } =
                read(kind, schema, body)?;
            let (token, credentials) = (token.map(salted_secret), credentials.map(salted_secret));
            WebhookEvent::Set(Box::new(Webhook { id, url, format, token, scheme, credentials, after }))
        }
        kind::WEBHOOK_REMOVED => {
            let WebhookRemovedV1 { id } = read(kind, schema, body)?;
            WebhookEvent::Removed { id }
        }
        kind::WEBHOOK_DELIVERED => {
            let WebhookDeliveredV1 { id, through, is_over } = read(kind, schema, body)?;
            WebhookEvent::Delivered { id, through, is_over }
        }
        kind::WEBHOOK_FAILED => {
            let WebhookFailedV1 { id, attempts, error, gives_up } = read(kind, schema, body)?;
            WebhookEvent::Failed { id, attempts, error, gives_up }
        }
        _ => return Err(CodecError::UnknownKind { kind, category: Category::Task.as_str() }),
    })
}
