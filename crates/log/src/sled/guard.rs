//! The checks made before sled opens its files. sled ends its log at the first incomplete message, clears
//! what follows, and reports nothing. So we first read what it would read. A log torn by a crash is opened,
//! with the part that is cut off set aside; a damaged log is refused before anything in it is changed.
//!
//! The values after the tear distinguish the two: a value that begins a group proves that all before it was
//! durable when it was written, and so does `HEAD`.
//!
//! sled also ends its log at the first read that fails. So all that it would read is read here, where an error
//! refuses the log, and is handed to sled as a snapshot. Only the last segment is left for it to read, and that
//! one is kept aside meanwhile.

pub(crate) mod aside;
pub(crate) mod cache;
pub(crate) mod direct;
pub(crate) mod disk;
pub(crate) mod fit;
pub(crate) mod lock;
pub(crate) mod node;
pub(crate) mod pages;
pub(crate) mod rewrite;
pub(crate) mod segment;
pub(crate) mod tear;
pub(crate) mod tip;
pub(crate) mod walk;

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::api::durability::Durability;
use crate::api::error::OpenError;
use crate::api::holder::Holder;
use crate::api::note::OpenNote;
use crate::engine::head::Head;
use crate::sled::dir::{DATA_FILE, io_error};
use crate::sled::guard::lock::lock;
use crate::sled::guard::pages::PageTable;
use crate::sled::guard::tip::Tip;
use crate::sled::guard::walk::SegmentWalk;
use crate::sled::options::Purpose;

/// The result of the guard's checks.
#[derive(Debug)]
pub(crate) struct GuardReport {
    /// Notes for the caller that opens the log.
    pub(crate) notes: Vec<OpenNote>,
    /// Whether nothing was set aside, so that caches of the log may be used.
    pub(crate) trusted: bool,
    /// The end of the log as sled must leave it.
    pub(crate) tip: Option<Tip>,
    /// The pages of the database at the end of the log.
    pub(crate) table: Option<PageTable>,
}

/// The time for which a lock of others is waited for (50 ms): a program that closes its log, or looks whether anybody has it, has it
/// for a moment, and after a crash the file `holder` still names the program that has ended.
const PROBED_WITHIN: Duration = Duration::from_millis(50);

/// The database's file, locked: nobody else opens the log.
#[derive(Debug)]
pub(crate) struct LockedFile(File);

impl LockedFile {
    /// Locks the file, if there is one.
    ///
    /// # Errors
    /// [`OpenError::Held`] if another process has it. sled is not asked then: by the time it looked, the lock could be free, and
    /// it would open files that nobody has checked.
    pub(crate) fn open(dir: &Path) -> Result<Option<Self>, OpenError> {
        let path = dir.join(DATA_FILE);
        let db = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(db) => db,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                cache::remove_incomplete_conf(dir)?;
                return Ok(None);
            }
            Err(error) => return Err(io_error(&path, "the database file could not be opened")(error)),
        };
        if within_a_moment(|| lock(&db, &path))? {
            Ok(Some(Self(db)))
        } else {
            Err(OpenError::Held { path: dir.to_owned(), holder: Holder::read(dir) })
        }
    }
}

/// Tries to lock until that succeeds, for [`PROBED_WITHIN`]. Returns whether it did.
fn within_a_moment(mut lock: impl FnMut() -> Result<bool, OpenError>) -> Result<bool, OpenError> {
    let since = Instant::now();
    while !lock()? {
        if since.elapsed() >= PROBED_WITHIN {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(true)
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Explicitly, since a process that is being started at this moment may hold a copy of the descriptor.
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the database file could not be unlocked");
        }
    }
}

/// Checks the files in `dir` before sled does, and prepares them so that sled loses no durable data. The lock is given up then.
///
/// # Errors
/// [`OpenError::Corrupt`] if durable data is damaged; nothing was changed then.
pub(crate) fn check_files(
    locked: Option<LockedFile>,
    (dir, purpose): (&Path, Purpose),
    head: Option<&Head>,
    durability: Durability,
) -> Result<GuardReport, OpenError> {
    let mut guarded = GuardReport { notes: Vec::new(), trusted: true, tip: None, table: None };
    let Some(locked) = locked else { return Ok(guarded) };
    check_locked((dir, purpose), &locked.0, head, durability, &mut guarded)?;
    guarded.trusted = guarded.notes.is_empty();
    Ok(guarded)
}

