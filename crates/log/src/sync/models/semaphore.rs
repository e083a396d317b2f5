//! A semaphore, modelled on tokio's, but without an order among those who wait.

use std::future::poll_fn;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use shuttle::sync::{Mutex, MutexGuard};
pub(crate) use tokio::sync::TryAcquireError;

/// The semaphore was closed.
#[derive(Debug)]
pub(crate) struct AcquireError;

#[derive(Debug)]
struct State {
    free: usize,
    closed: bool,
    wakers: Vec<Waker>,
}

impl State {
    fn take(&mut self) -> Result<(), TryAcquireError> {
        if self.closed {
            return Err(TryAcquireError::Closed);
        }
        self.free = self.free.checked_sub(1).ok_or(TryAcquireError::NoPermits)?;
        Ok(())
    }
}

/// The permits.
#[derive(Debug)]
pub(crate) struct Semaphore(Mutex<State>);

/// A permit, which goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct SemaphorePermit<'a>(Option<&'a Semaphore>);

impl Semaphore {
    pub(crate) fn new(permits: usize) -> Self {
        Self(Mutex::new(State { free: permits, closed: false, wakers: Vec::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, then wakes all tasks that wait.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.lock().take()?;
        Ok(SemaphorePermit(Some(self)))
    }

    pub(crate) async fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        poll_fn(|cx| {
            let mut state = self.lock();
            match state.take() {
                Ok(()) => Poll::Ready(Ok(SemaphorePermit(Some(self)))),
                Err(TryAcquireError::Closed) => Poll::Ready(Err(AcquireError)),
                Err(TryAcquireError::NoPermits) => {
                    state.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub(crate) fn add_permits(&self, count: usize) {
        self.change(|state| state.free += count);
    }

    /// Refuses all who ask or wait for a permit.
    pub(crate) fn close(&self) {
        self.change(|state| state.closed = true);
    }
}

impl SemaphorePermit<'_> {
    /// Takes the permit out of the semaphore for good.
    pub(crate) fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        if let Some(semaphore) = self.0 {
            semaphore.add_permits(1);
        }
    }
}
