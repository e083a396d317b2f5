//! The log in a directory, on sled 0.34.7. Values of whole groups under ordinal keys, spacers ahead of them, and
//! `fdatasync` on a descriptor of our own, since sled's flush does not reach the disk.
//!
//! Beside sled's own files the directory holds `taskreel.format` (that it is a log, and of what kind), `HEAD` (how
//! far it went) and, while it is open, `holder` (by whom).

mod damaged;
mod dir;
mod guard;
mod import;
mod index;
mod open;
mod scan;
mod sink;
mod sizes;
mod snapshots;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use proto_events::id::{Position, StreamId, Version};
use tokio::sync::mpsc;

use self::sink::Trees;
use super::writer::{self, Job, Shared};
use super::{
    Append, AppendFuture, Appended, CloseError, Compare, Durability, EventReader, EventStore, Feed, Fence,
    Holder, Look, OpenError, OpenNote, ReadError, Scanned, Snapshot, StoredRecord, StreamInfo, check,
    reading, scanning,
};

pub use self::damaged::SledDamaged;
pub use self::dir::{LogHeader, blob_files, log_header};
pub use self::import::SledImport;
pub use self::sizes::{SnapshotHealth, TreeSize};

/// How to open a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SledOptions {
    /// What an acknowledged append must have survived. `None` takes a log as it is, and makes a new one strict.
    pub durability: Option<Durability>,
    /// Whether to make a log where there is none: in a new or an empty directory.
    pub create: bool,
    /// Cache of the database in bytes. It is a wish: with values of this size sled keeps more.
    pub cache_bytes: u64,
}

impl Default for SledOptions {
    /// As the log is, strict if it is new, making the log if there is none, 64 MiB.
    fn default() -> Self {
        Self { durability: None, create: true, cache_bytes: 64 * 1024 * 1024 }
    }
}

/// A log in a directory. Dropping it closes it.
pub struct SledStore {
    dir: PathBuf,
    /// With the log's own durability. A log that is gone is not made again in its place.
    options: SledOptions,
    notes: Vec<OpenNote>,
    shared: Arc<Shared>,
    queue: mpsc::Sender<Job>,
    trees: RwLock<Option<Trees>>,
    writer: Mutex<Option<JoinHandle<Result<(), String>>>>,
}

impl fmt::Debug for SledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledStore")
            .field("dir", &self.dir)
            .field("fence", &self.shared.fence)
            .finish_non_exhaustive()
    }
}

