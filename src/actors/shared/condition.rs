//! The condition of the log as the actors see it: appends that wait, and the failure after which it takes no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use taskreel_log::api::{AppendError, Appended, EventStore};
use tokio::sync::watch;

/// The condition of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The log takes appends.
    Open,
    /// The log takes no more appends until it is reopened, for this reason.
    Poisoned(String),
    /// The system has stopped.
    Stopped,
}

/// The condition of the log, with counts of its appends since the start. One for all reopenings.
#[derive(Debug)]
pub(crate) struct LogCondition {
    now: watch::Sender<Condition>,
    queued: AtomicUsize,
    appends: AtomicU64,
    failures: AtomicU64,
    micros: AtomicU64,
}

impl Default for LogCondition {
    fn default() -> Self {
        Self {
            now: watch::Sender::new(Condition::Open),
            queued: AtomicUsize::new(0),
            appends: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            micros: AtomicU64::new(0),
        }
    }
}

/// The counts of a log's appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppendCounts {
    pub(crate) queued: usize,
    pub(crate) appends: u64,
    pub(crate) failures: u64,
    /// The time from the begin of each append to its answer, of all together.
    pub(crate) waited: Duration,
}

/// An append that waits for its answer. One whose actor ends before that is dropped and no longer counts.
pub(crate) struct QueuedAppend {
    of: Arc<LogCondition>,
    began: Instant,
}

impl Drop for QueuedAppend {
    fn drop(&mut self) {
        self.of.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

impl QueuedAppend {
    /// Notes that an append is sent.
    pub(crate) fn start(of: Arc<LogCondition>) -> Self {
        of.queued.fetch_add(1, Ordering::Relaxed);
        Self { of, began: Instant::now() }
    }

    /// Notes the answer of this store.
    pub(crate) fn answered(&self, answer: &Result<Appended, AppendError>, store: &dyn EventStore) {
        let micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.of.micros.fetch_add(micros, Ordering::Relaxed);
        match answer {
            Ok(_) => {
                self.of.appends.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                self.of.failures.fetch_add(1, Ordering::Relaxed);
                match error {
                    AppendError::Ambiguous { why } | AppendError::Poisoned { why } => self.of.poisoned(why),
                    // Of an append whose group failed before it was handed over, and of one that was only refused.
                    AppendError::NotWritten { .. } => {
                        if let Some(why) = store.poisoned() {
                            self.of.poisoned(&why);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

impl LogCondition {
    fn poisoned(&self, why: &str) {
        self.now.send_if_modified(|now| {
            let is_first = *now == Condition::Open;
            if is_first {
                *now = Condition::Poisoned(why.to_owned());
            }
            is_first
        });
    }

    /// Notes that the log was opened again.
    pub(crate) fn reopened(&self) {
        self.now.send_replace(Condition::Open);
    }

    /// Notes that the system has stopped.
    pub(crate) fn stopped(&self) {
        self.now.send_replace(Condition::Stopped);
    }

    /// Returns the condition, and what follows it.
    pub(crate) fn watch(&self) -> watch::Receiver<Condition> {
        self.now.subscribe()
    }

    /// Returns the counts.
    pub(crate) fn counts(&self) -> AppendCounts {
        AppendCounts {
            queued: self.queued.load(Ordering::Relaxed),
            appends: self.appends.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            waited: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
        }
    }
}
