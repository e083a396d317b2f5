//! What runs under a system's handles: the store and, but for the moment of reopening, the actors over it.

use std::sync::Arc;

use actix::Addr;
use proto_events::id::StreamId;

use crate::actors::messages::{Cause, TaskOp, ToTask};
use crate::actors::router::Router;
use crate::actors::shared::Parts;
use crate::actors::supervisor::Supervisor;
use crate::error::Error;
use crate::store::{AppendError, EventStore};

use super::thread::{self, ActorThread};

/// Store and actors. Handles take the present one each time; reopening puts another in its place.
pub(super) struct Running {
    pub(super) parts: Parts,
    actors: Option<Actors>,
}

/// The two actors that know all others, and their thread.
pub(super) struct Actors {
    pub(super) supervisor: Addr<Supervisor>,
    pub(super) router: Addr<Router>,
    pub(super) thread: ActorThread,
}

impl Running {
    /// Starts the actors, which take up again what was going on.
    pub(super) fn start(parts: Parts, open: Vec<StreamId>) -> Result<Self, Error> {
        let (thread, supervisor, router) = thread::start(parts.clone())?;
        let epoch = parts.store.fence().epoch;
        for stream in open {
            let cause = Cause::own(format!("resume:{epoch}"), "start");
            supervisor.do_send(ToTask { stream, op: TaskOp::Resume, cause, reply: None });
        }
        Ok(Self { parts, actors: Some(Actors { supervisor, router, thread }) })
    }

    /// The store alone, until the actors are started.
    pub(super) fn without_actors(parts: Parts) -> Self {
        Self { parts, actors: None }
    }

    pub(super) fn store(&self) -> Arc<dyn EventStore> {
        Arc::clone(&self.parts.store)
    }

    /// # Errors
    /// That the log is closed: reopening it has failed, and may be tried again.
    pub(super) fn actors(&self) -> Result<&Actors, Error> {
        self.actors.as_ref().ok_or(Error::Append(AppendError::Closed))
    }
}
