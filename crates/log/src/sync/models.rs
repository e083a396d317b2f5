//! Models of the store's synchronization primitives, scheduled by shuttle.

pub(crate) mod broadcast;
pub(crate) mod mpsc;
mod notify;
pub(crate) mod oneshot;
mod semaphore;

use std::ops::Add;
use std::time::Duration;

pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

pub(crate) use self::notify::Notify;
pub(crate) use self::semaphore::{Semaphore, SemaphorePermit, TryAcquireError};

/// A moment. Time does not pass: every deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant;

impl Instant {
    pub(crate) fn now() -> Self {
        Self
    }

    /// Returns no time: here none passes.
    #[expect(clippy::unused_self, reason = "as the standard library's")]
    pub(crate) fn elapsed(self) -> Duration {
        Duration::ZERO
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, _: Duration) -> Self {
        self
    }
}

/// Yields to the other tasks, once.
pub(crate) async fn sleep_until(_: Instant) {
    shuttle::future::yield_now().await;
}

/// Spawns a task, as a thread of the blocking pool would run it.
pub(crate) fn spawn_blocking<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> shuttle::future::JoinHandle<R> {
    shuttle::future::spawn(async move { work() })
}
