//! The place of a system's local door: shut, or open over the current log.

use std::sync::{Mutex, PoisonError};

use taskreel_log::door::{Door, DoorOff, DoorPlace};

/// The door of a system.
#[derive(Debug, Default)]
pub(crate) struct SystemDoor {
    /// The place of the door; none if the store is not in a directory, or the host wants no door.
    pub(crate) place: Option<DoorPlace>,
    state: Mutex<DoorState>,
}

#[derive(Debug, Default)]
struct DoorState {
    open: Option<Door>,
    /// The reason why the door is shut although it was asked for.
    fault: Option<String>,
}

impl SystemDoor {
    /// Returns a door that is still shut.
    pub(crate) fn at(place: Option<DoorPlace>) -> Self {
        Self { place, state: Mutex::default() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut DoorState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the door that was opened, or the reason why it was not.
    pub(crate) fn keep(&self, opened: Result<Door, DoorOff>) {
        self.with(|state| match opened {
            Ok(door) => *state = DoorState { open: Some(door), fault: None },
            Err(off) => {
                tracing::warn!(%off, "the system works without its local door");
                *state = DoorState { open: None, fault: Some(off.to_string()) };
            }
        });
    }

    /// Takes the open door, to be shut before the log is closed.
    pub(crate) fn take(&self) -> Option<Door> {
        self.with(|state| state.open.take())
    }

    /// Returns the reason why the door is shut although it was asked for.
    pub(crate) fn fault(&self) -> Option<String> {
        self.with(|state| state.fault.clone())
    }
}
