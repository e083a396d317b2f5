//! Small files beside the log, replaced as a whole: a reader sees the old one or the new one, never a part.

use std::fs::{File, Metadata};
use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::rights;

/// Ending of a file that is being written.
pub(crate) const NEW: &str = ".new";

/// The error for a pipe, a device or a directory in the place of a file.
pub(crate) const NO_PLAIN_FILE: &str = "it is no plain file";

/// Returns a path that stays the same one when the program changes its working directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Writes `name` in `dir`, durably and as a whole.
pub(crate) fn replace(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let new = dir.join(format!("{name}{NEW}"));
    let mut file = rights::file(dir, &format!("{name}{NEW}"))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, dir.join(name))?;
    sync_dir(dir)
}

/// Writes `name` in `dir` as a whole, but for a loss of power: for a cache with a checksum of its own.
pub(crate) fn replace_cache(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = dir.join(format!("{name}{NEW}"));
    let written = rights::file(dir, &format!("{name}{NEW}")).and_then(|mut file| file.write_all(bytes));
    let written = written.and_then(|()| std::fs::rename(&new, dir.join(name)));
    if written.is_err() {
        // A full disk gets its room back.
        let _ = std::fs::remove_file(&new);
    }
    written
}

/// Writes `name` in `dir`, durably and as a whole, unless there is a file of that name. Returns false if there is:
/// of several processes at once one writes its text, and the others leave it.
pub(crate) fn create(dir: &Path, name: &str, text: &str) -> io::Result<bool> {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let new = format!("{name}.{}-{number}{NEW}", std::process::id());
    let mut file = rights::file(dir, &new)?;
    let new = dir.join(new);
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let path = dir.join(name);
    let created = match std::fs::hard_link(&new, &path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        // A file system without links.
        Err(_) if !path.try_exists()? => {
            std::fs::rename(&new, &path)?;
            sync_dir(dir)?;
            return Ok(true);
        }
        Err(_) => false,
    };
    std::fs::remove_file(&new)?;
    sync_dir(dir)?;
    Ok(created)
}

/// Reads `name` in `dir`, if it exists, up to 64 KiB: no file of ours is longer.
pub(crate) fn read(dir: &Path, name: &str) -> io::Result<Option<String>> {
    use io::Read as _;
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Opening a pipe, which anybody may put there who can write the directory, would wait for a writer.
        options.custom_flags(i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0));
    }
    let file = match options.read(true).open(dir.join(name)) {
        Ok(file) if !file.metadata()?.is_file() => return Err(io::Error::other(NO_PLAIN_FILE)),
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(64 * 1024).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Whether opening this may wait for somebody else, or do something by itself.
pub(crate) fn is_pipe_or_device(found: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = found.file_type();
        kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        false
    }
}

/// Whether two descriptions are of one file, as far as the operating system tells.
pub(crate) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    }
    #[cfg(not(unix))]
    {
        one.file_type() == other.file_type()
    }
}

/// Makes the names in a directory durable. Systems whose directories cannot be opened do this by themselves.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}
