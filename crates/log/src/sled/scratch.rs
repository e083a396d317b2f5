//! The folders in which readers keep their private copies: one for each reader, which only its user can open. A folder
//! left by a process that was killed is removed by the next reader.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::error::OpenError;
use crate::engine::files;
use crate::sled::dir::io_error;

/// Begin of the name of a reader's folder.
const PREFIX: &str = "read-";

/// Name of the file in a reader's folder that its process keeps locked.
const ALIVE_FILE: &str = "alive";

/// The folders of this process's readers.
struct Own {
    /// The folders that are there.
    paths: BTreeSet<PathBuf>,
    /// Whether this process is about to end: no further folder is made.
    is_ending: bool,
}

/// Held while a folder is made or removed, and never across anything that waits for another thread.
static OWN: Mutex<Own> = Mutex::new(Own { paths: BTreeSet::new(), is_ending: false });

/// The most often that a folder is removed into which its reader is copying meanwhile.
const REMOVALS: usize = 64;

/// Removes the private copies of all readers of this process. For a program that is about to end, and may do so before all of
/// its readers are dropped: what its readers read after this fails, and no further reader that needs a copy can be opened in this
/// process. A copy that stays all the same is removed by the next reader.
pub fn remove_private_copies() {
    let mut own = lock_own();
    own.is_ending = true;
    for path in &own.paths {
        for _ in 0..REMOVALS {
            match std::fs::remove_dir_all(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
    }
}

/// Ignores poisoning: the set is consistent between any two steps.
fn lock_own() -> MutexGuard<'static, Own> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder of one reader. It is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct ReaderFolder {
    path: PathBuf,
    /// Locked while the reader lives.
    _alive: File,
}

impl ReaderFolder {
    /// Creates a folder in `scratch`, after the folders of dead readers there were removed.
    pub(crate) fn create(scratch: &Path) -> Result<Self, OpenError> {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let failed = "the private folder of a reader could not be created; name another with --scratch";
        private().recursive(true).create(scratch).map_err(io_error(scratch, failed))?;
        sweep(scratch);
        let pid = std::process::id();
        let started = process_start(pid).unwrap_or(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = scratch.join(format!("{PREFIX}{pid}-{started}-{number}"));
        // A folder of this name was left by a process with our id before the machine was started anew.
        let _ = std::fs::remove_dir_all(&path);
        let mut own = lock_own();
        if own.is_ending {
            let ending = io::Error::other("this program is about to end");
            return Err(io_error(&path, "no private copy was made")(ending));
        }
        own.paths.insert(path.clone());
        let locked = private().create(&path).and_then(|()| {
            let alive = File::create_new(path.join(ALIVE_FILE))?;
            alive.try_lock()?;
            Ok(alive)
        });
        match locked {
            Ok(alive) => Ok(Self { path, _alive: alive }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&path);
                own.paths.remove(&path);
                Err(io_error(&path, failed)(error))
            }
        }
    }

    /// Returns the folder's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ReaderFolder {
    fn drop(&mut self) {
        // The next reader removes what stays.
        let _ = std::fs::remove_dir_all(&self.path);
        lock_own().paths.remove(&self.path);
    }
}

/// Returns the folder for private copies of this user: `taskreel` in the cache folder.
pub(crate) fn default_scratch() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")));
    // Without a home the folders stand in the system's own, each closed to other users all the same.
    cache.map_or_else(|| files::absolute(&std::env::temp_dir()), |cache| cache.join("taskreel"))
}

/// Returns a builder of folders that only their owner can open.
fn private() -> DirBuilder {
    #[allow(unused_mut, reason = "only Unix has modes")]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Removes the folders of readers whose process is gone.
fn sweep(scratch: &Path) {
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        if !is_own_folder(&entry.path()) {
            continue;
        }
        let name = entry.file_name();
        let reader = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(parse_reader);
        if let Some((pid, started)) = reader
            && !lives(pid, started)
            && !is_locked(&entry.path())
            && let Err(error) = std::fs::remove_dir_all(entry.path())
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, path = %entry.path().display(), "the folder of a dead reader stays");
        }
    }
}

/// Returns process id and start of the reader of a folder's name.
fn parse_reader(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.split('-');
    let reader = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next()?.parse::<u32>().ok()?;
    parts.next().is_none().then_some(reader)
}

/// Whether the process with this id and start is known to live. The lock decides about the processes of other
/// containers, and of systems without `/proc`.
fn lives(pid: u32, started: u64) -> bool {
    process_start(pid).is_some_and(|start| start == started)
}

/// Whether this is a folder of this user, and no link to one: a folder for copies may be open to others.
fn is_own_folder(path: &Path) -> bool {
    let Ok(found) = std::fs::symlink_metadata(path) else { return false };
    #[cfg(unix)]
    let is_own = std::os::unix::fs::MetadataExt::uid(&found) == rustix::process::geteuid().as_raw();
    #[cfg(not(unix))]
    let is_own = true;
    found.is_dir() && is_own
}

/// Opens a file for reading, if it is one: a link is not followed, and a pipe would be waited for.
fn open_plain(path: &Path) -> io::Result<File> {
    open_file(path, false)
}

/// Opens a plain file for reading, through a link too, as an opening of the log does. A pipe would be waited for.
pub(crate) fn open_through_link(path: &Path) -> io::Result<File> {
    open_file(path, true)
}

fn open_file(path: &Path, follows: bool) -> io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let nofollow = if follows { rustix::fs::OFlags::empty() } else { rustix::fs::OFlags::NOFOLLOW };
        let flags = (nofollow | rustix::fs::OFlags::NONBLOCK).bits();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.cast_signed());
    }
    #[cfg(not(unix))]
    let _ = follows;
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other(files::NO_PLAIN_FILE)) }
}

fn is_locked(folder: &Path) -> bool {
    let Ok(alive) = open_plain(&folder.join(ALIVE_FILE)) else { return false };
    matches!(alive.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

/// Returns the start of a process in the kernel's ticks since the machine was started; `None` without such a
/// process, or the system does not say.
fn process_start(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may hold anything; the start is the 22nd.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_dead_reader_is_removed_by_the_next_and_that_of_a_living_one_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let living = ReaderFolder::create(scratch.path()).unwrap();
        let dead = scratch.path().join("read-4194305-17-0");
        std::fs::create_dir(&dead).unwrap();
        std::fs::write(dead.join("db"), "x").unwrap();
        // The lock counts where the process id says nothing.
        let elsewhere = scratch.path().join("read-4194306-17-0");
        std::fs::create_dir(&elsewhere).unwrap();
        let alive = File::create_new(elsewhere.join(ALIVE_FILE)).unwrap();
        alive.try_lock().unwrap();
        let stranger = scratch.path().join("read-me");
        std::fs::create_dir(&stranger).unwrap();
        let next = ReaderFolder::create(scratch.path()).unwrap();
        assert!(!dead.exists());
        assert!(living.path().exists() && next.path().exists() && elsewhere.exists() && stranger.exists());
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_of_a_reader_is_closed_to_other_users() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let folder = ReaderFolder::create(&dir.path().join("new")).unwrap();
        for path in [dir.path().join("new"), folder.path().to_owned()] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
