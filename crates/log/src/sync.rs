//! The means of synchronization: locks, channels, timers, in one place. Under `--cfg shuttle` they are models
//! whose schedules the crate `shuttle` explores; everywhere else they are the standard library's and tokio's.

#[cfg(all(test, shuttle))]
mod handover;
#[cfg(shuttle)]
pub(crate) mod models;
#[cfg(all(test, shuttle))]
pub(crate) mod schedulers;

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

#[cfg(not(shuttle))]
pub(crate) use tokio::sync::{Notify, Semaphore, SemaphorePermit, TryAcquireError, broadcast, mpsc, oneshot};
#[cfg(not(shuttle))]
pub(crate) use tokio::task::spawn_blocking;
#[cfg(not(shuttle))]
pub(crate) use tokio::time::{Instant, sleep_until};

#[cfg(shuttle)]
pub(crate) use crate::sync::models::*;
