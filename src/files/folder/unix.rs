//! Folders that are held open: operations relative to a descriptor, which follow no link.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::files::folder::kind::{Kind, MissingFolder};

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the folder of a store; its own links are followed.
    pub(crate) fn root(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?))
    }

    /// Opens a folder in this one.
    pub(crate) fn below(&self, name: &OsStr, missing: MissingFolder) -> io::Result<Self> {
        let open = || rustix::fs::openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        let opened = match open() {
            Err(Errno::NOENT) if missing == MissingFolder::Made => {
                match rustix::fs::mkdirat(&self.0, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                    Ok(()) | Err(Errno::EXIST) => open()?,
                    Err(error) => return Err(error.into()),
                }
            }
            opened => opened?,
        };
        if missing == MissingFolder::Made {
            // Also where somebody else made it: that one may not have come to this yet.
            self.sync()?;
        }
        Ok(Self(opened))
    }

    /// Whether an operation failed because of a link.
    pub(crate) fn is_link(error: &io::Error) -> bool {
        let errno = Errno::from_io_error(error);
        matches!(errno, Some(Errno::LOOP | Errno::NOTDIR))
    }

    /// Makes a file that was not there.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, mode)?))
    }

    /// Returns the content of a regular file; nothing of anything else.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = self.opened(name)? else { return Ok(None) };
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        Ok(Some(content))
    }

    /// Opens a regular file for reading and syncing; nothing of anything else.
    pub(crate) fn opened(&self, name: &str) -> io::Result<Option<File>> {
        // Opening a pipe would wait for somebody who writes into it.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => return Ok(None),
            opened => File::from(opened?),
        };
        Ok(file.metadata()?.is_file().then_some(file))
    }

    /// Gives a file another name in a folder, where none has that name.
    pub(crate) fn link(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        #[cfg(test)]
        crate::files::folder::missing_operations::check(
            crate::files::folder::missing_operations::Lacks::Links,
        )?;
        Ok(rustix::fs::linkat(&self.0, name, &to.0, new, AtFlags::empty())?)
    }

    /// Moves a file to a folder, where none has that name.
    pub(crate) fn move_new(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        #[cfg(test)]
        crate::files::folder::missing_operations::check(
            crate::files::folder::missing_operations::Lacks::Moves,
        )?;
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        return Ok(rustix::fs::renameat_with(&self.0, name, &to.0, new, rustix::fs::RenameFlags::NOREPLACE)?);
        #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
        {
            let _ = (name, to, new);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Moves a file to a folder and replaces what has the name there.
    pub(crate) fn rename(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, name, &to.0, new)?)
    }

    /// Removes a name, which may be a link.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes a folder with all that is in it.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        let folder = match self.below(name, MissingFolder::None) {
            // A link, or no folder.
            Err(error) if Self::is_link(&error) => {
                return Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?);
            }
            folder => folder?,
        };
        for (entry, kind) in folder.entries()? {
            match kind {
                Kind::Folder => folder.remove_folder(&entry)?,
                Kind::File | Kind::Other => rustix::fs::unlinkat(&folder.0, &entry, AtFlags::empty())?,
            }
        }
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Returns the names in the folder, each with its kind.
    pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, Kind)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let found = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(found.st_mode)
                }
                known => known,
            };
            let kind = match kind {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                _ => Kind::Other,
            };
            entries.push((OsStr::from_bytes(name.to_bytes()).to_owned(), kind));
        }
        Ok(entries)
    }

    /// Returns the time since a file was changed.
    pub(crate) fn age(&self, name: &OsStr) -> io::Result<Duration> {
        let found = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let changed = Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or_default());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(now.saturating_sub(changed))
    }

    /// Makes the names in the folder durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }
}
