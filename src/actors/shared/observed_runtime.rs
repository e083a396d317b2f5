//! Virtual time needs to know when nothing moves any more. Under a test the actors' threads are such runtimes; the first of them
//! runs the calls too, and is the only one unless the agent asks for several. There is a notice whenever nothing is left to run
//! on any of them. The test alone then decides what happens next.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// A waiter for the moment when nothing is left to run, and what it asks of that moment.
type IdleWaiter = (Box<dyn FnOnce() -> bool + Send>, oneshot::Sender<bool>);

/// The number of rounds through several threads in which none of them had anything to do, after which all are idle. A message
/// on its way between two threads is seen as work, unless its thread was asked before it had woken for the message: work that
/// goes on is then one step further in the next round, so that it would have to be missed in each of them.
const QUIET_ROUNDS: u32 = 8;

/// The threads of a system's actors, as a test holds them.
pub(crate) struct ObservedRuntime {
    /// The action done on the first thread before anything else.
    entering: Box<dyn Fn() + Send + Sync>,
    /// The number of pieces of work on other threads that the first thread waits for.
    blocking: AtomicUsize,
    /// The current threads, the first of them first; a reopened system has others.
    threads: Mutex<Vec<Arc<ObservedThread>>>,
    /// The way to the thread that asks several threads whether they are idle. Two that asked, or one of the threads itself,
    /// would take each other's questions for work.
    asking: OnceLock<Sender<IdleQuestion>>,
}

/// A waiter for the moment when nothing is left to run on these threads.
struct IdleQuestion {
    threads: Vec<Arc<ObservedThread>>,
    waiter: IdleWaiter,
}

/// A thread of actors under a test.
struct ObservedThread {
    handle: Handle,
    /// The waiters for the moment when nothing is left to run on this thread.
    waiting: Arc<Mutex<Vec<IdleWaiter>>>,
    /// The number of times that this thread had nothing left to run.
    rests: Arc<AtomicU64>,
}

impl ObservedRuntime {
    /// Returns a runtime whose first thread does this first.
    pub(crate) fn new(entering: impl Fn() + Send + Sync + 'static) -> Self {
        let (blocking, threads, asking) = (AtomicUsize::new(0), Mutex::default(), OnceLock::new());
        Self { entering: Box::new(entering), blocking, threads, asking }
    }

    /// Does the first action, at the start of the first thread.
    pub(crate) fn enter(&self) {
        (self.entering)();
    }

    /// Builds the single-threaded runtime of the first thread, which reports when it has nothing to do. It takes the place of
    /// all threads that there were before.
    pub(crate) fn runtime(self: &Arc<Self>) -> std::io::Result<Runtime> {
        let (runtime, thread) = observe(Arc::downgrade(self))?;
        *lock(&self.threads) = vec![Arc::new(thread)];
        Ok(runtime)
    }

    /// Builds the runtime of a further thread.
    pub(crate) fn further_runtime(self: &Arc<Self>) -> std::io::Result<Runtime> {
        // Work that blocks is the first thread's.
        let (runtime, thread) = observe(Weak::new())?;
        lock(&self.threads).push(Arc::new(thread));
        Ok(runtime)
    }

    /// Returns the runtime of the router and the calls; `None` before the start.
    pub(crate) fn handle(&self) -> Option<Handle> {
        lock(&self.threads).first().map(|thread| thread.handle.clone())
    }

    /// Waits until nothing is left to run, or the threads have ended. Returns what `ask` says at that moment; of a single
    /// thread, it is asked on the thread itself: when the waiter hears of it on another thread, the moment may be over.
    pub(crate) async fn when_idle(&self, ask: impl FnOnce() -> bool + Send + 'static) -> bool {
        let threads = lock(&self.threads).clone();
        match threads.as_slice() {
            [] => ask(),
            [only] => only.when_idle(Box::new(ask)).await.unwrap_or(true),
            _ => {
                let (settled, all) = oneshot::channel();
                let _ = self.asking().send(IdleQuestion { threads, waiter: (Box::new(ask), settled) });
                all.await.unwrap_or(true)
            }
        }
    }

    fn asking(&self) -> &Sender<IdleQuestion> {
        self.asking.get_or_init(|| {
            let (ask, asked) = channel();
            // It ends when this is dropped.
            std::thread::spawn(move || answer(&asked));
            ask
        })
    }

    /// Notes work on another thread: until the guard is dropped, the first thread is not idle.
    pub(crate) fn track_blocking(self: &Arc<Self>) -> BlockingWork {
        self.blocking.fetch_add(1, Ordering::AcqRel);
        BlockingWork(Arc::clone(self))
    }
}

/// Answers each question when all threads are idle.
fn answer(asked: &Receiver<IdleQuestion>) {
    while let Ok(IdleQuestion { threads, waiter: (ask, who) }) = asked.recv() {
        // Who waits no more need not be answered.
        if until_idle(&threads, || who.is_closed()) {
            let _ = who.send(ask());
        }
    }
}

/// Waits until no thread had anything to do in a few rounds through all of them. What is still on its way after that finds that
/// time has passed meanwhile, as it would on a slow machine. Returns false if it was given up.
fn until_idle(threads: &[Arc<ObservedThread>], is_given_up: impl Fn() -> bool) -> bool {
    let (mut quiet, mut last) = (0, vec![None; threads.len()]);
    while quiet < QUIET_ROUNDS {
        let mut is_quiet = true;
        for (thread, last) in threads.iter().zip(&mut last) {
            if is_given_up() {
                return false;
            }
            let _one_that_has_ended_is_idle = thread.when_idle(Box::new(|| true)).blocking_recv();
            let rests = thread.rests.load(Ordering::Acquire);
            // Since the last round nothing woke it but this question. A thread that has ended rests no more.
            is_quiet &= last.replace(rests).is_some_and(|last| rests <= last + 1);
        }
        quiet = if is_quiet { quiet + 1 } else { 0 };
    }
    true
}

/// Builds a runtime for one thread, which tells its waiters when it has nothing to do and no work blocks.
fn observe(observed: Weak<ObservedRuntime>) -> std::io::Result<(Runtime, ObservedThread)> {
    let (waiting, rests) = (Arc::new(Mutex::new(Vec::<IdleWaiter>::new())), Arc::new(AtomicU64::new(0)));
    let (waiters, counted) = (Arc::clone(&waiting), Arc::clone(&rests));
    let idle = move || {
        if observed.upgrade().is_some_and(|observed| observed.blocking.load(Ordering::Acquire) > 0) {
            return;
        }
        counted.fetch_add(1, Ordering::AcqRel);
        let waiting = std::mem::take(&mut *lock(&waiters));
        for (ask, who) in waiting {
            let _ = who.send(ask());
        }
    };
    let runtime = Builder::new_current_thread().enable_all().on_thread_park(idle).build()?;
    let handle = runtime.handle().clone();
    Ok((runtime, ObservedThread { handle, waiting, rests }))
}

impl ObservedThread {
    /// Returns what tells when nothing is left to run on this thread, and what `ask` says then; an error if it has ended.
    fn when_idle(&self, ask: Box<dyn FnOnce() -> bool + Send>) -> oneshot::Receiver<bool> {
        let (settled, all) = oneshot::channel();
        let waiting = Arc::clone(&self.waiting);
        // Registered on the thread itself: this wakes a parked thread, and an ended thread drops it.
        self.handle.spawn(async move { lock(&waiting).push((ask, settled)) });
        all
    }
}

/// A guard for work on another thread. It must be dropped on the first thread, which then checks again.
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