impl SledStore {
    /// Opens the log in `dir`, or makes one.
    ///
    /// # Errors
    /// [`OpenError`], see [`SledStore::open_with`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(dir, SledOptions::default())
    }

    /// Opens the log in `dir`. What lies behind the kept index is read, and all of the log where there is none: checksums,
    /// positions, versions and the chain of each stream are checked. An append whose last values are missing at the log's end was never durable and is removed.
    ///
    /// # Errors
    /// [`OpenError`]: whatever is not a log of a known format is refused and left untouched; so is one that another
    /// store holds, that is damaged, or that ends before its `HEAD`.
    pub fn open_with(dir: impl AsRef<Path>, options: SledOptions) -> Result<Self, OpenError> {
        open::open(dir.as_ref(), options)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What an acknowledged append has survived, as the log's header says.
    pub fn durability(&self) -> Durability {
        self.options.durability.unwrap_or_default()
    }

    /// What opening it met that its owner should know of; empty after a clean close.
    pub fn notes(&self) -> &[OpenNote] {
        &self.notes
    }

    /// Adds to the notes that the log was not closed, if a holder had stayed behind.
    fn with_notes(mut self, notes: Vec<OpenNote>, before: Option<Holder>, proven: Option<Position>) -> Self {
        self.notes = notes;
        if let Some(holder) = before {
            let end = self.index(super::index::Index::head);
            let proven = proven.unwrap_or_default();
            self.notes.push(OpenNote::NotClosed { holder: Some(holder), proven, end });
        }
        self
    }

    fn read<R>(&self, look: impl FnOnce(&Trees) -> Result<R, ReadError>) -> Result<R, ReadError> {
        // Closing waits for this guard, so that no reader holds the directory longer than the store.
        let trees = self.trees.read().unwrap_or_else(PoisonError::into_inner);
        look(trees.as_ref().ok_or(ReadError::Closed)?)
    }

    fn index<R>(&self, look: impl FnOnce(&super::index::Index) -> R) -> R {
        look(&self.shared.index.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EventReader for SledStore {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|trees| {
            let (end, slots) =
                self.index(|index| (index.end_of(stream.as_str()).version, index.slots_of(stream.as_str())));
            if end < from {
                return Ok(Vec::new());
            }
            let first = reading::holding(trees, &slots, from)?;
            let wanted = slots.get(first..).unwrap_or_default();
            reading::in_slots(trees, stream, wanted.get(..limit).unwrap_or(wanted))
        })
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|trees| {
            let (around, end) = self.index(|index| (index.around(from), index.next_ordinal()));
            reading::from_position(trees, from, around, end, limit)
        })
    }

    fn scan(
        &self,
        from: Position,
        compare: Compare,
        look: &mut dyn FnMut(&Scanned<'_>) -> Look,
    ) -> Result<(), ReadError> {
        let (around, end) = self.index(|index| (index.around(from), index.next_ordinal()));
        let first = self.read(|trees| reading::nearest(trees, from, around))?;
        // The guard is given back between values: closing need not wait for a long scan, and who looks may read.
        let whole = |located: &reading::Located<'_>| self.read(|trees| located.stored(trees).map(drop));
        for ordinal in first..end {
            let bytes = self.read(|trees| reading::Values::require(trees, ordinal))?;
            if scanning::scan_value((ordinal, &bytes), from, compare, &whole, look)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.read(|_| Ok(self.index(super::index::Index::head)))
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.read(|_| Ok(self.index(|index| index.end_of(stream.as_str()).version)))
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.read(|_| Ok(self.index(|index| index.list(prefix, after.map(StreamId::as_str), limit))))
    }

    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        self.read(|_| Ok(self.index(super::index::Index::open_work)))
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        let gone_through = self.read(|trees| {
            reading::survey(trees, self.index(super::index::Index::next_ordinal), show);
            Ok(())
        });
        if let Err(error) = gone_through {
            show(Err(error));
        }
    }
}

impl EventStore for SledStore {
    fn fence(&self) -> Fence {
        self.shared.fence
    }

    fn append(&self, append: Append) -> AppendFuture {
        writer::ask(&self.shared, &self.queue, append)
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        self.read(|trees| {
            let (lately, end) = self.index(|index| (index.recall(set_id), index.next_ordinal()));
            let parts = match lately {
                Some(ordinal) => reading::set_around(trees, ordinal.into(), set_id)?,
                None => reading::find_set(trees, end, set_id)?,
            };
            Ok(parts.map(|parts| check::appended(&parts)))
        })
    }

    fn subscribe(&self) -> Feed {
        self.shared.subscribe()
    }

    fn close(&self) -> Result<(), CloseError> {
        let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        self.shared.closing.notify_one();
        let ended = writer.join().unwrap_or_else(|_| Err("the writer panicked".to_owned()));
        self.shared.end_feeds();
        self.trees.write().unwrap_or_else(PoisonError::into_inner).take();
        Holder::remove(&self.dir);
        dir::await_release(&self.dir).map_err(|why| CloseError::StillHeld { why })?;
        match (self.shared.poisoned.get(), ended) {
            (Some(why), _) => Err(CloseError::Poisoned { why: why.clone() }),
            (None, Err(why)) => Err(CloseError::Head { why }),
            (None, Ok(())) => Ok(()),
        }
    }

    fn put_snapshot(&self, snapshot: &Snapshot) -> Result<(), String> {
        if self.shared.poisoned.get().is_some() {
            return Err("the log takes nothing more".to_owned());
        }
        self.read(|trees| Ok(snapshots::put(trees, snapshot))).map_err(|error| error.to_string())?
    }

    fn get_snapshot(&self, stream: &StreamId) -> Result<Option<Snapshot>, String> {
        self.read(|trees| Ok(snapshots::get(trees, stream))).map_err(|error| error.to_string())?
    }

    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        if let Err(error) = self.close() {
            // After a failed write it says so once more; opening tells what is durable.
            tracing::warn!(%error, "closing the log to open it anew");
        }
        Ok(Arc::new(Self::open_with(&self.dir, self.options)?))
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "the log was not closed cleanly");
        }
    }
}
