//! Reopening of the log of a running system, after a write has failed.

use std::collections::BTreeSet;
use std::sync::Arc;

use proto_events::codec::kind;
use proto_events::envelope::DELEGATED_COMMAND;
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventStore, ReadError};
use taskreel_log::read::{decode_record, for_each_record};

use crate::actors::shared::owner::Owner;
use crate::actors::shared::parts::Parts;
use crate::actors::shared::unresolved_appends::UnresolvedAppend;
use crate::agent::card::Agent;
use crate::error::Error;
use crate::limits::{CHILD_ENDS_EVENTS, HALT_WITHIN};
use crate::run::child_wait::SentBy;
use crate::system::calls_runtime::entered;
use crate::system::handle::{System, blocking};
use crate::system::running_system::RunningSystem;
use crate::system::shutdown::halt;
use crate::system::starts::{record_start, record_stop};

/// The result of reopening a system's log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReopenResult {
    /// The epoch under which the system writes now.
    pub epoch: u64,
    /// Command ids of unresolved appends that are in the log, oldest first.
    pub landed: Vec<String>,
    /// Command ids of unresolved appends that are not in the log: send these commands again. A command that
    /// makes several appends may be in both lists.
    pub not_written: Vec<String>,
    /// The number of tasks with open work, which is resumed.
    pub resumed: usize,
}

impl System {
    /// Closes the log and opens it again, under the next epoch, with actors that start from what is on disk.
    /// Call it when commands fail with [`Ambiguous`](taskreel_log::api::AppendError::Ambiguous) or
    /// [`Poisoned`](taskreel_log::api::AppendError::Poisoned), once the cause is removed; until then what was
    /// durable can be read. It may also be called while nothing is wrong.
    ///
    /// Calls in flight are interrupted and treated as after a crash: repeated where that is allowed,
    /// otherwise their outcome is unknown. Commands without an answer yet get [`Error::InDoubt`]: send
    /// them again under the ids that it names. All handles remain valid, and callers that wait for a task's end continue
    /// to wait; commands sent during the reopening wait until it is done. Subscriptions and the log returned
    /// by [`System::log`] end: take new ones, from the position after the last one seen.
    ///
    /// # Errors
    /// [`Error::Open`] or [`Error::Read`] if the log cannot be opened or read; the log is then closed,
    /// commands fail, and `reopen` may be called again. [`Error::Stopped`] after a shutdown, [`Error::Builder`] if another
    /// system of this process uses the store too.
    pub async fn reopen(&self) -> Result<ReopenResult, Error> {
        let (system, calls) = (self.clone(), self.inner.running().parts.calls.clone());
        entered(calls, async move {
            // In a task of its own: a caller that goes away must not leave it half done.
            let done = tokio::spawn(async move { system.start_anew().await }).await;
            done.map_err(|panic| Error::Internal(format!("reopening the log panicked: {panic}")))?
        })
        .await
    }

    async fn start_anew(self) -> Result<ReopenResult, Error> {
        let _alone = self.inner.changing.lock().await;
        self.refuse_if_stopping()?;
        let _gate = self.inner.gate.close().await;
        let parts = self.inner.running().parts.clone();
        if !parts.owner.keeps_others_out() {
            return Err(Error::Builder(
                "another system of this process uses the same store, which reopening would close; shut that one down first"
                    .to_owned(),
            ));
        }
        if let Err(error) = self.end_actors().await {
            // The store stays open.
            parts.owner.lets_others_in();
            return Err(error);
        }
        let reopened = self.open_anew(parts).await;
        #[cfg(unix)]
        if let Err(error) = &reopened {
            self.inner.socket.note_shut(error);
        }
        reopened
    }

