//! The trees, as the writer and the readers see them.

use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use ::sled::{Db, IVec, Tree};
use proto_events::id::LogId;

use crate::api::durability::Durability;
use crate::api::error::ReadError;
use crate::engine::blocks::Watermark;
use crate::engine::head::Head;
use crate::engine::keys::value_key;
use crate::engine::spacer::Spacer;
use crate::engine::values::Values;
use crate::engine::writer::sink::Sink;
use crate::engine::{files, halt};
use crate::sled::dir::DATA_FILE;
use crate::sled::fence::{fenced, is_io};
use crate::sled::index::{IMAGE_FILE, WATERMARK};
use crate::sled::newest::Newest;
use crate::sled::snapshots::Snapshots;
use crate::sled::straight::{Straight, WholeValues};

/// The trees that readers use. While a handle is alive, the directory stays locked.
pub(crate) struct Trees {
    pub(crate) log: Tree,
    pub(crate) chunks: Tree,
    pub(crate) blocks: Tree,
    pub(crate) newest: Newest,
    pub(crate) newest_chunks: Newest,
    /// The note whether the disk was asked for the values that were read last.
    pub(crate) disk_was_asked: AtomicBool,
    /// The values that can be read past the database.
    pub(crate) straight: Option<Straight>,
    /// The values and chunks that a private copy of a part of the log does not have.
    pub(crate) whole: Option<WholeValues>,
}

impl Trees {
    /// Returns a value or a chunk as the database has it, whatever else could be had: for those who look for damage.
    pub(crate) fn get_sure(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        self.whole.as_ref().map_or_else(|| self.get_in_pass(ordinal), |whole| whole.get_in_pass(ordinal))
    }

    /// Returns a value that is read past the database, or found in this part of one.
    fn get_of_part(&self, ordinal: u64) -> Option<IVec> {
        let straight = self.straight.as_ref().and_then(|straight| straight.get(ordinal));
        straight.or_else(|| get((&self.log, &self.newest), "value", ordinal).ok().flatten())
    }
}

/// The trees and files that the writer uses.
pub(crate) struct SledSink {
    pub(crate) db: Db,
    pub(crate) log: Tree,
    pub(crate) spacer: Spacer,
    pub(crate) newest: Newest,
    pub(crate) chunks: Tree,
    pub(crate) chunk_spacer: Spacer,
    pub(crate) newest_chunks: Newest,
    pub(crate) blocks: Tree,
    pub(crate) block_spacer: Spacer,
    pub(crate) meta: Tree,
    pub(crate) durability: Durability,
    pub(crate) log_id: LogId,
    /// The store's own descriptor of sled's data file.
    pub(crate) data: File,
    /// The first sync that failed. The operating system reports such a failure once.
    pub(crate) sync_failed: Option<String>,
    pub(crate) dir: PathBuf,
    pub(crate) snapshots: Snapshots,
}

impl Values for Trees {
    type Bytes = IVec;

    fn get(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        let Some(whole) = &self.whole else { return get((&self.log, &self.newest), "value", ordinal) };
        self.get_of_part(ordinal).map_or_else(|| whole.get(ordinal), |value| Ok(Some(value)))
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        match &self.whole {
            Some(whole) => whole.get_chunk(ordinal),
            None => in_pass((&self.chunks, &self.newest_chunks), "chunk", ordinal),
        }
    }

    fn get_in_pass(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        match &self.whole {
            Some(_) => self.get(ordinal),
            None => in_pass((&self.log, &self.newest), "value", ordinal),
        }
    }

    fn get_once(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        match self.straight.as_ref().and_then(|straight| straight.get(ordinal)) {
            Some(value) => Ok(Some(value)),
            None => self.get_in_pass(ordinal),
        }
    }

    fn disk_was_asked(&self) -> Option<&AtomicBool> {
        Some(&self.disk_was_asked)
    }
}

impl Values for SledSink {
    type Bytes = IVec;

    fn get(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        get((&self.log, &self.newest), "value", ordinal)
    }

    fn get_chunk(&self, ordinal: u64) -> Result<Option<IVec>, ReadError> {
        get((&self.chunks, &self.newest_chunks), "chunk", ordinal)
    }
}

/// The reads of a value in a pass. The database looks for pages that it may drop from its cache only when a part of the cache (a
/// 256th) was asked 64 times. A leaf has the values of five ordinals: with one read of each, a pass over a log would keep
/// thousands of pages, whatever the size of the cache.
const READS_IN_PASS: u32 = 13;

/// Reads a value as [`get`] does, so often that the database soon drops the page.
fn in_pass(of: (&Tree, &Newest), what: &str, ordinal: u64) -> Result<Option<IVec>, ReadError> {
    let found = get(of, what, ordinal)?;
    for _ in 1..READS_IN_PASS {
        drop(get(of, what, ordinal)?);
    }
    Ok(found)
}

fn get((tree, newest): (&Tree, &Newest), what: &str, ordinal: u64) -> Result<Option<IVec>, ReadError> {
    // sled panics on some kinds of damage. This only reads, so that nothing is left incomplete.
    let read = fenced(|| tree.get(value_key(ordinal)));
    let corrupt = |why: String| ReadError::corrupt(format!("{what} {ordinal}: {why}"), None);
    let refused = match read {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(::sled::Error::Io(error))) => describe_io(&error),
        Err(why) if is_io(&why) => why,
        Ok(Err(other)) => return Err(corrupt(other.to_string())),
        Err(why) => return Err(corrupt(why)),
    };
    newest.find(ordinal).map(Some).ok_or(ReadError::Io(refused))
}

