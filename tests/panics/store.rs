//! A log whose appends panic on demand, before or after they are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use taskreel_log::api::{Append, AppendFuture, EventStore, ReadError};
use taskreel_log::memory::MemoryStore;
use taskreel_log::testing::{DelegatingStore, Overrides, StoreRead};

/// The number of the next appends that panic, unwritten or written.
#[derive(Default)]
pub(crate) struct Panicking {
    pub(crate) unwritten: AtomicU32,
    pub(crate) written: AtomicU32,
    /// The number of the next looks at a session that panic.
    pub(crate) sessions: AtomicU32,
}

/// Returns an empty log in memory that panics on demand.
pub(crate) fn panicking() -> Arc<DelegatingStore<Panicking>> {
    Arc::new(DelegatingStore::new(Arc::new(MemoryStore::new()), Panicking::default()))
}

fn takes_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Overrides for Panicking {
    fn before_read(&self, read: StoreRead<'_>) -> Result<(), ReadError> {
        if let StoreRead::StreamVersion(stream) = read {
            let is_session = stream.as_str().starts_with("session-");
            assert!(!is_session || !takes_one(&self.sessions), "BOOM of a session");
        }
        Ok(())
    }

    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        assert!(!takes_one(&self.unwritten), "BOOM before the write");
        let done = log.append(append);
        if takes_one(&self.written) {
            return Box::pin(async move {
                let done = done.await;
                panic!("BOOM after the write of {done:?}")
            });
        }
        done
    }
}