    async fn open_anew(&self, mut parts: Parts) -> Result<ReopenResult, Error> {
        let closed = Arc::clone(&parts.store);
        #[cfg(unix)]
        let inner = Arc::clone(&self.inner);
        let reopened = blocking(move || {
            #[cfg(unix)]
            drop(inner.socket.leave());
            closed.reopen()
        });
        parts.store = reopened.await??;
        parts.owner = Arc::new(Owner::new(&parts.store, self.agents())?);
        parts.agents = parts.agents.iter().map(|own| own.over(&parts.store, &parts.ports)).collect();
        // A failure after this point leaves the store that is open now.
        self.inner.set(RunningSystem::without_actors(parts.clone()));
        let (store, agents, unresolved) = (Arc::clone(&parts.store), self.agents(), parts.unresolved.list());
        let resolved = unresolved.len();
        let found = blocking(move || inspect_log(store.as_ref(), &agents, unresolved)).await?;
        let (report, open) = found?;
        #[cfg(feature = "mcp")]
        let servers = self.inner.agents.iter().flat_map(|own| own.mcp.seen(&own.agent.name)).collect();
        #[cfg(not(feature = "mcp"))]
        let servers = Vec::new();
        let build = parts.build.as_deref();
        let agents: Vec<&Agent> = parts.agents.iter().map(|own| own.agent.as_ref()).collect();
        record_start(&parts.store, &parts.ports, &agents, build, servers).await?;
        parts.condition.reopened();
        let unresolved = Arc::clone(&parts.unresolved);
        let (store, sockets) = (Arc::clone(&parts.store), parts.ports.clone());
        match RunningSystem::start(parts, open) {
            Ok(running) => {
                self.inner.set(running);
                // Not before: a reopening that fails reports nothing, and the next one has to.
                unresolved.forget_oldest(resolved);
                #[cfg(unix)]
                self.open_socket();
                Ok(report)
            }
            Err(error) => {
                // The error of the start is what the caller must hear.
                let _ = record_stop(&store, &sockets, Some(error.to_string())).await;
                Err(error)
            }
        }
    }

    /// Interrupts calls in flight and ends the actors, if there are any.
    async fn end_actors(&self) -> Result<(), Error> {
        let running = self.inner.running();
        let Ok(actors) = running.actors() else { return Ok(()) };
        halt(actors, HALT_WITHIN).await;
        actors.thread.stop();
        self.inner.set(RunningSystem::without_actors(running.parts.clone()));
        blocking(move || running.actors().map(|actors| actors.thread.join())).await?
    }
}

/// Reads the reopened log: which unresolved appends it holds, and what work is open.
fn inspect_log(
    store: &dyn EventStore,
    agents: &[String],
    unresolved: Vec<UnresolvedAppend>,
) -> Result<(ReopenResult, Vec<StreamId>), ReadError> {
    let mut report = ReopenResult { epoch: store.fence().epoch, ..ReopenResult::default() };
    for UnresolvedAppend { set_id, command_id } in unresolved {
        match store.resolve(set_id)? {
            Some(_) => report.landed.push(command_id),
            None => report.not_written.push(command_id),
        }
    }
    let open = own_open_work(store, agents)?;
    report.resumed = open.len();
    Ok((report, open))
}

/// Returns the tasks of these agents that have open work.
pub(crate) fn own_open_work(store: &dyn EventStore, agents: &[String]) -> Result<Vec<StreamId>, ReadError> {
    let mut open = store.open_work()?;
    open.retain(|stream| agents.contains(&stream.agent()));
    if agents.len() > 1 {
        for waits in senders_of_ended(store, agents)? {
            if !open.contains(&waits) {
                open.push(waits);
            }
        }
    }
    Ok(open)
}

/// Returns the tasks that had sent those which ended last, and that may not have been told: they look for themselves once
/// they are resumed.
fn senders_of_ended(store: &dyn EventStore, agents: &[String]) -> Result<BTreeSet<StreamId>, ReadError> {
    let from = Position(store.head()?.0.saturating_sub(CHILD_ENDS_EVENTS).max(1));
    let mut ended = BTreeSet::new();
    for_each_record(store, from, |stored| {
        let record = &stored.record;
        let changes = record.events.iter().any(|event| event.kind == kind::STATE_CHANGED);
        if changes
            && record.stream.category() == Some(Category::Task)
            && agents.contains(&record.stream.agent())
        {
            ended.insert(record.stream.clone());
        }
        Ok::<_, ReadError>(())
    })?;
    let mut senders = BTreeSet::new();
    for stream in ended {
        let first = store.read_stream(&stream, Version(1), 1)?.into_iter().next();
        let sent = first.filter(|first| first.record.metadata.command_id.starts_with(DELEGATED_COMMAND));
        let Some(first) = sent else { continue };
        for recorded in decode_record::<TaskEvent>(&first)? {
            if let TaskEvent::Submitted(posted) = recorded.event
                && let Some(SentBy { task, .. }) = SentBy::named_in(&posted.metadata)
                && agents.contains(&task.agent())
            {
                senders.insert(task);
            }
        }
    }
    Ok(senders)
}
