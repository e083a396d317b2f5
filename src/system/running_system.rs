//! The parts under a system's handles: the store and, except during reopening, the actors over it.

use std::sync::Arc;

use actix::Addr;
use proto_events::id::StreamId;
use taskreel_log::api::{AppendError, EventStore};

use crate::actors::router::Router;
use crate::actors::shared::messages::ToTask;
use crate::actors::shared::parts::Parts;
use crate::actors::shared::route::{Route, place_of};
use crate::actors::supervisor::{ResumeAll, Supervisor};
use crate::error::Error;
use crate::system::thread;
use crate::system::thread::{ActorThread, KnownActors};

/// The store and the actors. Handles take the current ones for each command; reopening replaces them.
pub(crate) struct RunningSystem {
    pub(crate) parts: Parts,
    actors: Option<Actors>,
}

/// The actors that know all others, and their threads.
pub(crate) struct Actors {
    pub(crate) supervisors: Box<[Addr<Supervisor>]>,
    /// The router of each agent.
    pub(crate) routers: Box<[Addr<Router>]>,
    /// The way to the supervisor of a task.
    pub(crate) to_task: Route<Box<ToTask>>,
    pub(crate) thread: ActorThread,
}

impl Actors {
    /// Returns the supervisor under which a stream has its actor.
    pub(crate) fn supervisor_of(&self, stream: &StreamId) -> Option<&Addr<Supervisor>> {
        self.supervisors.get(place_of(stream, self.supervisors.len()))
    }
}

impl RunningSystem {
    /// Starts the actors, which resume open work.
    pub(crate) fn start(parts: Parts, open: Vec<StreamId>) -> Result<Self, Error> {
        let (thread, known) = thread::start(parts.clone())?;
        let epoch = parts.store.fence().epoch;
        // A task that is at rest may have been the last to need a value.
        let secrets = parts.secrets.streams().into_iter().filter(|stream| parts.is_own(stream));
        let secrets: Vec<_> = secrets.filter(|stream| !open.contains(stream)).collect();
        let open = open.into_iter().chain(secrets).collect();
        let KnownActors { supervisors, routers, to_task } = known;
        // One of them resumes the tasks of all.
        if let Some(supervisor) = supervisors.first() {
            supervisor.do_send(ResumeAll { open, epoch });
        }
        Ok(Self { parts, actors: Some(Actors { supervisors, routers, to_task, thread }) })
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
