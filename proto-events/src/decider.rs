//! The pair of pure functions at the heart of every actor: `decide` may refuse, `evolve` may not.

use crate::envelope::Metadata;

/// A state machine as two pure functions. The actor around it only carries the post.
pub trait Decider: Sized + Clone {
    /// A wish; may be refused; is not stored.
    type Command;
    /// A fact; stored; never refused.
    type Event: Clone;
    /// The domain's "no", with its reason.
    type Rejection;

    /// The events that follow from `command` in this state: possibly none.
    ///
    /// # Errors
    /// A rejection, when the state does not allow the command. Nothing has changed then.
    fn decide(
        &self,
        command: Self::Command,
        metadata: &Metadata,
    ) -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Folds one event into the state. Total: an event is a fact and cannot be refused.
    fn evolve(&mut self, event: &Self::Event, metadata: &Metadata);
}
