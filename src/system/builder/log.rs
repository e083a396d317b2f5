//! The settings of a builder about its log: one that is open already, and the local door.

use std::sync::Arc;

use taskreel_log::api::EventStore;
#[cfg(unix)]
use taskreel_log::door::DoorPlace;
use taskreel_log::sled::SledStore;

use crate::system::builder::Builder;

impl Builder {
    /// Uses this log, which the host has opened: as [`Builder::store`] does, with the local door of its directory.
    #[must_use]
    pub fn log(self, log: Arc<SledStore>) -> Self {
        let mut builder = self.store(Arc::clone(&log) as Arc<dyn EventStore>);
        builder.of.held = Some(log);
        builder
    }

    /// Sets whether the system opens a local door in the directory of its log, a Unix socket for processes of the same
    /// user and of root: they read and follow the log through it, and send a person's decisions. On by default. Without
    /// it they read a private copy of the log, and decisions wait until the program ends.
    #[must_use]
    pub fn door(mut self, open: bool) -> Self {
        self.of.door = open;
        self
    }
}

/// The place of a door where there are no Unix sockets: none.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) enum DoorPlace {}

/// Returns the place of the door of a log that this program holds.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
pub(crate) fn door_place(store: &SledStore) -> Option<DoorPlace> {
    Some(store.door_place())
}

/// Returns no place: systems without Unix sockets have no local door.
#[cfg(not(unix))]
pub(crate) fn door_place(_: &SledStore) -> Option<DoorPlace> {
    None
}