fn check_locked(
    (dir, purpose): (&Path, Purpose),
    db: &File,
    head: Option<&Head>,
    durability: Durability,
    guarded: &mut GuardReport,
) -> Result<(), OpenError> {
    let path = dir.join(DATA_FILE);
    let unreadable = "it could not be read";
    tip::put_back(dir, db).map_err(io_error(&path, "the end of the log could not be put back"))?;
    let mut table = cache::check(dir, db, &mut guarded.notes)?;
    let from = table.stable.unwrap_or(0);
    let mut walk = SegmentWalk::from(db, from).map_err(io_error(&path, unreadable))?;
    if let Some((one, other)) = walk.doubled {
        let what = format!(
            "the segments of `db` at byte {one} and at byte {other} are the same part of the log: one is a copy of the other, or of an older file"
        );
        return Err(OpenError::Corrupt { path, what });
    }
    let torn = tear::find(db, (&walk, from), head, durability).map_err(io_error(&path, unreadable))?;
    if let Some(tear) = torn {
        tear::mend(dir, db, &tear, &mut guarded.notes)?;
        walk = SegmentWalk::from(db, from).map_err(io_error(&path, unreadable))?.without_headless();
    }
    if let Some(page) = walk.impossible_page(db).map_err(io_error(&path, unreadable))? {
        let what = format!("a message names page {page}, which no database of this size has");
        return Err(OpenError::Corrupt { path, what });
    }
    let failed = "the page table of the database could not be written";
    if purpose == Purpose::Look {
        // sled then reads nothing of the log, and writes nothing where its end is.
        walk.add_to(&mut table);
        table.end_segment();
        if table.stable.is_some_and(|stable| stable != from) {
            table.replace_snapshot_unsynced(dir).map_err(io_error(dir, failed))?;
        }
        guarded.table = Some(table);
        return Ok(());
    }
    let unwritten =
        "the end of the log could not be written again, which is needed before anything is said of it";
    rewrite::rewrite((&path, db), &walk, head, from).map_err(io_error(&path, unwritten))?;
    walk.add_to(&mut table);
    if table.stable.is_some_and(|stable| stable != from) {
        table.replace_snapshot(dir).map_err(io_error(dir, failed))?;
    }
    if let Some(last) = walk.segments.last().filter(|last| Some(last.offset) == table.active) {
        let end = usize::try_from(table.stable.unwrap_or(0) - last.lsn).unwrap_or(0);
        let kept = Tip::copy_aside(dir, db, (last.offset, last.lsn), end);
        guarded.tip = Some(kept.map_err(io_error(dir, "the end of the log could not be kept aside"))?);
    }
    guarded.table = Some(table);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::store::EventStore as _;
    use crate::sled::{ReadOnlyLog, ReadOnlyOptions, SledStore};

    #[test]
    fn a_log_whose_lock_another_has_is_refused_before_sled_is_asked_even_if_nobody_is_named() {
        let folder = tempfile::tempdir().unwrap();
        SledStore::open(folder.path()).unwrap().close().unwrap();
        let other = File::open(folder.path().join(DATA_FILE)).unwrap();
        other.lock().unwrap();
        let refused = LockedFile::open(folder.path());
        assert!(matches!(refused, Err(OpenError::Held { holder: None, .. })), "{refused:?}");
        other.unlock().unwrap();
        let locked = LockedFile::open(folder.path()).unwrap();
        assert!(locked.is_some());
        assert!(matches!(LockedFile::open(folder.path()), Err(OpenError::Held { .. })));
        drop(locked);
        SledStore::open(folder.path()).unwrap().close().unwrap();
    }

    #[test]
    fn a_lock_that_somebody_has_for_a_moment_is_waited_for_and_no_other() {
        // A thread may be kept from running for longer than the lock is waited for.
        let is_locked = (0..20).any(|_| {
            let mut tries = 0;
            let third = || {
                tries += 1;
                Ok(tries == 3)
            };
            within_a_moment(third).unwrap()
        });
        assert!(is_locked);
        assert!(!within_a_moment(|| Ok(false)).unwrap());
    }

    /// Adds a message of sled's to the end of a closed log, which gives up this page.
    fn with_message_of(dir: &Path, page: u64) {
        use std::os::unix::fs::FileExt as _;

        use crate::sled::guard::segment::{SEGMENT_LSN, put_varint};

        let db = File::options().read(true).write(true).open(dir.join(DATA_FILE)).unwrap();
        let walk = SegmentWalk::from(&db, 0).unwrap();
        let (segment, end) = walk.segments.last().zip(walk.ends.last()).unwrap();
        let mut rest = vec![4];
        for number in [0, segment.lsn / SEGMENT_LSN, page] {
            put_varint(&mut rest, number);
        }
        let mut message = (!crc32fast::hash(&rest)).to_le_bytes().to_vec();
        message.extend(rest);
        db.write_all_at(&message, segment.offset + end.at as u64).unwrap();
    }

    #[test]
    fn a_page_number_that_no_database_of_this_size_has_is_damage_and_the_log_stays_as_it_is() {
        for page in [1 << 24, 1 << 40, u64::MAX] {
            let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            SledStore::open(folder.path()).unwrap().close().unwrap();
            with_message_of(folder.path(), page);
            let before = std::fs::read(folder.path().join(DATA_FILE)).unwrap();
            for opened in [
                SledStore::open(folder.path()).map(|_| ()),
                ReadOnlyLog::open_with(folder.path(), &ReadOnlyOptions::default().scratch(scratch.path()))
                    .map(|_| ()),
            ] {
                let refused = opened.err().unwrap();
                assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
                assert!(refused.to_string().contains(&format!("names page {page}")), "{refused}");
            }
            assert!(std::fs::read(folder.path().join(DATA_FILE)).unwrap() == before);
        }
    }
}
