//! Opening the log of a running system anew: what to do after a write has failed.

use std::sync::Arc;

use proto_events::id::StreamId;
use tokio::sync::oneshot;

use crate::actors::doubtful::InDoubt;
use crate::actors::router::Halt;
use crate::actors::tool_stores::ToolStores;
use crate::error::Error;
use crate::store::{EventStore, ReadError};

use super::running::Running;
use super::{System, blocking};

/// What became of a system's log and of what was under way when it was opened anew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Reopened {
    /// The epoch under which the system writes now.
    pub epoch: u64,
    /// Command ids of appends that were in doubt and are in the log, oldest first.
    pub landed: Vec<String>,
    /// Command ids of appends that were in doubt and are not in the log: send these commands again. A command that
    /// makes several appends may stand in both lists.
    pub not_written: Vec<String>,
    /// How many tasks had open work, which is taken up again.
    pub resumed: usize,
}

impl System {
    /// Lets go of the log and opens it anew, under the next epoch, with actors that begin from what is on disk. What
    /// to call when commands are answered [`Ambiguous`](crate::store::AppendError::Ambiguous) or
    /// [`Poisoned`](crate::store::AppendError::Poisoned), once the cause is removed; until then what was durable can be
    /// read. Nothing needs to be wrong for it.
    ///
    /// Calls in flight are interrupted and treated as after a crash: repeated where they may be, otherwise their
    /// outcome is unknown. Commands that were not answered yet get [`Error::Interrupted`]: send them again under
    /// their ids. All handles go on working, and whoever waits for a task's end goes on waiting; callers
    /// that come meanwhile wait until it is done. Subscriptions and what [`System::log`] gave end: take them anew, from
    /// the position behind the last one seen.
    ///
    /// # Errors
    /// [`Error::Open`] or [`Error::Read`] if the log cannot be opened or read, [`Error::Stopped`] after a shutdown.
    /// The log is closed then, and commands say so; `reopen` may be called again.
    pub async fn reopen(&self) -> Result<Reopened, Error> {
        let system = self.clone();
        // In a task of its own: a caller who goes away in the middle must not leave it half done.
        let done = tokio::spawn(async move { system.start_anew().await }).await;
        done.map_err(|panic| Error::Internal(format!("opening the log anew: {panic}")))?
    }

    async fn start_anew(self) -> Result<Reopened, Error> {
        let _alone = self.inner.changing.lock().await;
        self.refuse_if_stopping()?;
        let _nobody_comes_in = self.inner.gate.write().await;
        let mut parts = self.inner.running().parts.clone();
        self.end_actors().await?;
        let closed = Arc::clone(&parts.store);
        parts.store = blocking(move || closed.reopen()).await??;
        parts.tool_stores = Arc::new(ToolStores::new(Arc::clone(&parts.store), &self.inner.agent));
        // From here on a failure leaves the store that is open now.
        self.inner.put(Running::without_actors(parts.clone()));
        let (store, agent, doubtful) =
            (Arc::clone(&parts.store), self.inner.agent.clone(), parts.doubtful.list());
        let found = blocking(move || look(store.as_ref(), &agent, doubtful)).await?;
        let (report, open) = found?;
        parts.doubtful.clear();
        self.inner.put(Running::start(parts, open)?);
        Ok(report)
    }

    /// Interrupts what is in flight and ends the actors, if there are any.
    async fn end_actors(&self) -> Result<(), Error> {
        let running = self.inner.running();
        let Ok(actors) = running.actors() else { return Ok(()) };
        let (reply, halted) = oneshot::channel();
        actors.router.do_send(Halt { reply });
        let _a_router_that_is_gone_has_nothing_in_flight = halted.await;
        actors.thread.stop();
        self.inner.put(Running::without_actors(running.parts.clone()));
        blocking(move || running.actors().map(|actors| actors.thread.join())).await?
    }
}

/// What the log says, now that it is open again: which appends in doubt it holds, and what work is open.
fn look(
    store: &dyn EventStore,
    agent: &str,
    doubtful: Vec<InDoubt>,
) -> Result<(Reopened, Vec<StreamId>), ReadError> {
    let mut report = Reopened { epoch: store.fence().epoch, ..Reopened::default() };
    for InDoubt { set_id, command_id } in doubtful {
        match store.resolve(set_id)? {
            Some(_) => report.landed.push(command_id),
            None => report.not_written.push(command_id),
        }
    }
    let open = own_open_work(store, agent)?;
    report.resumed = open.len();
    Ok((report, open))
}

/// The tasks of this agent that have open work.
pub(super) fn own_open_work(store: &dyn EventStore, agent: &str) -> Result<Vec<StreamId>, ReadError> {
    let mut open = store.open_work()?;
    open.retain(|stream| stream.agent() == agent);
    Ok(open)
}
