//! What threads and tasks meet at: locks, channels, timers, in one place. The crate `interleavings` puts others there,
//! which try what may run between what; everywhere else they are the standard library's and tokio's.

#[cfg(shuttle)]
pub(super) use crate::modelled::*;

#[cfg(not(shuttle))]
pub(super) use {
    std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard},
    tokio::sync::{Notify, broadcast, mpsc, oneshot},
    tokio::task::spawn_blocking,
    tokio::time::{Instant, sleep_until},
};
