//! The rights of the files of a log: at first its owner alone may read them. Elsewhere than on Unix the directory above decides.

use std::fs::{DirBuilder, File, OpenOptions, read_dir};
use std::io;
use std::path::Path;

/// The file that every log has. All others get its rights, whatever the umask is.
pub(crate) const FORMAT_FILE: &str = "taskreel.format";

/// Makes a file in the log's directory, in the place of one of its name.
pub(crate) fn file(dir: &Path, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, of_files(dir));
    options.open(dir.join(name))
}

/// Makes a directory in that of the log; one that is there stays.
pub(crate) fn folder(dir: &Path, name: &str) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    // A user who may read a file there may look for it.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(
        &mut builder,
        of_files(dir) | 0o100 | (of_files(dir) & 0o044) >> 2,
    );
    builder.recursive(true).create(dir.join(name))
}

/// Takes from the files in the log's directory, some of which the database makes, what the log's first file does not allow either.
pub(crate) fn restrict(dir: &Path) -> io::Result<()> {
    let allowed = of_files(dir);
    for entry in read_dir(dir)? {
        let path = entry?.path();
        if !path.is_file() {
            continue;
        }
        match change(&path, |rights| rights & (allowed | !0o666)) {
            // It is somebody else's, who decides.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            restricted => restricted?,
        }
    }
    Ok(())
}

/// Lets nobody but its owner look into the directory of a new log.
pub(crate) fn close(dir: &Path) -> io::Result<()> {
    set(dir, 0o700)
}

/// Lets the group of a log read it, and all that is added to it. A new log is its owner's alone.
///
/// # Errors
/// [`io::Error`] if the rights cannot be read or set.
pub fn let_group_read(dir: &Path) -> io::Result<()> {
    for entry in read_dir(dir)? {
        let path = entry?.path();
        if path.is_file() {
            change(&path, |rights| rights | 0o040)?;
        }
    }
    // Readers look whether anything stands there. Other folders, such as that of the secrets, stay closed.
    change(&dir.join("blobs"), |rights| rights | 0o050)?;
    change(dir, |rights| rights | 0o050)
}

/// Changes the rights of a file, where they are others afterwards. One that is gone meanwhile, such as one that was being written,
/// needs none.
fn change(path: &Path, to: impl FnOnce(u32) -> u32) -> io::Result<()> {
    let changed = mode(path).and_then(|rights| {
        let wanted = to(rights);
        if wanted == rights { Ok(()) } else { set(path, wanted) }
    });
    match changed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        changed => changed,
    }
}

/// Returns the rights of a file in the log's directory: the rights of the log's first file, which is made for its owner alone.
fn of_files(dir: &Path) -> u32 {
    mode(&dir.join(FORMAT_FILE)).map_or(0o600, |rights| rights & 0o666)
}

#[cfg(unix)]
fn mode(path: &Path) -> io::Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::metadata(path)?.permissions().mode())
}

#[cfg(not(unix))]
fn of(path: &Path) -> io::Result<u32> {
    std::fs::metadata(path).map(|_| 0o600)
}

#[cfg(unix)]
fn set(path: &Path, rights: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(rights))
}

#[cfg(not(unix))]
fn set(_path: &Path, _rights: u32) -> io::Result<()> {
    Ok(())
}
