//! The local door of a running system: it is open while the system holds its log, so that nobody stops a service to look
//! at it or to decide.

pub(crate) mod decisions;

use std::sync::Arc;

use taskreel_log::door::Door;

use crate::system::door::decisions::Decisions;
use crate::system::handle::System;

impl System {
    /// Opens the door over the current log. A system without a door works all the same.
    pub(crate) fn open_door(&self) {
        let Some(place) = &self.inner.door.place else { return };
        let desk = Arc::new(Decisions::of(self));
        self.inner.door.keep(Door::open(place, self.log(), Some(desk)));
    }

    /// Returns why the local door is shut although it was asked for; `None` if it is open, or was not asked for.
    pub fn door_fault(&self) -> Option<String> {
        self.inner.door.fault()
    }
}
