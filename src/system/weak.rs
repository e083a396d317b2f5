//! A system as the handles on its tasks and sessions know it: they do not keep it running.

use std::sync::{Arc, Weak};

use proto_events::envelope::Principal;

use crate::error::Error;
use crate::live::LiveHub;
use crate::system::handle::{Caller, Inner, System};

/// A reference to a system that does not keep it running.
#[derive(Clone)]
pub(crate) struct WeakSystem {
    inner: Weak<Inner>,
    caller: Arc<Caller>,
    /// The hub of live events, which outlives the system.
    live: Arc<LiveHub>,
}

impl std::fmt::Debug for WeakSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakSystem")
            .field("is_running", &(self.inner.strong_count() > 0))
            .finish_non_exhaustive()
    }
}

impl WeakSystem {
    /// Returns a reference to this system, with its caller.
    pub(crate) fn from_system(system: &System) -> Self {
        let live = Arc::clone(&system.inner.running().parts.live);
        Self { inner: Arc::downgrade(&system.inner), caller: Arc::clone(&system.caller), live }
    }

    /// Returns the system.
    ///
    /// # Errors
    /// [`Error::Stopped`] if its last handle was dropped.
    pub(crate) fn get(&self) -> Result<System, Error> {
        let inner = self.inner.upgrade().ok_or(Error::Stopped)?;
        Ok(System { inner, caller: Arc::clone(&self.caller) })
    }

    /// Returns the hub of live events; it is closed once the system has stopped.
    pub(crate) fn live(&self) -> &Arc<LiveHub> {
        &self.live
    }

    /// Returns a reference whose commands are recorded under this principal.
    pub(crate) fn acting_as(&self, principal: impl Into<Principal>) -> Self {
        let caller = Caller { principal: principal.into(), ..Caller::clone(&self.caller) };
        Self { caller: Arc::new(caller), ..self.clone() }
    }

    /// Returns a reference for one command under an id of the caller's own.
    pub(crate) fn once(&self, command_id: &str) -> Self {
        let caller = Caller { command_id: Some(command_id.to_owned()), ..Caller::clone(&self.caller) };
        Self { caller: Arc::new(caller), ..self.clone() }
    }
}
