//! A private copy of a log's files, for readers: opening a log changes its files, and a reader must leave no trace.
//! The log may be written to meanwhile. `HEAD` is copied first, so that it proves no more than the database that is
//! copied after it; an incomplete end is cut off in the copy when that is opened.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::api::durability::Durability;
use crate::api::error::OpenError;
use crate::engine::head::HEAD_FILE;
use crate::sled::dir::{DATA_FILE, FORMAT_FILE, io_error};
use crate::sled::guard::pages::{SNAPSHOT, UNFINISHED};
use crate::sled::guard::tip::TIP_FILE;
use crate::sled::holder::HOLDER_FILE;
use crate::sled::index::IMAGE_FILE;
use crate::sled::options::ReadOnlyOptions;
use crate::sled::partial_copy::PartialCopy;
use crate::sled::scratch::{ReaderFolder, default_scratch, open_through_link};
use crate::sled::straight::Straight;

/// Files beside the database that are copied, in this order.
const SMALL_FILES: [&str; 6] = [FORMAT_FILE, HEAD_FILE, HOLDER_FILE, "conf", TIP_FILE, IMAGE_FILE];

/// Rounds of copying a log whose snapshots are replaced meanwhile, which a writer does once in many megabytes.
const ROUNDS: usize = 5;

/// Times the size of the log that must be free for a copy: opening it may write as much again.
const ROOM: u64 = 2;

/// Bytes that must be free for a copy of the smallest log: the database extends its file by whole segments.
const ROOM_AT_LEAST: u64 = 16 * 1024 * 1024;

/// The copy of a database's file.
#[derive(Clone, Copy)]
enum CopyExtent {
    /// All of it.
    Whole,
    /// The part that a reader needs who reads values from the log's own file.
    Part(Durability),
}

/// A private copy of a log's files. It is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct PrivateCopy {
    folder: ReaderFolder,
    /// Whether the log changed while it was copied.
    pub(crate) changed: bool,
}

