//! The webhooks of a task: registering and removing them, and what a program that delivers to them notes. The library itself
//! delivers nothing.

use proto_events::envelope::Committed;
use proto_events::json::JsonText;
use proto_events::secret::KeptSecret;
use proto_events::task::{TaskCommand, WebhookCommand, WebhookRegistration};

use crate::actors::shared::messages::TaskOp;
use crate::error::Error;
use crate::run::new_webhook::NewWebhook;
use crate::system::handle::System;
use crate::system::handles::TaskHandle;

/// The values of a webhook's secrets.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookSecrets {
    /// The token that the webhook compares.
    pub token: Option<String>,
    /// The credentials of its authorization.
    pub credentials: Option<String>,
}

/// Shows none of the values.
impl std::fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookSecrets").finish_non_exhaustive()
    }
}

impl TaskHandle {
    /// Registers a webhook: an address that a program tells what happens to the task. One with the id of another replaces it,
    /// and is told what that one was not told. Token and credentials are kept in files beside the log, where no event holds
    /// them, until the registration is removed, given up or over. A task may have `most` webhooks.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`]; [`Error::Task`] if it has as many webhooks as it may have, or a text is empty or too long;
    /// [`Error::Secrets`] if the secrets cannot be kept.
    pub async fn set_webhook(&self, webhook: NewWebhook, most: usize) -> Result<Committed, Error> {
        self.tell(TaskOp::SetWebhook { webhook: Box::new(webhook), most }).await
    }

    /// Removes the registration of a webhook. One that is not there is removed already.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or an error of the log.
    pub async fn remove_webhook(&self, id: &str) -> Result<Committed, Error> {
        self.submit(WebhookCommand::Remove { id: id.to_owned() }).await
    }

    /// Notes that a webhook was told everything up to a version of the task's stream, and whether nothing more follows. What
    /// is noted of a registration that was removed or replaced meanwhile changes nothing.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], or an error of the log.
    pub async fn webhook_delivered(
        &self,
        registered: &WebhookRegistration,
        through: u64,
        is_over: bool,
    ) -> Result<Committed, Error> {
        self.submit(WebhookCommand::Deliver { number: registered.number, through, is_over }).await
    }

    /// Notes that a delivery to a webhook has failed several times, and whether it is given up.
    ///
    /// # Errors
    /// As [`TaskHandle::webhook_delivered`].
    pub async fn webhook_failed(
        &self,
        registered: &WebhookRegistration,
        attempts: u32,
        error: &str,
        gives_up: bool,
    ) -> Result<Committed, Error> {
        let error = error.to_owned();
        self.submit(WebhookCommand::Fail { number: registered.number, attempts, error, gives_up }).await
    }

    async fn submit(&self, command: WebhookCommand) -> Result<Committed, Error> {
        self.tell(TaskOp::Command(Box::new(TaskCommand::Webhook(Box::new(command))))).await
    }

    /// Returns the values of a webhook's secrets; `None` if one of them is not kept beside this log, as where the log was
    /// copied without them.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the system has ended.
    pub fn webhook_secrets(&self, registered: &WebhookRegistration) -> Result<Option<WebhookSecrets>, Error> {
        let system: System = self.system().get()?;
        let secrets = system.inner.running().parts.secrets.clone();
        let value = |reference: Option<KeptSecret>| -> Option<Option<String>> {
            let Some(reference) = reference else { return Some(None) };
            let value = secrets.of_webhook(self.stream(), &reference)?;
            JsonText::to_str(&value).map(Some)
        };
        let found = || {
            let token = value(registered.webhook.token)?;
            Some(WebhookSecrets { token, credentials: value(registered.webhook.credentials)? })
        };
        Ok(found())
    }
}
