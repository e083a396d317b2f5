//! The idle state of a live actor ([`live_actors`](crate::actors::shared::live_actors)).

use std::cell::Cell;
use std::time::Instant;

/// The idle state that an actor shows its supervisor. Both live on the arbiter's thread.
#[derive(Debug, Default)]
pub(crate) struct IdleState {
    carried_out: Cell<u64>,
    since: Cell<Option<Instant>>,
    /// The actor's place among those that are idle.
    place: Cell<Option<usize>>,
}

impl IdleState {
    /// Notes that a message which came through the supervisor was carried out.
    pub(crate) fn carried_out(&self) {
        self.carried_out.set(self.carried_out.get() + 1);
    }

    /// Notes whether the actor waits for nothing and no caller waits for it.
    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.since.set(is_idle.then(Instant::now));
    }

    /// Returns the number of messages that were carried out.
    pub(crate) fn done(&self) -> u64 {
        self.carried_out.get()
    }

    /// Returns the time since which the actor waits for nothing.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.since.get()
    }

    /// Returns the actor's place among those that are idle.
    pub(crate) fn ring_index(&self) -> Option<usize> {
        self.place.get()
    }

    /// Notes the actor's place among those that are idle.
    pub(crate) fn set_place(&self, place: Option<usize>) {
        self.place.set(place);
    }
}
