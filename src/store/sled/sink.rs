//! The trees, as the writer and the readers see them.

use std::fs::File;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use ::sled::{Db, IVec, Tree};

use crate::store::head::Head;
use crate::store::keys::value_key;
use crate::store::reading::Values;
use crate::store::runs::Watermark;
use crate::store::spacer::Spacer;
use crate::store::writer::Sink;
use crate::store::{ReadError, files, halt};

use super::Durability;
use super::index::WATERMARK;

/// The handles that readers use. While one is alive, the directory stays locked.
pub(super) struct Trees {
    pub(super) log: Tree,
    pub(super) chunks: Tree,
    pub(super) runs: Tree,
    pub(super) snapshots: Tree,
}

/// The handles that the writer uses.
pub(super) struct SledSink {
    pub(super) db: Db,
    pub(super) log: Tree,
    pub(super) spacer: Spacer,
    pub(super) chunks: Tree,
    pub(super) chunk_spacer: Spacer,
    pub(super) runs: Tree,
    pub(super) run_spacer: Spacer,
    pub(super) meta: Tree,
    pub(super) durability: Durability,
    /// Our own descriptor of sled's data file.
    pub(super) data: File,
    pub(super) dir: PathBuf,
}

impl Values for Trees {
    type Bytes = IVec;

    fn get(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        get(&self.log, "value", ordinal)
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        get(&self.chunks, "chunk", ordinal)
    }
}

impl Values for SledSink {
    type Bytes = IVec;

    fn get(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        get(&self.log, "value", ordinal)
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        get(&self.chunks, "chunk", ordinal)
    }
}

fn get(tree: &Tree, what: &str, ordinal: u64) -> Result<Option<IVec>, ReadError> {
    // sled panics at some kinds of damage. It is only read here, so that nothing is left half done.
    let read = catch_unwind(AssertUnwindSafe(|| tree.get(value_key(ordinal))));
    let panicked = |_| ReadError::corrupt(format!("the database gave up on {what} {ordinal}"), None);
    read.map_err(panicked)?.map_err(|error| match error {
        ::sled::Error::Io(error) => ReadError::Io(io_told(&error)),
        other => ReadError::corrupt(format!("{what} {ordinal}: {other}"), None),
    })
}

/// What sled says, in words for people.
fn told(error: &::sled::Error) -> String {
    match error {
        ::sled::Error::Io(error) => io_told(error),
        other => other.to_string(),
    }
}

/// What the operating system said. sled hands its errors on as copies, whose text is how a program would print them.
fn io_told(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::StorageFull => "no space left on the disk; make room first".to_owned(),
        ErrorKind::Other => error.to_string(),
        kind if error.raw_os_error().is_none() => kind.to_string(),
        _ => error.to_string(),
    }
}

/// Inserts a value behind its spacers.
fn put(tree: &Tree, spacer: &mut Spacer, ordinal: u64, value: &[u8]) -> Result<(), String> {
    for key in spacer.before(ordinal) {
        tree.insert(key, &[]).map_err(|error| told(&error))?;
    }
    let before = tree.insert(value_key(ordinal), value).map_err(|error| told(&error))?;
    // Visited once more, so that sled splits now a leaf that this has filled, and not when it is next read: a split is
    // a write, and after a failed write that reading would fail.
    tree.contains_key(value_key(ordinal)).map_err(|error| told(&error))?;
    match before {
        None => Ok(()),
        Some(_) => Err(format!("value {ordinal} was there already")),
    }
}

impl Sink for SledSink {
    fn put(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String> {
        halt::pass("value");
        put(&self.log, &mut self.spacer, ordinal, value)
    }

    fn put_chunk(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String> {
        halt::pass("chunk");
        put(&self.chunks, &mut self.chunk_spacer, ordinal, value)
    }

    fn sync(&mut self) -> Result<(), String> {
        halt::pass("flush");
        self.db.flush().map_err(|error| told(&error))?;
        halt::pass("sync");
        match self.durability {
            Durability::Strict => self.data.sync_data().map_err(|error| error.to_string()),
            Durability::Os => Ok(()),
        }
    }

    fn put_run(&mut self, ordinal: u64, run: &[u8]) -> Result<(), String> {
        halt::pass("run");
        for key in self.run_spacer.before(ordinal) {
            self.runs.insert(key, &[]).map_err(|error| told(&error))?;
        }
        // One may be there that no watermark came to cover.
        self.runs.insert(value_key(ordinal), run).map_err(|error| told(&error))?;
        Ok(())
    }

    fn put_watermark(&mut self, mark: &Watermark) -> Result<(), String> {
        halt::pass("watermark");
        self.meta.insert(WATERMARK, mark.to_text().as_bytes()).map_err(|error| told(&error))?;
        Ok(())
    }

    fn write_head(&mut self, head: &Head) -> Result<(), String> {
        if self.durability == Durability::Os {
            // HEAD is durable when it is written, so what it speaks of must be before.
            self.data.sync_data().map_err(|error| error.to_string())?;
        }
        head.write(&self.dir).map_err(|error| error.to_string())
    }
}

/// Makes all that was inserted durable, and the names of sled's files.
pub(super) fn sync_all(sink: &SledSink) -> std::io::Result<()> {
    sink.db.flush().map_err(std::io::Error::other)?;
    sink.data.sync_all()?;
    // sled never syncs it, and does not open without what stands in it.
    std::fs::File::open(sink.dir.join("conf"))?.sync_all()?;
    files::sync_dir(&sink.dir)
}
