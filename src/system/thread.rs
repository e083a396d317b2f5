//! The threads of the actors. actix needs a system of its own, which plain tokio runtimes do not have. Its first arbiter has
//! the routers; the streams are spread over all arbiters by their names. One arbiter is the fastest on few processors.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use actix::{Actor, Addr};
use actix_rt::Arbiter;

use crate::actors::router::Router;
use crate::actors::shared::messages::ToTask;
use crate::actors::shared::parts::Parts;
use crate::actors::shared::route::Route;
use crate::actors::supervisor::{Common, Supervisor};
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

/// The actors that know all others: the supervisor of each arbiter, in the order of their places, and the router of each
/// agent.
pub(crate) struct KnownActors {
    pub(crate) supervisors: Box<[Addr<Supervisor>]>,
    pub(crate) routers: Box<[Addr<Router>]>,
    pub(crate) to_task: Route<Box<ToTask>>,
}

/// Runtimes that are not used yet. Dropping one in async code would block, which is not allowed there.
struct Runtimes(Vec<tokio::runtime::Runtime>);

impl Drop for Runtimes {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    }
}

/// Starts the threads and the actors that know all others.
pub(crate) fn start(mut parts: Parts) -> Result<(ActorThread, KnownActors), Error> {
    let (tell, started) = std::sync::mpsc::channel();
    let no_runtime = |error| Error::Builder(format!("the runtime of the actors cannot be created: {error}"));
    let runtime = parts.runtime(0).map_err(no_runtime)?;
    // Built here, so that a failure is the caller's.
    let mut runtimes = Runtimes(vec![runtime]);
    for arbiter in 1..parts.arbiters {
        runtimes.0.push(parts.runtime(arbiter).map_err(no_runtime)?);
    }
    let run = move || {
        parts.enter();
        let mut more = std::mem::take(&mut runtimes.0);
        let runtime = more.swap_remove(0);
        let runner = actix_rt::System::with_tokio_rt(|| runtime);
        let (store, owner) = (Arc::clone(&parts.store), Arc::clone(&parts.owner));
        let arbiters = runner.block_on(async move {
            let (known, arbiters) = start_all(&parts, more);
            let _ = tell.send((actix_rt::System::current(), known));
            arbiters
        });
        if let Err(error) = runner.run() {
            tracing::error!(%error, "the actors' thread ended with an error");
        }
        for arbiter in arbiters {
            arbiter.stop();
            if arbiter.join().is_err() {
                tracing::error!("a thread of the actors panicked");
            }
        }
        // A system that is dropped without a shutdown still releases the log.
        if owner.leave() {
            if let Err(error) = store.close() {
                tracing::warn!(%error, "the log could not be closed");
            }
            owner.release();
        }
    };
    let thread = std::thread::Builder::new()
        .name("taskreel-actors".to_owned())
        .spawn(run)
        .map_err(|error| Error::Builder(format!("the thread of the actors cannot be started: {error}")))?;
    let (system, known) =
        started.recv().map_err(|_| Error::Internal("the actors' thread ended during startup".to_owned()))?;
    Ok((ActorThread { system, thread: Mutex::new(Some(thread)) }, known))
}

/// Starts the routers and a supervisor on the arbiter of this thread, and a supervisor on a further arbiter for each of
/// these runtimes.
fn start_all(parts: &Parts, more: Vec<tokio::runtime::Runtime>) -> (KnownActors, Vec<Arbiter>) {
    let common = Common::start(parts);
    let own = (parts.clone(), common.clone());
    let mut supervisors = vec![Supervisor::create(|ctx| Supervisor::new(&own.0, &own.1, ctx))];
    let mut arbiters = Vec::with_capacity(more.len());
    for runtime in more {
        let arbiter = Arbiter::with_tokio_rt(move || runtime);
        let (parts, common) = (parts.clone(), common.clone());
        let (tell, is_there) = std::sync::mpsc::channel();
        supervisors.push(Supervisor::start_in_arbiter(&arbiter.handle(), move |ctx| {
            let supervisor = Supervisor::new(&parts, &common, ctx);
            let _ = tell.send(());
            supervisor
        }));
        // Before that its mailbox has a smaller bound.
        let _ = is_there.recv();
        arbiters.push(arbiter);
    }
    common.to_task.lead_to(supervisors.iter().map(|supervisor| supervisor.clone().recipient()));
    common.acquire.lead_to(supervisors.iter().map(|supervisor| supervisor.clone().recipient()));
    let (routers, to_task) = (common.routers(), common.to_task);
    (KnownActors { supervisors: supervisors.into(), routers, to_task }, arbiters)
}
