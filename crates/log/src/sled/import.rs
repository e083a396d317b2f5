//! A new log made of the records of another one, byte for byte: each keeps its epoch, its set id and its
//! position.
//!
//! The records go through the writer's own groups, so that appends are checked and written (chunks too) as in
//! normal operation. Until [`SledImport::finish`] the directory's marker says that it is not yet a log: an
//! import that is cut off for any reason leaves nothing that could be mistaken for a log.

use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::sled::{Db, Tree};
use proto_events::codec::record::EncodedRecord;
use proto_events::id::{ExpectedVersion, LogId, Version};

use crate::api::append::{Append, AppendPart};
use crate::api::check;
use crate::api::durability::Durability;
use crate::api::error::{AppendError, OpenError};
use crate::api::record::Fence;
use crate::engine::blocks::BlockBuilder;
use crate::engine::files;
use crate::engine::head::Frontier;
use crate::engine::index::Index;
use crate::engine::spacer::Spacer;
use crate::engine::writer::LogWriter;
use crate::engine::writer::shared::Shared;
use crate::engine::writer::sink::WriterTail;
use crate::limits::{EPOCH_IMPORTED_MAX, GROUP_APPENDS, IMPORT_GROUP_BYTES, SNAPSHOT_EVERY_BYTES};
use crate::sled::database::{PARTITION, head_error, open_database, panicked, refuse_blobs, sled_error};
use crate::sled::dir;
use crate::sled::dir::{DATA_FILE, FORMAT, LogHeader, io_error};
use crate::sled::epoch::header_fields;
use crate::sled::fence::{FencedHandle, fenced};
use crate::sled::index::BLOCKS_TREE;
use crate::sled::newest::Newest;
use crate::sled::options::SledOptions;
use crate::sled::sink::{SledSink, sync_all};
use crate::sled::snapshots::Snapshots;

/// A log that is being imported. Dropped before it is finished, it leaves the directory as it was found.
pub struct SledImport {
    dir: PathBuf,
    created: bool,
    header: LogHeader,
    writer: Option<LogWriter<SledSink>>,
    waiting: Vec<Append>,
    waiting_bytes: usize,
    epoch: u64,
    finished: bool,
}

