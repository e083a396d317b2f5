//! Opening a log: refusals, checks, and what is made durable before the first append.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use ::sled::{Db, Tree};
use tokio::sync::mpsc;

use crate::api::durability::Durability;
use crate::api::error::OpenError;
use crate::api::holder::Holder;
use crate::api::note::OpenNote;
use crate::api::record::Fence;
use crate::engine::head::{HEAD_FILE, Head};
use crate::engine::index::stream_listing::StreamListing;
use crate::engine::index::walk::StreamSlots;
use crate::engine::keys::{Key, value_key};
use crate::engine::spacer::Spacer;
use crate::engine::writer::LogWriter;
use crate::engine::writer::shared::Shared;
use crate::engine::writer::sink::{Sink as _, WriterTail};
use crate::engine::{files, halt, keys, located_records};
use crate::limits::WRITER_QUEUE_APPENDS;
use crate::sled::chunk_tail::chunk_tail;
use crate::sled::database::{PARTITION, damaged, head_error, open_for, panicked, refuse_blobs, sled_error};
use crate::sled::dir::{DATA_FILE, LogHeader, OpenLock, io_error};
use crate::sled::epoch::raise_epoch;
use crate::sled::fence::{FencedHandle, apart, fenced};
use crate::sled::fetch::{ByTwoWays, FetchError, FetchScope, for_each_entry};
use crate::sled::guard::{GuardReport, LockedFile, tip};
use crate::sled::index::{BLOCKS_TREE, ImageAhead, KeptIndex};
use crate::sled::newest::Newest;
use crate::sled::options::{Purpose, SledOptions};
use crate::sled::scan::{Scan, ScanError};
use crate::sled::sink::{SledSink, Trees, sync_all};
use crate::sled::snapshots::Snapshots;
use crate::sled::store::SledStore;
use crate::sled::straight::{Original, Straight};
use crate::sled::{dir, guard, index};

impl SledStore {
    /// Names this process as the one that has the log open; a private copy has no other.
    fn record_holder(&self, purpose: Purpose) -> std::io::Result<()> {
        if purpose == Purpose::Look { Ok(()) } else { self.holder.write(&self.dir) }
    }

    /// Opens the log in `dir`, or creates one.
    ///
    /// # Errors
    /// [`OpenError`], see [`SledStore::open_with`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(dir, SledOptions::default())
    }

    /// Opens the log in `dir`. The part after the kept index is read, or the whole log if no index is kept:
    /// checksums, positions, versions and the chain of each stream are checked. An append whose last values
    /// are missing at the log's end was never durable and is removed.
    ///
    /// # Errors
    /// [`OpenError`]: a directory without a log of a known format is refused and left untouched; so is a log
    /// that another store holds, that is damaged, or that ends before its `HEAD`.
    pub fn open_with(dir: impl AsRef<Path>, options: SledOptions) -> Result<Self, OpenError> {
        open((dir.as_ref(), Purpose::Use), options, None)
    }

    /// Opens a private copy of a log, perhaps one that has only a part of an `original`. Nothing that this does to it survives
    /// a loss of power, and closing it removes it.
    ///
    /// # Errors
    /// As [`SledStore::open_with`].
    pub(crate) fn open_copy(
        copy: &Path,
        options: SledOptions,
        original: Option<Original>,
    ) -> Result<Self, OpenError> {
        open((copy, Purpose::Look), options, original)
    }
}

/// Opens or creates the log in `dir`.
fn open(
    (dir, purpose): (&Path, Purpose),
    options: SledOptions,
    original: Option<Original>,
) -> Result<SledStore, OpenError> {
    // sled too looks for its files later.
    let dir = &*files::absolute(dir);
    let header = dir::claim(dir, options)?;
    let _opening = OpenLock::open(dir);
    // From here on the log's own durability. If the log is gone, no new one is created in its place.
    let options = SledOptions { durability: Some(header.durability), create: false, ..options };
    dir::make_blobs(dir)?;
    refuse_blobs(dir)?;
    let locked = LockedFile::open(dir)?;
    // Behind the lock: a program that was just closing the log has written both for the last time.
    let (head, before) = (read_head(dir)?, Holder::read(dir));
    let proven = head.as_ref().map(|head| head.position);
    let image = (!options.rebuild_index).then(|| ImageAhead::start(dir, header.id));
    let mut guarded = guard::check_files(locked, (dir, purpose), head.as_ref(), header.durability)?;
    halt::pass("guarded");
    // On a thread that ends: what sled gives back later waits in a list of the thread, such as the first buffer of 4 MiB, which
    // a thread that lives on and never writes would keep for good.
    let opened = apart(|| {
        let db = open_for((dir, purpose), options)?;
        // Dropped last, wherever the opening ends.
        let _last = FencedHandle::new(db.clone());
        halt::pass("opened by sled");
        tip::check(dir, guarded.tip.as_ref())?;
        start((dir, purpose), (header, options), (head, image, original), db, &mut guarded)
    });
    let opened = opened.unwrap_or_else(|why| Err(panicked(dir, why)));
    // Written when this thread has no handle of the database any more: a store that is closed again waits for all.
    let opened = opened.and_then(|store| match store.record_holder(purpose) {
        Ok(()) => Ok(store.with_notes(guarded.notes, before, proven)),
        Err(error) => Err(io_error(dir, "the file `holder` could not be written")(error)),
    });
    if opened.as_ref().is_err_and(|error| !matches!(error, OpenError::Held { .. })) {
        // The directory is free as soon as the error is returned; a second error is less important than the
        // first.
        let _ = dir::await_release(dir, || false);
        if purpose == Purpose::Use {
            tip::recover(dir);
        }
    }
    opened
}

