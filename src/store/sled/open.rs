//! Opening: what is refused, what is checked, what is made durable before the first append.

use std::fs::OpenOptions;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use ::sled::{Db, Mode, Tree};
use proto_events::id::Position;
use tokio::sync::mpsc;

use crate::limits::WRITER_QUEUE_APPENDS;
use crate::store::chunks::Chunk;
use crate::store::head::{HEAD_FILE, Head};
use crate::store::keys::{self, Key, value_key};
use crate::store::spacer::Spacer;
use crate::store::writer::{Shared, Sink as _, Tail, Writer};
use crate::store::{Fence, Holder, OpenError, OpenNote, halt};

use super::dir::{self, DATA_FILE, FORMAT, blob_files, io_error};
use super::guard::{self, Guarded};
use super::index::{self, Kept};
use super::scan::{Scan, ScanError};
use super::sink::{SledSink, Trees, sync_all};
use super::{Durability, SledOptions, SledStore};

/// Bytes of sled's segments: a quarter of one is the largest that sled keeps out of blob files, and 17 values stay
/// below that. Fixed when a log is created.
pub(super) const SEGMENT_BYTES: usize = 4 * 1024 * 1024;

/// The partition of every log that stands alone.
pub(super) const PARTITION: u32 = 0;

/// Opens or makes the log in `dir`.
pub(super) fn open(dir: &Path, options: SledOptions) -> Result<SledStore, OpenError> {
    let durability = dir::claim(dir, options)?;
    // From here on the log's own. A log that is gone is not made again in its place.
    let options = SledOptions { durability: Some(durability), create: false, ..options };
    refuse_blobs(dir)?;
    let head = Head::read(dir).map_err(|what| damaged(dir, format!("{HEAD_FILE}: {what}")))?;
    let before = Holder::read(dir);
    let proven = head.as_ref().map(|head| head.position);
    let mut guarded = guard::look(dir, head.as_ref(), durability)?;
    halt::pass("guarded");
    let opened = open_database(dir, options).and_then(|db| start(dir, options, head, db, &mut guarded));
    let opened = opened.map(|store| store.with_notes(guarded.notes, before, proven));
    if opened.as_ref().is_err_and(|error| !matches!(error, OpenError::Held { .. })) {
        // Whoever corrects what is wrong can open the log at once; the first error is the one that matters.
        let _ = dir::await_release(dir);
    }
    opened
}

fn start(
    dir: &Path,
    options: SledOptions,
    head: Option<Head>,
    db: Db,
    guarded: &mut Guarded,
) -> Result<SledStore, OpenError> {
    halt::pass("database open");
    let tree = |name: &str| db.open_tree(name).map_err(|error| sled_error(dir, &error));
    let (log, chunks, runs, meta) = (tree("log")?, tree("chunks")?, tree("runs")?, tree("meta")?);
    let snapshots = tree("snapshots")?;
    let durability = options.durability.unwrap_or_default();
    let kept = kept_index(dir, &meta, &runs, &log, guarded)?;
    let next_run = index::next_run(&runs).map_err(|error| sled_error(dir, &error))?;
    let mut scan = scan(dir, &log, (kept, next_run), head)?;
    let leftover = scan.finish().map_err(|error| scan_error(dir, error))?;
    let epoch = raise_epoch(dir, &meta, durability, scan.index.next_ordinal() == 0)?;
    for ordinal in leftover {
        log.remove(value_key(ordinal)).map_err(|error| sled_error(dir, &error))?;
    }
    halt::pass("epoch raised");
    let tail = chunk_tail(dir, &chunks, scan.index.head())?;
    for ordinal in tail.leftover.clone() {
        chunks.remove(value_key(ordinal)).map_err(|error| sled_error(dir, &error))?;
    }
    let path = dir.join(DATA_FILE);
    let data = OpenOptions::new().write(true).open(&path);
    let mut sink = SledSink {
        log: log.clone(),
        spacer: Spacer::behind(scan.last_spaced),
        chunks: chunks.clone(),
        chunk_spacer: Spacer::behind(tail.last_spaced),
        run_spacer: Spacer::behind(last_spaced(&runs).map_err(|error| sled_error(dir, &error))?),
        runs,
        meta,
        durability,
        data: data.map_err(io_error(&path, "the database's file could not be opened"))?,
        dir: dir.to_owned(),
        db,
    };
    save_runs(&mut sink, &mut scan).map_err(|why| damaged(dir, why))?;
    sync_all(&sink).map_err(io_error(dir, "the new epoch could not be made durable"))?;
    halt::pass("epoch synced");
    refuse_blobs(dir)?;
    let head = Head { position: scan.index.head(), frontier: scan.frontier.clone() };
    sink.write_head(&head).map_err(|why| head_error(dir, why))?;
    if let Some(mark) = scan.runs.take_mark() {
        sink.put_watermark(&mark).map_err(|why| damaged(dir, why))?;
        // What the database has not written when it is let go looks torn to the next opening.
        sync_all(&sink).map_err(io_error(dir, "the index could not be made durable"))?;
    }
    halt::pass("head written");
    Holder::this().write(dir).map_err(io_error(dir, "the file `holder` could not be written"))?;
    let fence = Fence { partition: PARTITION, epoch };
    let tail = Tail { frontier: scan.frontier, next_chunk: tail.leftover.start, runs: scan.runs };
    let trees = Trees { log, chunks, runs: sink.runs.clone(), snapshots };
    spawn((dir, options), trees, sink, Shared::new(fence, scan.index), tail)
}

