//! Reading streams for actors: on a thread that may block, or here where nothing waits for a disk.

use std::cell::Cell;
use std::sync::Arc;

use proto_events::envelope::{Committed, Metadata};
use proto_events::id::{StreamId, Version};
use taskreel_log::api::{EventReader, EventStore, Page, ReadError};

use crate::error::Error;

thread_local! {
    /// Whether this thread is for work that blocks.
    static READS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Does work on a thread that may block: it reads streams itself, since waiting there for another such thread could
/// leave none.
pub(crate) fn reading_here<T>(work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            READS_HERE.set(false);
        }
    }
    READS_HERE.set(true);
    let _reset = Reset;
    work()
}

/// Whether this thread is for work that blocks, and none of the actors'.
pub(crate) fn is_blocking_thread() -> bool {
    READS_HERE.get()
}

/// Reads a stream: on the blocking pool, unless its store is in memory.
pub(crate) async fn on_blocking_pool<T: Send + 'static>(
    store: &Arc<dyn EventStore>,
    stream: &StreamId,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if store.is_in_memory() || READS_HERE.get() {
        return Ok(read());
    }
    let done = tokio::task::spawn_blocking(read).await;
    done.map_err(|panic| Error::Internal(format!("reading {stream} panicked: {panic}")))
}

/// Returns the metadata of the command with this id and the end of its record, if the stream has one.
pub(super) fn find_command(
    reader: &dyn EventReader,
    stream: &StreamId,
    command_id: &str,
) -> Result<Option<(Metadata, Committed)>, ReadError> {
    let (mut from, mut found) = (Version(1), None);
    loop {
        let page = reader.page_stream(stream, from, Page::default())?;
        let Some(last) = page.last() else { return Ok(found) };
        from = Version(last.record.last_version().0 + 1);
        for stored in &page {
            if stored.record.metadata.command_id == command_id {
                let (version, position) = (stored.record.last_version(), stored.last_position());
                let metadata =
                    found.take().map_or_else(|| stored.record.metadata.clone(), |(first, _)| first);
                found = Some((metadata, Committed { version, position }));
            } else if found.is_some() {
                // A command of several appends has them one after another.
                return Ok(found);
            }
        }
    }
}