impl fmt::Debug for SledImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledImport").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl SledImport {
    /// Begins a log of this id in a new or an empty directory.
    ///
    /// # Errors
    /// [`OpenError::NotEmpty`] if the directory holds anything, others if it cannot be written.
    pub fn create(dir: impl AsRef<Path>, id: LogId, durability: Durability) -> Result<Self, OpenError> {
        let dir = &*files::absolute(dir.as_ref());
        let header = LogHeader { format: FORMAT, id, durability };
        let created = dir::claim_for_import(dir, header)?;
        let mut import = Self {
            dir: dir.to_owned(),
            created,
            header,
            writer: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            epoch: 0,
            finished: false,
        };
        let sink = fenced(|| fresh_sink(dir, header)).unwrap_or_else(|why| Err(panicked(dir, why)))?;
        let shared = Arc::new(Shared::new(Fence { partition: PARTITION, epoch: 0 }, Index::default()));
        let tail =
            WriterTail { frontier: Frontier::default(), next_chunk: 0, blocks: BlockBuilder::from_zero(0) };
        import.writer = Some(LogWriter::new(sink, shared, tail));
        Ok(import)
    }

    /// Takes all records of the next append. They may wait to be written together with later ones.
    ///
    /// # Errors
    /// [`AppendError`] if the append, or one that waited, contradicts itself or does not follow the previous
    /// ones, or if the disk reported an error. The import must then be dropped.
    pub fn take(&mut self, records: Vec<EncodedRecord>) -> Result<(), AppendError> {
        let Some(first) = records.first() else { return Err(check::invalid("it has no parts")) };
        let fence = Fence { partition: first.partition(), epoch: first.epoch() };
        if fence.epoch > EPOCH_IMPORTED_MAX {
            let most = format!(
                "its epoch is above {EPOCH_IMPORTED_MAX}, so that the log could not be opened for long"
            );
            return Err(check::invalid(most));
        }
        let set_id = first.set_id();
        let parts = records.into_iter().map(|record| AppendPart {
            stream: record.stream().clone(),
            expected: ExpectedVersion::exactly(Version(record.first_version().0.saturating_sub(1))),
            record,
        });
        let append = Append { fence, set_id, parts: parts.collect() };
        check::check_append(&append)?;
        self.epoch = self.epoch.max(fence.epoch);
        self.waiting_bytes += append.parts.iter().map(|part| bytes(&part.record)).sum::<usize>();
        self.waiting.push(append);
        if self.waiting.len() >= GROUP_APPENDS || self.waiting_bytes >= IMPORT_GROUP_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), AppendError> {
        self.waiting_bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let writer = self.writer.as_mut().ok_or(AppendError::Closed)?;
        if waiting.is_empty() {
            return Ok(());
        }
        fenced(|| writer.adopt(waiting)).unwrap_or_else(|why| {
            // What a panic left half-done is not used again.
            drop(self.writer.take().map(FencedHandle::new));
            Err(AppendError::NotWritten { why })
        })
    }

    /// Makes the directory a log, which can be opened from now on, with an epoch higher than any imported
    /// one.
    ///
    /// # Errors
    /// [`OpenError`] if the disk or the database reported an error. The directory is then left as it was
    /// found.
    pub fn finish(mut self) -> Result<(), OpenError> {
        self.write().map_err(|error| head_error(&self.dir, error.to_string()))?;
        // The writer stays in its place, so that no panic of sled drops the last handle of the database on its way.
        let Some(writer) = self.writer.as_mut() else { return Ok(()) };
        let ended = fenced(|| writer.end()).and_then(|ended| ended);
        ended.map_err(|why| head_error(&self.dir, why))?;
        let sink = writer.sink();
        let described = fenced(|| write_meta(&self.dir, &sink.meta, self.header, self.epoch));
        described.unwrap_or_else(|why| Err(panicked(&self.dir, why)))?;
        let synced = fenced(|| sync_all(sink)).unwrap_or_else(|why| Err(std::io::Error::other(why)));
        synced.map_err(io_error(&self.dir, "the imported log could not be made durable"))?;
        let dropped = self.writer.take().map_or(Ok(()), |writer| FencedHandle::new(writer).finish());
        dropped.map_err(|why| head_error(&self.dir, why))?;
        refuse_blobs(&self.dir)?;
        let released = dir::await_release(&self.dir, || false);
        released.map_err(|why| head_error(&self.dir, why))?;
        dir::end_import(&self.dir, self.header)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for SledImport {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        drop(self.writer.take().map(FencedHandle::new));
        let released = dir::await_release(&self.dir, || false);
        let undone = released
            .and_then(|()| dir::undo_import(&self.dir, self.created).map_err(|error| error.to_string()));
        if let Err(why) = undone {
            tracing::error!(why, "removing the files of a failed import failed");
        }
    }
}

/// Returns the bytes of a record and of its bodies outside it.
fn bytes(record: &EncodedRecord) -> usize {
    record.bytes().len() + record.detached().iter().map(|detached| detached.body.len()).sum::<usize>()
}

/// Opens the sink of a log without records.
fn fresh_sink(dir: &Path, header: LogHeader) -> Result<SledSink, OpenError> {
    // Declared first, so that it is dropped last.
    let last = FencedHandle::new(open_database(dir, SledOptions::default())?);
    let db = Db::clone(&last);
    let tree = |name: &str| db.open_tree(name).map_err(|error| sled_error(dir, &error));
    let (log, chunks, blocks, meta) = (tree("log")?, tree("chunks")?, tree(BLOCKS_TREE)?, tree("meta")?);
    let path = dir.join(DATA_FILE);
    let data = OpenOptions::new().write(true).open(&path);
    Ok(SledSink {
        log,
        spacer: Spacer::after(None),
        newest: Newest::default(),
        chunks,
        chunk_spacer: Spacer::after(None),
        newest_chunks: Newest::default(),
        blocks,
        block_spacer: Spacer::after(None),
        meta,
        durability: header.durability,
        log_id: header.id,
        data: data.map_err(io_error(&path, "the database file could not be opened"))?,
        sync_failed: None,
        snapshots: Snapshots::new(dir, SNAPSHOT_EVERY_BYTES),
        dir: dir.to_owned(),
        db,
    })
}

/// Writes the tree `meta` as an opening expects it of a log that has records.
fn write_meta(dir: &Path, meta: &Tree, header: LogHeader, epoch: u64) -> Result<(), OpenError> {
    let epoch = ("epoch", epoch.to_be_bytes().to_vec());
    for (key, value) in header_fields(header).into_iter().chain([epoch]) {
        meta.insert(key, value).map_err(|error| sled_error(dir, &error))?;
    }
    Ok(())
}