/// The index as it was kept, unless there is none or it does not fit.
fn kept_index(
    dir: &Path,
    meta: &Tree,
    runs: &Tree,
    log: &Tree,
    guarded: &mut Guarded,
) -> Result<Option<Kept>, OpenError> {
    if !guarded.trusted {
        // The whole log is looked at then, its chains too.
        return index::forget(meta).map(|()| None).map_err(|error| sled_error(dir, &error));
    }
    let load = AssertUnwindSafe(|| index::load(meta, runs, log));
    let loaded = catch_unwind(load).unwrap_or_else(|_| Err("the database gave up on it".to_owned()));
    match loaded {
        Ok(Some(kept)) => Ok(Some(kept)),
        // Runs without a watermark are what a process leaves that died before it wrote its first.
        Ok(None) => Ok(None),
        Err(why) => {
            tracing::warn!(dir = %dir.display(), why, "the index is built anew from the log");
            guarded.notes.push(OpenNote::IndexRebuilt { why });
            index::forget(meta).map_err(|error| sled_error(dir, &error))?;
            Ok(None)
        }
    }
}

/// Hands over what the scan has made of the index.
fn save_runs(sink: &mut SledSink, scan: &mut Scan) -> Result<(), String> {
    let finished = scan.runs.take_finished();
    finished.iter().try_for_each(|(ordinal, run)| sink.put_run(*ordinal, run))
}

/// The highest ordinal of a tree that has spacers: its last key is always one.
fn last_spaced(tree: &Tree) -> Result<Option<u64>, ::sled::Error> {
    let last = tree.last()?.and_then(|(key, _)| keys::parse(&key));
    Ok(last.map(|key| match key {
        Key::Value(ordinal) | Key::Spacer(ordinal) => ordinal,
    }))
}

