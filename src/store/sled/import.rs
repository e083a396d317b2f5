//! A new log out of the records of another one, byte for byte: each keeps its epoch, its set id and its place.
//!
//! The records go through the writer's own groups, so that what it checks of an append is checked here, and what it
//! writes (chunks too) is written here. Until [`SledImport::finish`] the directory's marker says that it is no log yet: an
//! import that is cut off, by whatever, leaves nothing that could be taken for one.

use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::sled::Tree;
use proto_events::codec::record::EncodedRecord;
use proto_events::id::{ExpectedVersion, Version};

use crate::limits::{GROUP_APPENDS, IMPORT_GROUP_BYTES};
use crate::store::head::Frontier;
use crate::store::index::Index;
use crate::store::runs::RunBuilder;
use crate::store::spacer::Spacer;
use crate::store::writer::{Shared, Tail, Writer};
use crate::store::{Append, AppendError, AppendPart, Fence, OpenError, check};

use super::dir::{self, DATA_FILE, FORMAT, io_error};
use super::open::{PARTITION, head_error, open_database, refuse_blobs, sled_error};
use super::sink::{SledSink, sync_all};
use super::{Durability, SledOptions};

/// A log that is being imported. Dropped before it is finished, it leaves the directory as it was found.
pub struct SledImport {
    dir: PathBuf,
    made: bool,
    durability: Durability,
    writer: Option<Writer<SledSink>>,
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
    /// Begins a log in a new or an empty directory.
    ///
    /// # Errors
    /// [`OpenError::NotEmpty`] if the directory holds anything, others if it cannot be written.
    pub fn begin(dir: impl AsRef<Path>, durability: Durability) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        let made = dir::claim_for_import(dir, durability)?;
        let mut import = Self {
            dir: dir.to_owned(),
            made,
            durability,
            writer: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            epoch: 0,
            finished: false,
        };
        let sink = fresh_sink(dir, durability)?;
        let shared = Arc::new(Shared::new(Fence { partition: PARTITION, epoch: 0 }, Index::default()));
        let tail = Tail { frontier: Frontier::default(), next_chunk: 0, runs: RunBuilder::from_zero(0) };
        import.writer = Some(Writer::new(sink, shared, tail));
        Ok(import)
    }

    /// Takes the records of the next append, all of them. They may wait to be written together with later ones.
    ///
    /// # Errors
    /// [`AppendError`] if the append, or one that waited, contradicts itself or does not follow what was taken
    /// before, or the disk refused. The import is to be dropped then.
    pub fn take(&mut self, records: Vec<EncodedRecord>) -> Result<(), AppendError> {
        let Some(first) = records.first() else { return Err(check::invalid("it has no part")) };
        let fence = Fence { partition: first.partition(), epoch: first.epoch() };
        if fence.epoch == u64::MAX {
            return Err(check::invalid(
                "its epoch is the last there is, so that nobody could go on with the log",
            ));
        }
        let set_id = first.set_id();
        let parts = records.into_iter().map(|record| AppendPart {
            stream: record.stream().clone(),
            expected: ExpectedVersion::at(Version(record.first_version().0.saturating_sub(1))),
            record,
        });
        let append = Append { fence, set_id, parts: parts.collect() };
        check::agrees(&append)?;
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
        if waiting.is_empty() { Ok(()) } else { writer.adopt(waiting) }
    }

    /// Makes it a log, which can be opened from now on, by a writer with a higher epoch than any imported.
    ///
    /// # Errors
    /// [`OpenError`] if the disk or the database refused. The directory is left as it was found then.
    pub fn finish(mut self) -> Result<(), OpenError> {
        self.write().map_err(|error| head_error(&self.dir, error.to_string()))?;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let sink = writer.end().map_err(|why| head_error(&self.dir, why))?;
        write_meta(&self.dir, &sink.meta, self.durability, self.epoch)?;
        sync_all(&sink).map_err(io_error(&self.dir, "the imported log could not be made durable"))?;
        drop(sink);
        refuse_blobs(&self.dir)?;
        let released = dir::await_release(&self.dir);
        released.map_err(|why| head_error(&self.dir, why))?;
        dir::end_import(&self.dir, self.durability)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for SledImport {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        drop(self.writer.take());
        let released = dir::await_release(&self.dir);
        let undone =
            released.and_then(|()| dir::undo_import(&self.dir, self.made).map_err(|error| error.to_string()));
        if let Err(why) = undone {
            tracing::error!(why, "what a failed import wrote could not be removed");
        }
    }
}

/// Bytes of a record and of its bodies that stand outside.
fn bytes(record: &EncodedRecord) -> usize {
    record.bytes().len() + record.detached().iter().map(|detached| detached.body.len()).sum::<usize>()
}

/// The sink of a log without a record.
fn fresh_sink(dir: &Path, durability: Durability) -> Result<SledSink, OpenError> {
    let db = open_database(dir, SledOptions::default())?;
    let tree = |name: &str| db.open_tree(name).map_err(|error| sled_error(dir, &error));
    let (log, chunks, runs, meta) = (tree("log")?, tree("chunks")?, tree("runs")?, tree("meta")?);
    let path = dir.join(DATA_FILE);
    let data = OpenOptions::new().write(true).open(&path);
    Ok(SledSink {
        log,
        spacer: Spacer::behind(None),
        chunks,
        chunk_spacer: Spacer::behind(None),
        runs,
        run_spacer: Spacer::behind(None),
        meta,
        durability,
        data: data.map_err(io_error(&path, "the database's file could not be opened"))?,
        dir: dir.to_owned(),
        db,
    })
}

/// What an opening expects to find of a log that has records.
fn write_meta(dir: &Path, meta: &Tree, durability: Durability, epoch: u64) -> Result<(), OpenError> {
    let fields: [(&str, &[u8]); 3] = [
        ("format", &FORMAT.to_be_bytes()),
        ("durability", durability.name().as_bytes()),
        ("epoch", &epoch.to_be_bytes()),
    ];
    for (key, value) in fields {
        meta.insert(key, value).map_err(|error| sled_error(dir, &error))?;
    }
    Ok(())
}
