//! The stage of a test: all of a system on the one thread of its actors, its calls too, and a word whenever nothing
//! is left to run there. What happens next is then decided by the test alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// The thread of a system's actors, as a test holds it.
pub(crate) struct Stage {
    /// Done on the thread before anything else.
    entering: Box<dyn Fn() + Send + Sync>,
    /// Who waits until nothing is left to run.
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
    /// How much goes on beside the thread that it waits for.
    beside: AtomicUsize,
    /// The runtime of the moment: a system that is opened anew has another.
    handle: Mutex<Option<Handle>>,
}

impl Stage {
    /// A stage on which this is done first.
    pub(crate) fn new(entering: impl Fn() + Send + Sync + 'static) -> Self {
        let (waiting, beside, handle) = (Mutex::default(), AtomicUsize::new(0), Mutex::default());
        Self { entering: Box::new(entering), waiting, beside, handle }
    }

    /// The thread has begun.
    pub(crate) fn enter(&self) {
        (self.entering)();
    }

    /// A runtime of one thread that tells the stage when it has nothing to do.
    pub(crate) fn runtime(self: &Arc<Self>) -> std::io::Result<Runtime> {
        let stage = Arc::downgrade(self);
        let idle = move || {
            if let Some(stage) = stage.upgrade() {
                stage.nothing_to_do();
            }
        };
        let runtime = Builder::new_current_thread().enable_all().on_thread_park(idle).build()?;
        *lock(&self.handle) = Some(runtime.handle().clone());
        Ok(runtime)
    }

    /// The runtime that actors and calls run on; none before the start.
    pub(crate) fn handle(&self) -> Option<Handle> {
        lock(&self.handle).clone()
    }

    /// Ends when nothing is left to run, or when the thread has ended.
    pub(crate) async fn settled(self: &Arc<Self>) {
        let Some(handle) = self.handle() else { return };
        let (settled, all) = oneshot::channel();
        let stage = Arc::clone(self);
        // Said on the thread itself: a thread that sleeps is woken by it, and one that has ended drops it.
        handle.spawn(async move { lock(&stage.waiting).push(settled) });
        let _an_ended_thread_has_settled = all.await;
    }

    /// Something goes on beside the thread, on a thread of its own: until it is over, there is something left to run.
    pub(crate) fn wait_for(self: &Arc<Self>) -> Beside {
        self.beside.fetch_add(1, Ordering::AcqRel);
        Beside(Arc::clone(self))
    }

    fn nothing_to_do(&self) {
        if self.beside.load(Ordering::Acquire) > 0 {
            return;
        }
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        for who in waiting {
            let _gone_is_fine = who.send(());
        }
    }
}

/// Something that goes on beside the thread. It must end on the thread itself, which looks again then.
pub(crate) struct Beside(Arc<Stage>);

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.beside.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Nothing panics while it holds these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