fn spawn(
    (dir, options): (&Path, SledOptions),
    trees: Trees,
    sink: SledSink,
    shared: Shared,
    tail: Tail,
) -> Result<SledStore, OpenError> {
    let shared = Arc::new(shared);
    let (queue, jobs) = mpsc::channel(WRITER_QUEUE_APPENDS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(io_error(dir, "the writer could not be prepared"))?;
    let writer_shared = Arc::clone(&shared);
    let work = move || runtime.block_on(Writer::new(sink, writer_shared, tail).run(jobs));
    let writer = std::thread::Builder::new().name("store-writer".to_owned()).spawn(work);
    Ok(SledStore {
        dir: dir.to_owned(),
        options,
        shared,
        queue,
        notes: Vec::new(),
        trees: RwLock::new(Some(trees)),
        writer: Mutex::new(Some(writer.map_err(io_error(dir, "the writer could not be started"))?)),
    })
}

pub(super) fn refuse_blobs(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join("blobs");
    let count = blob_files(dir).map_err(io_error(&path, "the directory could not be read"))?.len();
    if count == 0 { Ok(()) } else { Err(OpenError::BlobsPresent { path, count }) }
}

pub(super) fn open_database(dir: &Path, options: SledOptions) -> Result<Db, OpenError> {
    let config = ::sled::Config::new()
        .path(dir)
        .mode(Mode::HighThroughput)
        .segment_size(SEGMENT_BYTES)
        .flush_every_ms(None)
        .cache_capacity(options.cache_bytes);
    // sled panics at some kinds of damage; nothing of ours has begun yet that could be left half done.
    match catch_unwind(AssertUnwindSafe(|| config.open())) {
        Ok(Ok(db)) => Ok(db),
        Ok(Err(error)) => Err(sled_error(dir, &error)),
        Err(_) => Err(damaged(dir, "the database gave up while opening it")),
    }
}

/// sled tells that somebody else has the lock by this text only; the exact version is pinned and a test watches it.
const LOCKED: &str = "could not acquire lock";

pub(super) fn sled_error(dir: &Path, error: &::sled::Error) -> OpenError {
    match error {
        ::sled::Error::Io(source) if source.to_string().contains(LOCKED) => {
            OpenError::Held { path: dir.to_owned(), holder: Holder::read(dir) }
        }
        ::sled::Error::Io(source) => OpenError::Io {
            path: dir.to_owned(),
            what: "the database could not be opened",
            source: std::io::Error::new(source.kind(), source.to_string()),
        },
        ::sled::Error::Corruption { .. } => {
            damaged(dir, "the database under the log has a page whose checksum is wrong")
        }
        other => damaged(dir, format!("the database under the log says: {other}")),
    }
}

pub(super) fn damaged(dir: &Path, what: impl Into<String>) -> OpenError {
    OpenError::Corrupt { path: dir.to_owned(), what: what.into() }
}

pub(super) fn head_error(dir: &Path, why: String) -> OpenError {
    io_error(&dir.join(HEAD_FILE), "it could not be written")(std::io::Error::other(why))
}

fn scan_error(dir: &Path, error: ScanError) -> OpenError {
    match error {
        ScanError::Damaged(what) => damaged(dir, what),
        ScanError::EndsBefore { head, log } => OpenError::EndsBeforeHead { path: dir.to_owned(), head, log },
    }
}

fn scan(
    dir: &Path,
    log: &Tree,
    (kept, next_run): (Option<Kept>, u64),
    head: Option<Head>,
) -> Result<Scan, OpenError> {
    let read = AssertUnwindSafe(|| {
        let from = kept.as_ref().map_or(0, |kept| kept.mark.values);
        let mut scan = Scan::behind(kept, next_run, head).map_err(|error| scan_error(dir, error))?;
        if scan.head_is_older() {
            tracing::warn!(dir = %dir.display(), "HEAD is older than the index: it was put back from a copy");
        }
        // At the first error it ends: sled's iterator would repeat it for ever.
        for item in log.range(value_key(from)..) {
            let (key, bytes) = item.map_err(|error| sled_error(dir, &error))?;
            scan.take(&key, &bytes).map_err(|error| scan_error(dir, error))?;
        }
        Ok(scan)
    });
    catch_unwind(read).unwrap_or_else(|_| Err(damaged(dir, "the database gave up while it was read")))
}

/// Where the chunks end.
struct ChunkTail {
    /// Those that belong to no record: their append was never durable. What comes next takes the first one's place.
    leftover: std::ops::Range<u64>,
    last_spaced: Option<u64>,
}

/// Looks at the chunks from their end to the first one whose record is in the log.
fn chunk_tail(dir: &Path, chunks: &Tree, head: Position) -> Result<ChunkTail, OpenError> {
    let read = AssertUnwindSafe(|| {
        let mut tail = ChunkTail { leftover: 0..0, last_spaced: None };
        let mut end = None;
        for item in chunks.iter().rev() {
            let (key, value) = item.map_err(|error| sled_error(dir, &error))?;
            match keys::parse(&key) {
                Some(Key::Spacer(ordinal)) if value.is_empty() => {
                    tail.last_spaced = tail.last_spaced.or(Some(ordinal));
                }
                Some(Key::Value(ordinal)) => {
                    let chunk = Chunk::open(&value)
                        .map_err(|what| damaged(dir, format!("chunk {ordinal}: {what}")))?;
                    let end = *end.get_or_insert(ordinal.saturating_add(1));
                    if chunk.position <= head {
                        tail.leftover = ordinal.saturating_add(1)..end;
                        return Ok(tail);
                    }
                }
                _ => return Err(damaged(dir, format!("the chunks hold a key that is none: {key:02x?}"))),
            }
        }
        tail.leftover = 0..end.unwrap_or_default();
        Ok(tail)
    });
    catch_unwind(read)
        .unwrap_or_else(|_| Err(damaged(dir, "the database gave up while its chunks were read")))
}

/// Raises the epoch, and writes or compares what else the tree `meta` says of the log. Durable with the next flush.
fn raise_epoch(dir: &Path, meta: &Tree, durability: Durability, empty: bool) -> Result<u64, OpenError> {
    let get = |key: &str| meta.get(key).map_err(|error| sled_error(dir, &error));
    let set = |key: &str, value: &[u8]| meta.insert(key, value).map_err(|error| sled_error(dir, &error));
    let format = FORMAT.to_be_bytes();
    // A first opening that a power failure cut short may have left one without the other. Nothing was acknowledged then.
    for (key, value) in [("format", &format[..]), ("durability", durability.name().as_bytes())] {
        match get(key)? {
            Some(known) if *known == *value => {}
            None if empty => set(key, value).map(drop)?,
            _ => return Err(damaged(dir, "taskreel.format and the database disagree on what it is")),
        }
    }
    let before = match get("epoch")? {
        None if empty => 0,
        Some(epoch) if epoch.len() == 8 => {
            epoch.iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte))
        }
        _ => return Err(damaged(dir, "its epoch is missing")),
    };
    let epoch = before.checked_add(1).ok_or_else(|| damaged(dir, "its epoch is the last there is"))?;
    set("epoch", &epoch.to_be_bytes())?;
    Ok(epoch)
}
