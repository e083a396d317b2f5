//! The local door of a running system: it is open while the system holds its log, so that nobody stops a service to look
//! at it or to decide.

pub(crate) mod decisions;

use std::sync::Arc;

use crate::system::door::decisions::Decisions;
use crate::system::handle::System;

impl System {
    /// Opens the door over the current log, or joins that of another system of this process over the same log. A system
    /// without a door works all the same.
    pub(crate) fn open_door(&self) {
        self.inner.door.join(self.log(), Arc::new(Decisions::from_system(self)));
    }

    /// Returns why the local door is shut although it was asked for; `None` if it is open, or was not asked for.
    pub fn door_fault(&self) -> Option<String> {
        self.inner.door.fault()
    }
}