/// A file of the log, as a copy must find it again.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    name: String,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl PrivateCopy {
    /// Copies the log in `dir`.
    ///
    /// # Errors
    /// [`OpenError::NoRoom`] if too little is free; [`OpenError::Io`] if a file cannot be read or written.
    pub(crate) fn copy(dir: &Path, options: &ReadOnlyOptions) -> Result<Self, OpenError> {
        Self::made_again(dir, options, &mut false)
    }

    /// Copies the log in `dir`, perhaps not for the first time: its size is announced unless it `was_announced`.
    ///
    /// # Errors
    /// As [`PrivateCopy::copy`].
    pub(crate) fn made_again(
        dir: &Path,
        options: &ReadOnlyOptions,
        was_announced: &mut bool,
    ) -> Result<Self, OpenError> {
        let mut copy = Self::create_dir(options)?;
        tracing::debug!(dir = %dir.display(), "a private copy of the log is made");
        let mut room = Room { options, asked: false, was_announced };
        for _ in 0..ROUNDS {
            let before = stamps(dir)?;
            copy.fill(dir, (&before, CopyExtent::Whole), &mut room)?;
            let after = stamps(dir)?;
            copy.changed |= before != after;
            if snapshots(&before).eq(snapshots(&after)) {
                break;
            }
        }
        Ok(copy)
    }

    /// Copies the part of a closed log that is needed beside the values that are returned too; `None` if all of it
    /// is to be copied, or can be without time or room.
    ///
    /// # Errors
    /// As [`PrivateCopy::copy`].
    pub(crate) fn of_part(
        dir: &Path,
        durability: Durability,
        options: &ReadOnlyOptions,
    ) -> Result<Option<(Self, Straight)>, OpenError> {
        let copy = Self::create_dir(options)?;
        let mut room = Room { options, asked: false, was_announced: &mut true };
        let before = stamps(dir)?;
        let is_closed = !before.iter().any(|file| [HOLDER_FILE, TIP_FILE].contains(&file.name.as_str()));
        if !is_closed {
            return Ok(None);
        }
        let original = copy.fill(dir, (&before, CopyExtent::Part(durability)), &mut room)?;
        Ok(original.filter(|_| stamps(dir).is_ok_and(|after| after == before)).map(|values| (copy, values)))
    }

    fn create_dir(options: &ReadOnlyOptions) -> Result<Self, OpenError> {
        let scratch = options.scratch.clone().unwrap_or_else(default_scratch);
        Ok(Self { folder: ReaderFolder::create(&scratch)?, changed: false })
    }

    /// Returns the directory of the copy.
    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Removes the file that says which process has the log open: it does have it, so that its end is not a trace of a
    /// crash.
    pub(crate) fn forget_holder(&self) -> Result<(), OpenError> {
        let path = self.dir().join(HOLDER_FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error(&path, "it could not be removed from a private copy")(error))
            }
            _ => Ok(()),
        }
    }

    /// Copies the files. Returns the values of the log's own file, if only a part of it was to be copied and was.
    fn fill(
        &self,
        dir: &Path,
        (files, extent): (&[Stamp], CopyExtent),
        room: &mut Room<'_>,
    ) -> Result<Option<Straight>, OpenError> {
        let to = self.dir();
        match std::fs::remove_dir_all(&to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error(&to, "the private copy could not be begun anew")(error));
            }
            _ => {}
        }
        std::fs::create_dir(&to).map_err(io_error(&to, "the private copy could not be created"))?;
        let small = SMALL_FILES.into_iter().chain(snapshots(files));
        for name in small {
            let path = dir.join(name);
            // A file that was removed meanwhile was replaced by another: the next round has that.
            let Some(mut from) = open(&path)? else { continue };
            let copied = create(&to.join(name)).and_then(|mut to| io::copy(&mut from, &mut to));
            copied.map_err(io_error(&path, "it could not be copied for reading"))?;
        }
        let path = dir.join(DATA_FILE);
        let Some(from) = open(&path)? else { return Ok(None) };
        let data = create(&to.join(DATA_FILE)).map_err(io_error(&to, "a file could not be created"))?;
        if clone(&from, &data) {
            return Ok(None);
        }
        let failed = "it could not be copied for reading";
        let CopyExtent::Part(durability) = extent else {
            room.check(self.folder.path(), files.iter().map(|file| file.bytes).sum())?;
            return copy_data(from, data).map(|()| None).map_err(io_error(&path, failed));
        };
        let Some(part) = PartialCopy::new(&from, &to, durability) else { return Ok(None) };
        room.check(self.folder.path(), part.bytes())?;
        part.write(&from, &data, &to).map_err(io_error(&path, failed))?;
        Ok(Some(part.straight))
    }
}

/// The check that there is room for a copy, made once for each copy.
struct Room<'a> {
    options: &'a ReadOnlyOptions,
    asked: bool,
    was_announced: &'a mut bool,
}

impl Room<'_> {
    fn check(&mut self, scratch: &Path, bytes: u64) -> Result<(), OpenError> {
        if std::mem::replace(&mut self.asked, true) {
            return Ok(());
        }
        let needed = bytes.saturating_mul(ROOM).max(ROOM_AT_LEAST);
        if let Some(free) = free_bytes(scratch).filter(|free| *free < needed) {
            let path = scratch.parent().unwrap_or(scratch).to_owned();
            return Err(OpenError::NoRoom { path, needed, free });
        }
        if let Some(announce) = self.options.announce.as_ref().filter(|_| bytes >= self.options.large)
            && !std::mem::replace(self.was_announced, true)
        {
            announce(bytes);
        }
        Ok(())
    }
}

/// Returns the files that are copied, as they are now, in the order of their names.
fn stamps(dir: &Path) -> Result<Vec<Stamp>, OpenError> {
    let unreadable = "the directory could not be read";
    let mut stamps = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io_error(dir, unreadable))? {
        let entry = entry.map_err(io_error(dir, unreadable))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_snapshot = name.starts_with(SNAPSHOT) && !name.ends_with(UNFINISHED);
        if !(name == DATA_FILE || is_snapshot || SMALL_FILES.contains(&name)) {
            continue;
        }
        // A file may be replaced at any time. A link stands for its file, as in an opening of the log.
        let Ok(found) = std::fs::metadata(entry.path()) else { continue };
        let (bytes, modified) = (found.len(), found.modified().ok());
        stamps.push(Stamp { name: name.to_owned(), bytes, modified });
    }
    stamps.sort_by(|one, next| one.name.cmp(&next.name));
    Ok(stamps)
}