/// Describes an error of sled for people.
fn describe(error: &::sled::Error) -> String {
    match error {
        ::sled::Error::Io(error) => describe_io(error),
        other => other.to_string(),
    }
}

/// Describes an error of the operating system. sled passes such errors on as copies, whose text is a debug
/// format.
fn describe_io(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::StorageFull => "no space left on the disk; free some space first".to_owned(),
        ErrorKind::Other => error.to_string(),
        kind if error.raw_os_error().is_none() => kind.to_string(),
        _ => error.to_string(),
    }
}

/// Runs work on a tree whose loss does no harm; a panic of sled on damage becomes an error.
pub(crate) fn catch_sled<T>(work: impl FnOnce() -> Result<T, ::sled::Error>) -> Result<T, String> {
    fenced(work)?.map_err(|error| error.to_string())
}

/// Inserts a value, after the spacers that must precede it.
fn insert_value(
    (tree, newest): (&Tree, &Newest),
    spacer: &mut Spacer,
    ordinal: u64,
    value: &[u8],
) -> Result<(), String> {
    let value = IVec::from(value);
    newest.insert(ordinal, &value, |before| tree.get(value_key(before)).ok().flatten());
    for key in spacer.before(ordinal) {
        tree.insert(key, &[]).map_err(|error| describe(&error))?;
    }
    let before = tree.insert(value_key(ordinal), value).map_err(|error| describe(&error))?;
    // Read once more, so that a leaf filled by this insertion is split now, not at its next read: a split is
    // a write, and after a failed write that read would fail.
    tree.contains_key(value_key(ordinal)).map_err(|error| describe(&error))?;
    match before {
        None => Ok(()),
        Some(_) => Err(format!("value {ordinal} exists already")),
    }
}

impl SledSink {
    /// Whether the directory has another file, or none, in the place of the one that is written: then what is acknowledged is in no
    /// directory, and `HEAD` would be written beside another log. A disk that cannot tell is not a sign of it.
    fn is_elsewhere(&self) -> bool {
        let there = std::fs::metadata(self.dir.join(DATA_FILE));
        match (there, self.data.metadata()) {
            (Ok(there), Ok(own)) => !files::is_same(&there, &own),
            (Err(error), _) => error.kind() == ErrorKind::NotFound,
            (_, Err(_)) => false,
        }
    }

    fn flush_and_sync(&self) -> Result<(), String> {
        halt::pass("flush");
        self.db.flush().map_err(|error| describe(&error))?;
        halt::pass("sync");
        match self.durability {
            Durability::Strict => self.data.sync_data().map_err(|error| error.to_string()),
            Durability::Os => Ok(()),
        }
    }
}

impl Sink for SledSink {
    fn insert(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String> {
        halt::pass("value");
        self.snapshots.count(value.len());
        insert_value((&self.log, &self.newest), &mut self.spacer, ordinal, value)
    }

    fn put_chunk(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String> {
        halt::pass("chunk");
        self.snapshots.count(value.len());
        insert_value((&self.chunks, &self.newest_chunks), &mut self.chunk_spacer, ordinal, value)
    }

    fn sync(&mut self) -> Result<(), String> {
        let synced = self.flush_and_sync();
        match &synced {
            Ok(()) => self.snapshots.begin_if_due(),
            Err(why) => drop(self.sync_failed.get_or_insert_with(|| why.clone())),
        }
        synced
    }

    fn vouch(&mut self) -> Result<(), String> {
        if self.is_elsewhere() {
            return Err(format!(
                "the files in {} are not those of this log any more: they were removed, moved or replaced while it was open, and \
                 what was written since is not there",
                self.dir.display()
            ));
        }
        if self.durability == Durability::Strict {
            return Ok(());
        }
        // HEAD is durable when it is written, so the records it covers must be durable before.
        if self.sync_failed.is_none() {
            self.sync_failed = self.data.sync_data().err().map(|error| error.to_string());
        }
        self.sync_failed.clone().map_or(Ok(()), Err)
    }

    fn put_block(&mut self, ordinal: u64, block: &[u8]) -> Result<(), String> {
        halt::pass("block");
        for key in self.block_spacer.before(ordinal) {
            self.blocks.insert(key, &[]).map_err(|error| describe(&error))?;
        }
        // A block that no watermark covers may have this ordinal already.
        self.blocks.insert(value_key(ordinal), block).map_err(|error| describe(&error))?;
        Ok(())
    }

    fn put_watermark(&mut self, mark: &Watermark) -> Result<(), String> {
        halt::pass("watermark");
        self.meta.insert(WATERMARK, mark.to_text().as_bytes()).map_err(|error| describe(&error))?;
        Ok(())
    }

    fn keep_image(&mut self, make: &mut dyn FnMut(LogId) -> Vec<u8>) -> Result<(), String> {
        halt::pass("image");
        files::replace_cache(&self.dir, IMAGE_FILE, &make(self.log_id)).map_err(|error| error.to_string())
    }

    fn write_head(&mut self, head: &Head) -> Result<(), String> {
        head.write(&self.dir).map_err(|error| error.to_string())
    }
}

/// Makes all that was inserted durable, and the names of sled's files.
pub(crate) fn sync_all(sink: &SledSink) -> std::io::Result<()> {
    sink.db.flush().map_err(std::io::Error::other)?;
    sink.data.sync_all()?;
    // sled never syncs this file, and does not open without its contents.
    std::fs::File::open(sink.dir.join("conf"))?.sync_all()?;
    files::sync_dir(&sink.dir)
}
