//! A command of a caller's on a stream that no actor writes: it is decided on the state on disk, and again after another writer
//! was faster.

use std::sync::Arc;

use proto_events::codec::Storable;
use proto_events::decider::Decider;
use proto_events::envelope::Committed;
use proto_events::id::StreamId;
use taskreel_log::api::{Append, AppendError};

use crate::actors::entity::{Entity, SetPart};
use crate::actors::seed::Seed;
use crate::actors::shared::condition::QueuedAppend;
use crate::actors::shared::messages::Cause;
use crate::actors::shared::parts::Parts;
use crate::error::Error;
use crate::system::calls_runtime::entered;
use crate::system::command_id::SentId;
use crate::system::handle::System;

/// The times that a command is decided anew after another writer extended the stream.
const CONFLICTS_MAX: usize = 64;

/// The end of a command.
pub(crate) struct StateWrite {
    /// The end of its record; `None` if it had no effect.
    pub(crate) committed: Option<Committed>,
}

impl System {
    /// Carries out a command of this handle's caller on a stream.
    pub(crate) async fn write<D>(
        &self,
        stream: StreamId,
        command: D::Command,
        content: Vec<u8>,
    ) -> Result<StateWrite, Error>
    where
        D: Decider + Default + Clone + Send + Sync + 'static,
        D::Command: Clone + Send + 'static,
        D::Event: Storable + Send + 'static,
        Error: From<D::Rejection>,
    {
        let mut cause = self.cause()?;
        let id = SentId::new(&mut cause, &self.inner.ports);
        let work = move |parts: Parts| async move {
            let content = cause.may_repeat.then_some(content);
            let mut conflicts = 0;
            loop {
                match once::<D>(&parts, &stream, command.clone(), &cause, content.as_deref()).await {
                    Err(Error::Append(AppendError::Conflict { .. })) if conflicts < CONFLICTS_MAX => {
                        conflicts += 1;
                    }
                    done => return done,
                }
            }
        };
        self.appending("the state", Some(&id), work).await
    }

    /// Carries out work that appends to the log, in a task of the runtime for calls: a caller that goes away cancels nothing,
    /// and one whose future is not polled any more holds up no reopening. The work must not begin other such work and wait for it. Its
    /// errors say that a command was sent, if it is one; what is refused before was not sent.
    pub(crate) async fn appending<T, F>(
        &self,
        whose: &str,
        command: Option<&SentId>,
        work: impl FnOnce(Parts) -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.refuse_if_stopping()?;
        let system = self.clone();
        let passed = async move {
            let _gate = system.inner.gate.pass().await;
            system.refuse_if_stopping()?;
            let running = system.inner.running();
            running.actors()?;
            Ok(work(running.parts.clone()).await)
        };
        let ended = match self.spawned(whose, passed).await {
            Ok(ended) => ended,
            Err(error @ Error::Interrupted { .. }) => Err(error),
            Err(refused) => return Err(refused),
        };
        ended.map_err(|error| self.of_sent(error, command))
    }

    /// Carries out work on the runtime for calls: a caller that goes away cancels nothing.
    pub(crate) async fn spawned<T: Send + 'static>(
        &self,
        whose: &str,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let calls = self.inner.running().parts.calls.clone();
        let done = entered(calls.clone(), calls.spawn(work)).await;
        done.map_err(|_| Error::Interrupted { stream: whose.to_owned() })?
    }
}

async fn once<D>(
    parts: &Parts,
    stream: &StreamId,
    command: D::Command,
    cause: &Cause,
    content: Option<&[u8]>,
) -> Result<StateWrite, Error>
where
    D: Decider + Default + Clone + Send + Sync + 'static,
    D::Event: Storable + Send + 'static,
    Error: From<D::Rejection>,
{
    let mut entity = Entity::<D>::recover(&parts.store, stream.clone(), Seed::draw(&parts.ports)).await?;
    let mut answered = entity.answered(&cause.command_id, content)?;
    if let (None, Some(content)) = (answered, content)
        && entity.may_have_forgotten(&cause.command_id)
    {
        answered = Entity::<D>::search(&parts.store, stream, &cause.command_id, content).await?;
    }
    if answered.is_some() {
        return Ok(StateWrite { committed: answered });
    }
    let (fence, set_id) = (parts.store.fence(), parts.ports.ids.random());
    let metadata = cause.metadata(parts.ports.clock.now());
    entity.decide(command, &metadata)?;
    if !entity.is_pending() {
        return Ok(StateWrite { committed: None });
    }
    let part = entity.part(fence, SetPart::only(set_id), &metadata, content)?;
    let queued = QueuedAppend::start(Arc::clone(&parts.condition));
    let answer = parts.store.append(Append { fence, set_id, parts: vec![part] }).await;
    queued.answered(&answer, parts.store.as_ref());
    if matches!(answer, Err(AppendError::Ambiguous { .. })) {
        parts.unresolved.insert(set_id, &cause.command_id);
    }
    Ok(StateWrite { committed: answer?.parts.first().copied() })
}
