//! Folders by their paths, where they cannot be held open: a folder that is replaced by a link between two operations is
//! not noticed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::files::folder::kind::{Kind, Missing};

/// The path of a folder.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder of a store.
    pub(crate) fn root(path: &Path) -> io::Result<Self> {
        fs::read_dir(path).map(|_| Self(path.to_owned()))
    }

    /// Opens a folder in this one.
    pub(crate) fn below(&self, name: &OsStr, missing: Missing) -> io::Result<Self> {
        let path = self.0.join(name);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && missing == Missing::Made => {
                fs::create_dir_all(&path)?;
            }
            found => {
                if !found?.is_dir() {
                    return Err(ErrorKind::NotADirectory.into());
                }
            }
        }
        Ok(Self(path))
    }

    /// Whether an operation failed because of a link.
    pub(crate) fn is_link(error: &io::Error) -> bool {
        error.kind() == ErrorKind::NotADirectory
    }

    /// Makes a file that was not there.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(self.0.join(name))
    }

    /// Returns the content of a regular file; nothing of anything else.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.0.join(name);
        if fs::symlink_metadata(&path)?.is_file() { fs::read(&path).map(Some) } else { Ok(None) }
    }

    /// Opens a regular file for reading and syncing; nothing of anything else.
    pub(crate) fn opened(&self, name: &str) -> io::Result<Option<File>> {
        let path = self.0.join(name);
        if !fs::symlink_metadata(&path)?.is_file() {
            return Ok(None);
        }
        // Syncing needs the right to write here.
        OpenOptions::new().read(true).write(true).open(path).map(Some)
    }

    /// Gives a file another name in a folder, where none has that name.
    pub(crate) fn link(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        fs::hard_link(self.0.join(name), to.0.join(new))
    }

    /// Moves a file to a folder, where none has that name.
    #[allow(clippy::unused_self, reason = "on Unix it is a call of the system")]
    pub(crate) fn move_new(&self, _name: &str, _to: &Self, _new: &str) -> io::Result<()> {
        // A move replaces here.
        Err(ErrorKind::Unsupported.into())
    }

    /// Moves a file to a folder and replaces what has the name there.
    pub(crate) fn rename(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        fs::rename(self.0.join(name), to.0.join(new))
    }

    /// Removes a name, which may be a link.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// Removes a folder with all that is in it.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir_all(self.0.join(name))
    }

    /// Returns the names in the folder, each with its kind.
    pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, Kind)>> {
        let entry = |entry: fs::DirEntry| {
            let found = entry.file_type()?;
            let kind = if found.is_file() { Kind::File } else { Kind::Other };
            Ok((entry.file_name(), if found.is_dir() { Kind::Folder } else { kind }))
        };
        fs::read_dir(&self.0)?.map(|found| entry(found?)).collect()
    }

    /// Returns the time since a file was changed.
    pub(crate) fn age(&self, name: &OsStr) -> io::Result<Duration> {
        let changed = fs::symlink_metadata(self.0.join(name))?.modified()?;
        Ok(SystemTime::now().duration_since(changed).unwrap_or_default())
    }

    /// Names are as durable as the file system makes them: a folder cannot be synced here.
    #[allow(clippy::unnecessary_wraps, reason = "on Unix it can fail")]
    pub(crate) fn sync(&self) -> io::Result<()> {
        let _ = &self.0;
        Ok(())
    }
}
