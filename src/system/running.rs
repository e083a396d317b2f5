//! The parts under a system's handles: the store and, except during reopening, the actors over it.

use std::sync::Arc;

use actix::Addr;
use proto_events::id::StreamId;
use taskreel_log::api::{AppendError, EventStore};

use crate::actors::router::Router;
use crate::actors::shared::parts::Parts;
use crate::actors::supervisor::{ResumeAll, Supervisor};
use crate::error::Error;
use crate::system::thread;
use crate::system::thread::ActorThread;

/// The store and the actors. Handles take the current ones for each command; reopening replaces them.
pub(crate) struct Running {
    pub(crate) parts: Parts,
    actors: Option<Actors>,
}

/// The two actors that know all others, and their thread.
pub(crate) struct Actors {
    pub(crate) supervisor: Addr<Supervisor>,
    pub(crate) router: Addr<Router>,
    pub(crate) thread: ActorThread,
}

impl Running {
    /// Starts the actors, which resume open work.
    pub(crate) fn start(parts: Parts, open: Vec<StreamId>) -> Result<Self, Error> {
        let (thread, supervisor, router) = thread::start(parts.clone())?;
        let epoch = parts.store.fence().epoch;
        // A task that is at rest may have been the last to need a value.
        let secrets = parts.secrets.streams().into_iter().filter(|stream| stream.agent() == parts.agent.name);
        let secrets: Vec<_> = secrets.filter(|stream| !open.contains(stream)).collect();
        let open = open.into_iter().chain(secrets).collect();
        supervisor.do_send(ResumeAll { open, epoch });
        Ok(Self { parts, actors: Some(Actors { supervisor, router, thread }) })
    }

    /// Returns the store alone, until the actors are started.
    pub(crate) fn without_actors(parts: Parts) -> Self {
        Self { parts, actors: None }
    }

    pub(crate) fn store(&self) -> Arc<dyn EventStore> {
        Arc::clone(&self.parts.store)
    }

    /// Returns the actors.
    ///
    /// # Errors
    /// [`AppendError::Closed`]: the log is closed, because reopening it has failed; reopening may be retried.
    pub(crate) fn actors(&self) -> Result<&Actors, Error> {
        self.actors.as_ref().ok_or(Error::Append(AppendError::Closed))
    }
}
