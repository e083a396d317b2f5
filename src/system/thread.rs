//! The thread of the actors. actix needs a system of its own, which plain tokio runtimes do not have; one
//! arbiter is enough, and more are slower on few cores.

use std::sync::Mutex;
use std::thread::JoinHandle;

use actix::Addr;

use crate::actors::router::Router;
use crate::actors::shared::parts::Parts;
use crate::actors::supervisor::Supervisor;
use crate::error::Error;

/// The actors' thread, and the means to stop it.
pub(crate) struct ActorThread {
    system: actix_rt::System,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ActorThread {
    /// Ends the arbiter. Messages in mailboxes are dropped.
    pub(crate) fn stop(&self) {
        self.system.stop();
    }

    /// Waits until the thread has ended.
    pub(crate) fn join(&self) {
        let thread = match self.thread.lock() {
            Ok(mut thread) => thread.take(),
            Err(poisoned) => poisoned.into_inner().take(),
        };
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

type Started = (actix_rt::System, Addr<Supervisor>, Addr<Router>);

/// Starts the thread and the two actors that know all others.
pub(crate) fn start(mut parts: Parts) -> Result<(ActorThread, Addr<Supervisor>, Addr<Router>), Error> {
    let (tell, started) = std::sync::mpsc::channel::<Started>();
    let runtime = parts
        .runtime()
        .map_err(|error| Error::Builder(format!("the runtime of the actors cannot be created: {error}")))?;
    let run = move || {
        parts.enter();
        let runner = actix_rt::System::with_tokio_rt(|| runtime);
        let (store, owner) = (std::sync::Arc::clone(&parts.store), std::sync::Arc::clone(&parts.owner));
        runner.block_on(async move {
            let (supervisor, router) = Supervisor::start_all(parts);
            let _ = tell.send((actix_rt::System::current(), supervisor, router));
        });
        if let Err(error) = runner.run() {
            tracing::error!(%error, "the actors' thread ended with an error");
        }
        // A system that is dropped without a shutdown still releases the log.
        if owner.release()
            && let Err(error) = store.close()
        {
            tracing::warn!(%error, "the log could not be closed");
        }
    };
    let thread = std::thread::Builder::new()
        .name("taskreel-actors".to_owned())
        .spawn(run)
        .map_err(|error| Error::Builder(format!("the thread of the actors cannot be started: {error}")))?;
    let (system, supervisor, router) =
        started.recv().map_err(|_| Error::Internal("the actors' thread ended during startup".to_owned()))?;
    Ok((ActorThread { system, thread: Mutex::new(Some(thread)) }, supervisor, router))
}
