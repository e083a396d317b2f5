//! Snapshots of sled's page table while the log is open. sled makes one only when it opens, and reads all that
//! was written since the last one: without others a start would read all that the life before it wrote.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::{fs, io};

use crate::engine::halt;
use crate::limits::SNAPSHOT_SHARE;
use crate::sled::dir::DATA_FILE;
use crate::sled::guard::pages::{PageTable, SNAPSHOT, UNFINISHED, snapshot_names};
use crate::sled::guard::walk::SegmentWalk;

/// The snapshots of one open log. Each is made on a thread of its own, off the writer's path.
#[derive(Debug)]
pub(crate) struct Snapshots {
    dir: PathBuf,
    every_bytes: u64,
    /// Bytes that were handed over since the last snapshot was begun, and from how many on the next one is.
    written: u64,
    due: u64,
    running: Option<JoinHandle<io::Result<u64>>>,
}

impl Snapshots {
    pub(crate) fn new(dir: &Path, every_bytes: u64) -> Self {
        let every_bytes = every_bytes.max(1);
        Self { dir: dir.to_owned(), every_bytes, written: 0, due: every_bytes, running: None }
    }

    /// Counts bytes that were handed to the database.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }

    /// Begins a snapshot if one is due. All that was counted is written, and was synced if the log is strict.
    pub(crate) fn begin_if_due(&mut self) {
        if self.written < self.due || self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        self.wait_finished();
        self.written = 0;
        let dir = self.dir.clone();
        // Opened here, after a sync: it is told of every write that fails from now on.
        let db = OpenOptions::new().read(true).write(true).open(dir.join(DATA_FILE));
        let work = move || advance(&dir, &db?);
        let started = std::thread::Builder::new().name("store-snapshot".to_owned()).spawn(work);
        match started {
            Ok(running) => self.running = Some(running),
            Err(error) => {
                tracing::warn!(%error, "no snapshot of the database is made; the next start reads more");
            }
        }
    }

    /// Waits for the snapshot that is being made. A large one makes the next one due later.
    fn wait_finished(&mut self) {
        match self.running.take().map(JoinHandle::join) {
            Some(Ok(Ok(bytes))) => self.due = self.every_bytes.max(bytes.saturating_mul(SNAPSHOT_SHARE)),
            Some(Ok(Err(error))) => {
                tracing::warn!(%error, "a snapshot of the database failed; the next start reads more");
            }
            Some(Err(_)) => tracing::warn!("a snapshot of the database panicked; the next start reads more"),
            None => {}
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.wait_finished();
    }
}

/// Replaces the newest snapshot by one that goes up to the end of the last filled segment. Returns its size.
fn advance(dir: &Path, db: &File) -> io::Result<u64> {
    let mut table = newest(dir)?;
    let before = table.stable;
    let walk = SegmentWalk::from(db, before.unwrap_or(0))?.filled();
    if let Some(page) = walk.impossible_page(db)? {
        return Err(io::Error::other(format!("a message names page {page}")));
    }
    walk.add_to(&mut table);
    // What a snapshot covers is never read again by an opening, so it must be on the disk.
    db.sync_all()?;
    if table.stable == before {
        return Ok(0);
    }
    halt::pass("snapshot read");
    table.replace_snapshot(dir)?;
    halt::pass("snapshot replaced");
    let name = format!("{SNAPSHOT}{:016X}", table.stable.unwrap_or(0));
    Ok(fs::metadata(dir.join(name))?.len())
}

/// Reads the newest snapshot, if there is one.
fn newest(dir: &Path) -> io::Result<PageTable> {
    let names = snapshot_names(dir)?;
    let Some(name) = names.iter().rev().find(|name| !name.ends_with(UNFINISHED)) else {
        return Ok(PageTable::default());
    };
    let unreadable = || io::Error::other(format!("{name} is damaged"));
    PageTable::parse(&fs::read(dir.join(name))?).ok_or_else(unreadable)
}
