//! The handle on one conversation.

use proto_events::envelope::Principal;
use proto_events::id::check_id;
use proto_events::model::ConversationHistory;

use crate::error::Error;
#[cfg(doc)]
use crate::system::handle::System;
use crate::system::handles::TaskHandle;
use crate::system::input::TaskInput;
use crate::system::weak::WeakSystem;

/// A handle on one conversation. It does not keep the system running, as a [`TaskHandle`] does not.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    system: WeakSystem,
    id: String,
}

impl SessionHandle {
    pub(crate) fn new(system: WeakSystem, id: String) -> Self {
        Self { system, id }
    }

    /// Returns a handle whose commands are recorded under this principal, see [`System::acting_as`].
    #[must_use]
    pub fn acting_as(&self, principal: impl Into<Principal>) -> Self {
        Self { system: self.system.acting_as(principal), ..self.clone() }
    }

    /// Returns a handle for one command under an id of the caller's own, see [`System::once`].
    #[must_use]
    pub fn once(&self, command_id: &str) -> Self {
        Self { system: self.system.once(command_id), ..self.clone() }
    }

    /// Returns the system of the conversation.
    pub(crate) fn system(&self) -> &WeakSystem {
        &self.system
    }

    /// The conversation's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Makes a task of this input in the conversation, and works on it when earlier turns are over.
    ///
    /// # Errors
    /// As [`System::submit`]; [`Error::Id`] if this conversation's id is invalid, [`Error::OtherSession`] if a posted task
    /// names another one.
    pub async fn send(&self, input: impl Into<TaskInput>) -> Result<TaskHandle, Error> {
        check_id(&self.id)?;
        self.system.get()?.submit_new(input.into(), Some(&self.id)).await
    }

    /// Returns the committed history, without open turns.
    ///
    /// # Errors
    /// [`Error::Id`] if the id is invalid, or an error of reading the log.
    pub async fn history(&self) -> Result<ConversationHistory, Error> {
        let session = self.system.get()?.look_at_session(&self.id).await?;
        Ok(ConversationHistory::clone(session.history()))
    }
}
