//! The commands to a task's webhooks, and what is decided on each.

use crate::limits::{WEBHOOK_TEXT_BYTES_MAX, WEBHOOK_URL_BYTES_MAX};
use crate::task::content::fields;
use crate::task::webhook::{Webhook, WebhookBook, WebhookEvent, WebhookState};

/// A command to a task's webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookCommand {
    /// Register a webhook. One with the id of another replaces it, and goes on where that one was.
    Set {
        /// The registration.
        webhook: Webhook,
        /// The most registrations that the task may have.
        most: usize,
    },
    /// Remove a registration. One that is not there is removed already.
    Remove {
        /// The id of the registration.
        id: String,
    },
    /// Note that everything up to a version was delivered.
    Deliver {
        /// The registration that delivered it, see [`WebhookRegistration::number`](crate::task::WebhookRegistration::number).
        number: u32,
        /// The version of the task's stream.
        through: u64,
        /// Whether nothing more follows: the task is over.
        is_over: bool,
    },
    /// Note that a delivery has failed several times.
    Fail {
        /// The registration.
        number: u32,
        /// The number of attempts so far.
        attempts: u32,
        /// The reason of the last failure.
        error: String,
        /// Whether it is not tried again.
        gives_up: bool,
    },
}

/// The reason why a task rejects a command about its webhooks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookRejection {
    /// The task has as many webhooks as it may have.
    #[error("the task has {0} webhooks, which is the most: remove one of them first")]
    TooMany(usize),
    /// A text of the registration is empty or too long.
    #[error("the {what} of a webhook must have 1 to {limit} bytes, not {bytes}")]
    Length {
        /// The text.
        what: &'static str,
        /// The number of its bytes.
        bytes: usize,
        /// The most bytes.
        limit: usize,
    },
}

impl WebhookCommand {
    /// Returns the command's content, see [`TaskCommand::content`](crate::task::TaskCommand::content).
    pub(super) fn content(&self) -> Vec<u8> {
        match self {
            Self::Set { webhook, .. } => fields("set-webhook", &[&webhook.id, &webhook.url, &webhook.format]),
            Self::Remove { id } => fields("remove-webhook", &[id]),
            // The system itself issues these.
            Self::Deliver { number, through, .. } => {
                fields("deliver", &[&number.to_string(), &through.to_string()])
            }
            Self::Fail { number, attempts, .. } => {
                fields("fail-delivery", &[&number.to_string(), &attempts.to_string()])
            }
        }
    }
}

impl WebhookBook {
    /// Decides a command. What a registration notes that was removed or replaced meanwhile adds nothing.
    pub(super) fn decide(&self, command: WebhookCommand) -> Result<Option<WebhookEvent>, WebhookRejection> {
        match command {
            WebhookCommand::Set { webhook, most } => self.set(webhook, most).map(Some),
            WebhookCommand::Remove { id } => {
                Ok(self.get(&id).is_some().then_some(WebhookEvent::Removed { id }))
            }
            WebhookCommand::Deliver { number, through, is_over } => {
                let open = self.iter().find(|known| known.number == number && known.is_open());
                let news = open.filter(|known| is_over || through > known.through);
                Ok(news.map(|known| WebhookEvent::Delivered {
                    id: known.webhook.id.clone(),
                    through: through.max(known.through),
                    is_over,
                }))
            }
            WebhookCommand::Fail { number, attempts, error, gives_up } => {
                let open = self.iter().find(|known| known.number == number && known.is_open());
                Ok(open.map(|known| {
                    let id = known.webhook.id.clone();
                    WebhookEvent::Failed { id, attempts, error, gives_up }
                }))
            }
        }
    }

    fn set(&self, mut webhook: Webhook, most: usize) -> Result<WebhookEvent, WebhookRejection> {
        let scheme = webhook.scheme.as_deref();
        let texts = [
            ("id", webhook.id.as_str(), WEBHOOK_TEXT_BYTES_MAX),
            ("address", &webhook.url, WEBHOOK_URL_BYTES_MAX),
            ("format", &webhook.format, WEBHOOK_TEXT_BYTES_MAX),
            ("scheme", scheme.unwrap_or("none"), WEBHOOK_TEXT_BYTES_MAX),
        ];
        for (what, text, limit) in texts {
            if text.is_empty() || text.len() > limit {
                return Err(WebhookRejection::Length { what, bytes: text.len(), limit });
            }
        }
        match self.get(&webhook.id) {
            // What was owed to the one before is owed to this one.
            Some(known) if known.state != WebhookState::Over => webhook.after = known.through,
            None if self.all.len() >= most => return Err(WebhookRejection::TooMany(most)),
            _ => {}
        }
        Ok(WebhookEvent::Set(Box::new(webhook)))
    }
}