/// Reads the file `HEAD`. A disk that cannot read it is not damage.
fn read_head(dir: &Path) -> Result<Option<Head>, OpenError> {
    match files::read(dir, HEAD_FILE) {
        Err(error) if error.kind() != ErrorKind::InvalidData => {
            Err(io_error(&dir.join(HEAD_FILE), "it could not be read")(error))
        }
        _ => Head::read(dir).map_err(|what| damaged(dir, format!("{HEAD_FILE}: {what}"))),
    }
}

fn start(
    (dir, purpose): (&Path, Purpose),
    (header, options): (LogHeader, SledOptions),
    (head, image, original): (Option<Head>, Option<ImageAhead>, Option<Original>),
    db: Db,
    guarded: &mut GuardReport,
) -> Result<SledStore, OpenError> {
    halt::pass("database open");
    let tree = |name: &str| db.open_tree(name).map_err(|error| sled_error(dir, &error));
    let (log, chunks, blocks, meta) = (tree("log")?, tree("chunks")?, tree(BLOCKS_TREE)?, tree("meta")?);
    let (elsewhere, whole) = original.map(|original| (original.straight, original.whole)).unzip();
    let straight = elsewhere.or_else(|| Straight::of(dir, guarded.table.take()?));
    let kept = kept_index((dir, image), (&meta, &blocks, (&log, straight.as_ref())), head.as_ref(), guarded)?;
    let next_block = index::next_block(&blocks).map_err(|error| sled_error(dir, &error))?;
    let values = (&log, straight.as_ref());
    let (mut scan, leftover) = scan_or_rebuild(dir, (values, &meta), (kept, next_block), head, guarded)?;
    let straight = straight.map(|straight| straight.before(leftover.start));
    tip::forget(dir).map_err(io_error(dir, "the copy of the log's end could not be removed"))?;
    let epoch = raise_epoch((dir, &meta), header, &scan, &mut guarded.notes)?;
    // From its end back: a process that dies here leaves an append without its last values, as it was found.
    for ordinal in leftover.rev() {
        log.remove(value_key(ordinal)).map_err(|error| sled_error(dir, &error))?;
    }
    halt::pass("epoch raised");
    let tail = chunk_tail(dir, &chunks, scan.index.head())?;
    for ordinal in tail.leftover {
        chunks.remove(value_key(ordinal)).map_err(|error| sled_error(dir, &error))?;
    }
    let path = dir.join(DATA_FILE);
    let data = OpenOptions::new().write(true).open(&path);
    let mut sink = SledSink {
        log: log.clone(),
        spacer: Spacer::after(scan.last_spaced),
        newest: Newest::default(),
        chunks: chunks.clone(),
        chunk_spacer: Spacer::after(tail.last_spaced),
        newest_chunks: Newest::default(),
        block_spacer: Spacer::after(last_spaced(&blocks).map_err(|error| sled_error(dir, &error))?),
        blocks,
        meta,
        durability: if purpose == Purpose::Look { Durability::Os } else { header.durability },
        log_id: header.id,
        data: data.map_err(io_error(&path, "the database file could not be opened"))?,
        sync_failed: None,
        snapshots: Snapshots::new(dir, options.snapshot_every_bytes),
        dir: dir.to_owned(),
        db,
    };
    save((dir, purpose), &mut sink, &mut scan)?;
    halt::pass("head written");
    let fence = Fence { partition: PARTITION, epoch };
    let tail = WriterTail { frontier: scan.frontier, next_chunk: tail.next, blocks: scan.blocks };
    let (newest, newest_chunks) = (sink.newest.clone(), sink.newest_chunks.clone());
    let disk_was_asked = AtomicBool::new(false);
    let trees = Trees {
        log,
        chunks,
        blocks: sink.blocks.clone(),
        newest,
        newest_chunks,
        disk_was_asked,
        straight,
        whole,
    };
    // A reopening trusts the index that was just built.
    let options = SledOptions { rebuild_index: false, ..options };
    spawn((dir, header, options), trees, sink, Shared::new(fence, scan.index), tail)
}

