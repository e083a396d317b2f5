//! The runtime of a system under test: a whole system on the single thread of its actors, including its
//! calls, with a notice whenever nothing is left to run there. The test alone then decides what happens next.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// A waiter for the moment when nothing is left to run, and what it asks of that moment.
type IdleWaiter = (Box<dyn FnOnce() -> bool + Send>, oneshot::Sender<bool>);

/// The thread of a system's actors, as a test holds it.
pub(crate) struct ObservedRuntime {
    /// The action done on the thread before anything else.
    entering: Box<dyn Fn() + Send + Sync>,
    /// The waiters for the moment when nothing is left to run.
    waiting: Mutex<Vec<IdleWaiter>>,
    /// The number of pieces of work on other threads that the runtime waits for.
    blocking: AtomicUsize,
    /// The current runtime; a reopened system has another.
    handle: Mutex<Option<Handle>>,
}

impl ObservedRuntime {
    /// Returns a runtime whose thread does this first.
    pub(crate) fn new(entering: impl Fn() + Send + Sync + 'static) -> Self {
        let (waiting, blocking, handle) = (Mutex::default(), AtomicUsize::new(0), Mutex::default());
        Self { entering: Box::new(entering), waiting, blocking, handle }
    }

    /// Does the first action, at the start of the thread.
    pub(crate) fn enter(&self) {
        (self.entering)();
    }

    /// Builds the single-threaded runtime, which reports when it has nothing to do.
    pub(crate) fn runtime(self: &Arc<Self>) -> std::io::Result<Runtime> {
        let observed = Arc::downgrade(self);
        let idle = move || {
            if let Some(observed) = observed.upgrade() {
                observed.on_park();
            }
        };
        let runtime = Builder::new_current_thread().enable_all().on_thread_park(idle).build()?;
        *lock(&self.handle) = Some(runtime.handle().clone());
        Ok(runtime)
    }

    /// Returns the runtime of actors and calls; `None` before the start.
    pub(crate) fn handle(&self) -> Option<Handle> {
        lock(&self.handle).clone()
    }

    /// Waits until nothing is left to run, or the thread has ended. Returns what `ask` says at that moment, on the thread
    /// itself: when the waiter hears of it on another thread, the moment may be over.
    pub(crate) async fn when_idle(self: &Arc<Self>, ask: impl FnOnce() -> bool + Send + 'static) -> bool {
        let Some(handle) = self.handle() else { return ask() };
        let (settled, all) = oneshot::channel();
        let (observed, ask) = (Arc::clone(self), Box::new(ask));
        // Registered on the thread itself: this wakes a parked thread, and an ended thread drops it.
        handle.spawn(async move { lock(&observed.waiting).push((ask, settled)) });
        all.await.unwrap_or(true)
    }

    /// Notes work on another thread: until the guard is dropped, the runtime is not idle.
    pub(crate) fn track_blocking(self: &Arc<Self>) -> BlockingWork {
        self.blocking.fetch_add(1, Ordering::AcqRel);
        BlockingWork(Arc::clone(self))
    }

    fn on_park(&self) {
        if self.blocking.load(Ordering::Acquire) > 0 {
            return;
        }
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        for (ask, who) in waiting {
            let _ = who.send(ask());
        }
    }
}

/// A guard for work on another thread. It must be dropped on the runtime's thread, which then checks again.
pub(crate) struct BlockingWork(Arc<ObservedRuntime>);

impl Drop for BlockingWork {
    fn drop(&mut self) {
        self.0.blocking.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Locks, ignoring poisoning: no code panics while it holds these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