fn snapshots(files: &[Stamp]) -> impl Iterator<Item = &str> {
    files.iter().map(|file| file.name.as_str()).filter(|name| name.starts_with(SNAPSHOT))
}

fn open(path: &Path) -> Result<Option<File>, OpenError> {
    match open_through_link(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(path, "it could not be opened for reading")(error)),
    }
}

/// Creates a file that only its owner can read, whatever the mode of the original is.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Copies the database as long as it was at the beginning: a writer may extend it faster than it is copied.
fn copy_data(from: File, mut to: File) -> io::Result<()> {
    let bytes = from.metadata()?.len();
    io::copy(&mut from.take(bytes), &mut to).map(drop)
}

/// Makes the empty file `to` share the contents of `from`, where the file system can do that.
#[cfg(target_os = "linux")]
fn clone(from: &File, to: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn clone(_: &File, _: &File) -> bool {
    false
}

/// Returns the bytes that this user may still write to a folder's file system, where the system says.
#[cfg(unix)]
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns nothing: the system does not say.
#[cfg(not(unix))]
pub fn free_bytes(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_size_of_a_large_log_is_announced_once_and_that_of_a_small_one_is_not() {
        let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(dir.path().join(DATA_FILE), [7; 5_000]).unwrap();
        std::fs::write(dir.path().join(HEAD_FILE), [7; 100]).unwrap();
        let told = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&told);
        let add = move |bytes| {
            counted.fetch_add(bytes, Ordering::Relaxed);
        };
        let options = ReadOnlyOptions::default().scratch(scratch.path()).announce(add);
        drop(PrivateCopy::copy(dir.path(), &options).unwrap());
        assert_eq!(told.load(Ordering::Relaxed), 0);
        let options = ReadOnlyOptions { large: 5_100, ..options };
        let copy = PrivateCopy::copy(dir.path(), &options).unwrap();
        // Where the file system shares contents, nothing takes long and nothing is said.
        let data = File::open(dir.path().join(DATA_FILE)).unwrap();
        let shares = clone(&data, &File::create(scratch.path().join("probe")).unwrap());
        assert_eq!(told.load(Ordering::Relaxed), if shares { 0 } else { 5_100 });
        assert_eq!(std::fs::read(copy.dir().join(DATA_FILE)).unwrap(), [7; 5_000]);
        // A copy that does not open is made again by its reader, which was told before.
        let (mut was_announced, before) = (false, told.swap(0, Ordering::Relaxed));
        for _ in 0..3 {
            drop(PrivateCopy::made_again(dir.path(), &options, &mut was_announced).unwrap());
        }
        assert_eq!(told.load(Ordering::Relaxed), before);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_a_link_is_copied_as_an_opening_reads_it_and_a_pipe_is_refused() {
        let [dir, elsewhere, scratch] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        std::fs::write(elsewhere.path().join("disk"), [7; 5_000]).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("disk"), dir.path().join(DATA_FILE)).unwrap();
        let options = ReadOnlyOptions::default().scratch(scratch.path());
        let copy = PrivateCopy::copy(dir.path(), &options).unwrap();
        let copied = copy.dir().join(DATA_FILE);
        assert!(std::fs::symlink_metadata(&copied).unwrap().is_file());
        assert_eq!(std::fs::read(copied).unwrap(), [7; 5_000]);
        assert_eq!(stamps(dir.path()).unwrap()[0].bytes, 5_000);
        std::fs::remove_file(dir.path().join(DATA_FILE)).unwrap();
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, dir.path().join(DATA_FILE), FileType::Fifo, Mode::RUSR, 0).unwrap();
            assert!(PrivateCopy::copy(dir.path(), &options).is_err());
        }
    }

    #[test]
    fn a_copy_has_the_files_of_the_log_alone_and_only_its_owner_reads_them() {
        let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in [DATA_FILE, "conf", "snap.01", "snap.02.generating", "notes.txt", "door"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        std::fs::create_dir(dir.path().join("secrets")).unwrap();
        let copy =
            PrivateCopy::copy(dir.path(), &ReadOnlyOptions::default().scratch(scratch.path())).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(copy.dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["conf", "db", "snap.01"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let found = std::fs::metadata(copy.dir().join(DATA_FILE)).unwrap();
            assert_eq!(found.permissions().mode() & 0o777, 0o600);
        }
    }
}