/// Writes what the opening has changed: the epoch and the parts of the index that the scan has built. A log that is used has
/// it on the disk then, and `HEAD` after it.
fn save((dir, purpose): (&Path, Purpose), sink: &mut SledSink, scan: &mut Scan) -> Result<(), OpenError> {
    save_blocks(sink, scan).map_err(|why| damaged(dir, why))?;
    let sync = |sink: &SledSink| match purpose {
        Purpose::Use => sync_all(sink),
        Purpose::Look => sink.db.flush().map(drop).map_err(std::io::Error::other),
    };
    sync(sink).map_err(io_error(dir, "the new epoch could not be made durable"))?;
    halt::pass("epoch synced");
    refuse_blobs(dir)?;
    if purpose == Purpose::Use {
        let head = Head { position: scan.index.head(), frontier: scan.frontier.clone() };
        sink.write_head(&head).map_err(|why| head_error(dir, why))?;
    }
    if let Some(mark) = scan.blocks.take_mark() {
        sink.put_watermark(&mark).map_err(|why| damaged(dir, why))?;
        // Data that the database has not written when it is closed looks like a tear at the next opening.
        sync(sink).map_err(io_error(dir, "the index could not be made durable"))?;
    }
    Ok(())
}

/// Returns the kept index, unless it cannot be used, or there is no `image` because it is to be rebuilt.
fn kept_index(
    (dir, image): (&Path, Option<ImageAhead>),
    (meta, blocks, log): (&Tree, &Tree, ByTwoWays<'_>),
    head: Option<&Head>,
    guarded: &mut GuardReport,
) -> Result<Option<KeptIndex>, OpenError> {
    let Some(image) = image else {
        index::forget(meta).map_err(|error| sled_error(dir, &error))?;
        guarded.notes.push(OpenNote::IndexRebuilt { why: index::REQUESTED.to_owned() });
        return Ok(None);
    };
    let kept = load_index((dir, image), meta, blocks, log, guarded)?;
    let Some(note) = older_head(kept.as_ref(), head) else { return Ok(kept) };
    // Only all of the log shows whether it is a copy of this log's, or that of another log.
    guarded.notes.push(note);
    Ok(None)
}

/// Loads the kept index, unless it is missing or does not match the log.
fn load_index(
    (dir, image): (&Path, ImageAhead),
    meta: &Tree,
    blocks: &Tree,
    log: ByTwoWays<'_>,
    guarded: &mut GuardReport,
) -> Result<Option<KeptIndex>, OpenError> {
    if !guarded.trusted {
        // The whole log is then scanned, its chains included.
        return index::forget(meta).map(|()| None).map_err(|error| sled_error(dir, &error));
    }
    match fenced(|| index::load(image, meta, blocks, log)).and_then(|loaded| loaded) {
        Ok(Some(kept)) => Ok(Some(kept)),
        // Blocks without a watermark were left by a process that died before it wrote its first.
        Ok(None) => Ok(None),
        // Of a part of the log nothing is said: all of it will show whether its index is damaged.
        Err(why) if log.1.is_some_and(|straight| straight.is_needed) => Err(damaged(dir, why)),
        Err(why) => {
            tracing::warn!(dir = %dir.display(), why, "the index is rebuilt from the log");
            guarded.notes.push(OpenNote::IndexRebuilt { why });
            index::forget(meta).map_err(|error| sled_error(dir, &error))?;
            Ok(None)
        }
    }
}

/// Returns a note if `HEAD` is from before the end of the kept index. The index is never written before `HEAD`, so
/// such a file was put there later.
fn older_head(kept: Option<&KeptIndex>, head: Option<&Head>) -> Option<OpenNote> {
    let (kept, head) = (&kept?.mark.head, head?);
    let is_older = head.frontier.size() < kept.frontier.size();
    is_older.then_some(OpenNote::HeadOlder { head: head.position, index: kept.position })
}

/// Hands over the sorted blocks of the index that the scan has built.
fn save_blocks(sink: &mut SledSink, scan: &mut Scan) -> Result<(), String> {
    let finished = scan.blocks.take_finished();
    finished.iter().try_for_each(|(ordinal, block)| sink.put_block(*ordinal, block))
}

/// Returns the highest ordinal of a tree that has spacers: its last key is always a spacer.
fn last_spaced(tree: &Tree) -> Result<Option<u64>, ::sled::Error> {
    let last = tree.last()?.and_then(|(key, _)| keys::parse(&key));
    Ok(last.map(|key| match key {
        Key::Value(ordinal) | Key::Spacer(ordinal) => ordinal,
    }))
}

fn spawn(
    (dir, header, options): (&Path, LogHeader, SledOptions),
    trees: Trees,
    sink: SledSink,
    shared: Shared,
    tail: WriterTail,
) -> Result<SledStore, OpenError> {
    let shared = Arc::new(shared);
    let (queue, jobs) = mpsc::channel(WRITER_QUEUE_APPENDS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(io_error(dir, "the runtime of the writer could not be created"))?;
    let writer_shared = Arc::clone(&shared);
    let work = move || {
        fenced(|| runtime.block_on(LogWriter::new(sink, writer_shared, tail).run(jobs)))
            .and_then(|ended| ended)
    };
    let writer = std::thread::Builder::new().name("store-writer".to_owned()).spawn(work);
    Ok(SledStore {
        dir: dir.to_owned(),
        header,
        holder: Holder::this(),
        options,
        shared,
        slots: StreamSlots::default(),
        listing: StreamListing::default(),
        queue,
        notes: Vec::new(),
        trees: RwLock::new(Some(FencedHandle::new(trees))),
        writer: Mutex::new(Some(writer.map_err(io_error(dir, "the writer thread could not be started"))?)),
        held: Arc::new(RwLock::new(true)),
        known: OnceLock::new(),
    })
}

fn scan_error(dir: &Path, error: ScanError) -> OpenError {
    match error {
        ScanError::Damaged(what) => damaged(dir, what),
        ScanError::Newer(what) => OpenError::Newer { path: dir.to_owned(), what },
        ScanError::EndsBefore { head, log } => OpenError::EndsBeforeHead { path: dir.to_owned(), head, log },
    }
}

/// Scans the log, all of it where the kept index contradicts it: the whole log shows which of the two is wrong.
fn scan_or_rebuild(
    dir: &Path,
    (log, meta): (ByTwoWays<'_>, &Tree),
    (kept, next_block): (Option<KeptIndex>, u64),
    head: Option<Head>,
    guarded: &mut GuardReport,
) -> Result<(Scan, std::ops::Range<u64>), OpenError> {
    let has_kept = kept.is_some();
    match scan(dir, log, (kept, next_block), head.clone()) {
        Err(OpenError::Corrupt { what, .. }) if has_kept => {
            index::forget(meta).map_err(|error| sled_error(dir, &error))?;
            let scanned = scan(dir, log, (None, next_block), head)?;
            guarded.notes.push(OpenNote::IndexRebuilt { why: what });
            Ok(scanned)
        }
        scanned => scanned,
    }
}

fn scan(
    dir: &Path,
    (log, straight): ByTwoWays<'_>,
    (kept, next_block): (Option<KeptIndex>, u64),
    head: Option<Head>,
) -> Result<(Scan, std::ops::Range<u64>), OpenError> {
    let read = || {
        let covered = head.as_ref().map_or(0, |head| head.frontier.size());
        let pass = kept
            .as_ref()
            .map_or(FetchScope::Whole { head: covered }, |kept| FetchScope::From(kept.mark.values));
        let mut scan = Scan::after(kept, next_block, head).map_err(|error| scan_error(dir, error))?;
        let after = |scan: &Scan, error| after_last_sound(log, scan, error);
        for_each_entry((log, straight), pass, &mut |fetched| {
            let entry = match fetched {
                Ok(entry) => entry,
                Err(FetchError::Database(error)) => return Err(after(&scan, sled_error(dir, &error))),
                Err(FetchError::Panicked(why)) => return Err(panicked(dir, why)),
            };
            scan.accept_entry(entry).map_err(|error| after(&scan, scan_error(dir, error)))
        })?;
        let leftover = scan.finish().map_err(|error| scan_error(dir, error))?;
        Ok((scan, leftover))
    };
    fenced(read).unwrap_or_else(|why| Err(panicked(dir, why)))
}

/// Adds to an error about damage the last record that was read before it.
fn after_last_sound(log: &Tree, scan: &Scan, error: OpenError) -> OpenError {
    let OpenError::Corrupt { path, mut what } = error else { return error };
    let last = scan.index.last().and_then(|(ordinal, _)| log.get(value_key(ordinal)).ok()?);
    if let Some(sound) = last.and_then(|value| located_records::last_record_in(&value)) {
        what = format!("{what}; {sound}");
    }
    OpenError::Corrupt { path, what }
}
