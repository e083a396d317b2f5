//! The pair of pure functions inside every actor: `decide` may reject, `evolve` may not.

use crate::envelope::Metadata;

/// A state machine as two pure functions. The actor around it only delivers commands and stores events.
pub trait Decider: Sized + Clone {
    /// A command; may be rejected; is not stored.
    type Command;
    /// An event: a fact; stored; never rejected.
    type Event: Clone;
    /// The reason why a command is rejected.
    type Rejection;

    /// Returns the events that follow from `command` in this state, possibly none.
    ///
    /// # Errors
    /// A rejection, when the state does not allow the command. The state is unchanged.
    fn decide(&self, command: Self::Command) -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Folds one event into the state. Never fails: an event is a fact.
    fn evolve(&mut self, event: &Self::Event, metadata: &Metadata);

    /// Folds one event that is encoded already, so that what it holds may move into the state instead of being copied.
    /// Returns the event if it is still whole. The state is the same as after [`Decider::evolve`].
    fn evolve_moved(&mut self, event: Self::Event, metadata: &Metadata) -> Option<Self::Event> {
        self.evolve(&event, metadata);
        Some(event)
    }

    /// Folds one event that was read from a log and that nobody else needs: what it holds may move into the state. The state is
    /// the same as after [`Decider::evolve`].
    fn evolve_read(&mut self, event: Self::Event, metadata: &Metadata) {
        self.evolve_moved(event, metadata);
    }
}
