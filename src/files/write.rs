//! Files written as a whole: to a name of its own, synced, then named, so that a crash leaves the old file or the new
//! one, and never a part.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::files::error::FileError;
use crate::files::folder::Folder;
use crate::files::folder::kind::Missing;
use crate::files::name::numbered;

/// The names that are tried for one file.
const COPIES_MAX: usize = 1_000;

/// The folder in a store's for files that are being written, where no reader looks.
pub(super) const UNFINISHED: &str = ".taskreel-tmp";

/// The number of times that the folder for unfinished files is opened anew for one file.
const OPENS_MAX: u32 = 100;

/// The age at which an unfinished file is one of a program that was killed.
const LEFT_AFTER: Duration = Duration::from_secs(3_600);

/// A file that is whole, and does not have its name yet.
struct Unnamed {
    folder: Folder,
    name: String,
}

/// Replaces a file in a store's folder, or makes it.
pub(super) fn replace(root: &Path, name: &str, bytes: &[u8]) -> Result<(), FileError> {
    let path = root.join(name);
    let (whole, folder) = (Unnamed::written(root, bytes)?, Folder::made(root, root)?);
    if let Err(error) = whole.folder.rename(&whole.name, &folder, name) {
        let _ = whole.folder.remove(&whole.name);
        return Err(FileError::io("cannot name", &path)(error));
    }
    folder.sync().map_err(FileError::io("cannot sync", root))
}

/// A folder below a store's to which files are added that replace none.
pub(super) struct Adding<'a> {
    root: &'a Path,
    path: &'a Path,
    folder: Folder,
}

impl<'a> Adding<'a> {
    /// Opens the folder, which is made if it is missing.
    pub(super) fn to(root: &'a Path, path: &'a Path) -> Result<Self, FileError> {
        Ok(Self { root, path, folder: Folder::made(root, path)? })
    }

    /// Makes a file under its own name, or under a numbered one if a file with other content has it.
    pub(super) fn add(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, FileError> {
        let whole = Unnamed::written(self.root, bytes)?;
        let named = first_free(&self.folder, self.path, name, &whole, bytes);
        let removed = whole.folder.remove(&whole.name);
        let path = named?;
        removed.map_err(FileError::io("cannot remove a file in", &self.root.join(UNFINISHED)))?;
        Ok(path)
    }

    /// Makes the names of the files durable.
    pub(super) fn end(self) -> Result<(), FileError> {
        self.folder.sync().map_err(FileError::io("cannot sync", self.path))
    }
}

fn first_free(
    opened: &Folder,
    folder: &Path,
    name: &str,
    whole: &Unnamed,
    bytes: &[u8],
) -> Result<PathBuf, FileError> {
    for copy in 1..=COPIES_MAX {
        let tried = if copy == 1 { name.to_owned() } else { numbered(name, copy) };
        match whole.folder.link(&whole.name, opened, &tried) {
            Ok(()) => return Ok(folder.join(tried)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // The same content under the same name is the same file: an artifact that is saved again.
                let found = opened.read(&tried, Some(bytes.len()));
                if found.is_ok_and(|found| found.is_some_and(|found| found == bytes)) {
                    return Ok(folder.join(tried));
                }
            }
            Err(error) => return Err(FileError::io("cannot name", &folder.join(tried))(error)),
        }
    }
    Err(FileError::NameTaken { path: folder.join(name) })
}

impl Unnamed {
    /// Writes a synced file under a name that nobody looks for.
    fn written(root: &Path, bytes: &[u8]) -> Result<Self, FileError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = root.join(UNFINISHED);
        let mut opens = 0;
        loop {
            let folder = match Folder::within(root, &path, Missing::None)? {
                Some(folder) => folder,
                None => Folder::made(root, &path)?,
            };
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}.tmp", std::process::id());
            let file = match folder.create(&name) {
                // A program that had this process id was killed here.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                // Another program removed the empty folder.
                Err(error) if error.kind() == ErrorKind::NotFound && opens < OPENS_MAX => {
                    opens += 1;
                    continue;
                }
                file => file.map_err(FileError::io("cannot make", &path.join(&name)))?,
            };
            if let Err(error) = fill(file, bytes) {
                let _ = folder.remove(&name);
                return Err(FileError::io("cannot write", &path.join(&name))(error));
            }
            return Ok(Self { folder, name });
        }
    }
}

fn fill(mut file: File, bytes: &[u8]) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Removes the unfinished files that programs left when they were killed.
pub(super) fn remove_left(root: &Path) -> Result<(), FileError> {
    let path = root.join(UNFINISHED);
    let Some(folder) = Folder::within(root, &path, Missing::None)? else { return Ok(()) };
    for (name, _) in folder.entries().map_err(FileError::io("cannot read", &path))? {
        // Another program may be writing one, or removing the same.
        if folder.age(&name).is_ok_and(|age| age > LEFT_AFTER)
            && let Err(error) = folder.remove_folder(&name)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(path = %path.join(&name).display(), %error, "an unfinished file cannot be removed");
        }
    }
    Ok(())
}
