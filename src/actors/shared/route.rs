//! The routes to the supervisors of a system: there is one for each arbiter, and each stream has its actor under the one that
//! its name decides.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use actix::prelude::SendError;
use actix::{Message, Recipient};
use proto_events::id::StreamId;

use crate::actors::shared::messages::ToTask;
use crate::actors::shared::turns::AcquireTurn;

/// A message to the actor of a stream.
pub(crate) trait OfStream: Message<Result = ()> + Send {
    /// The stream whose actor gets the message.
    fn stream(&self) -> &StreamId;
}

impl OfStream for Box<ToTask> {
    fn stream(&self) -> &StreamId {
        &self.stream
    }
}

impl OfStream for AcquireTurn {
    fn stream(&self) -> &StreamId {
        &self.session
    }
}

/// Returns which of `count` arbiters has the actor of a stream. It is the same for the life of a system, and for no longer.
pub(crate) fn place_of(stream: &StreamId, count: usize) -> usize {
    if count <= 1 {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    stream.as_str().hash(&mut hasher);
    let count = u64::try_from(count).unwrap_or(1);
    usize::try_from(hasher.finish() % count).unwrap_or(0)
}

/// The way to the supervisors for one kind of message. It is made before they are, and leads nowhere until they are known.
pub(crate) struct Route<M: OfStream>(Arc<OnceLock<Box<[Recipient<M>]>>>);

impl<M: OfStream> Clone for Route<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: OfStream> Default for Route<M> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<M: OfStream> Route<M> {
    /// Sets the supervisors, in the order of their places.
    pub(crate) fn lead_to(&self, supervisors: impl IntoIterator<Item = Recipient<M>>) {
        let set = self.0.set(supervisors.into_iter().collect());
        debug_assert!(set.is_ok(), "the supervisors of a system are started once");
    }

    fn recipient(&self, message: &M) -> Option<&Recipient<M>> {
        let all = self.0.get()?;
        all.get(place_of(message.stream(), all.len()))
    }

    /// Sends a message of the system's own, which must not get lost: no mailbox is too full for it.
    pub(crate) fn do_send(&self, message: M) {
        if let Some(supervisor) = self.recipient(&message) {
            supervisor.do_send(message);
        }
    }

    /// Sends a caller's message.
    ///
    /// # Errors
    /// [`SendError::Full`] with the message if the mailbox is full, [`SendError::Closed`] if the actors have ended.
    pub(crate) fn try_send(&self, message: M) -> Result<(), SendError<M>> {
        match self.recipient(&message) {
            Some(supervisor) => supervisor.try_send(message),
            None => Err(SendError::Closed(message)),
        }
    }
}
