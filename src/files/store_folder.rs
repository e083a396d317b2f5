//! The folder of a store, opened or made.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::files::error::FileError;
use crate::files::folder::Folder;

/// Makes a folder with those above it that are missing, all of them durable, and returns its path with links followed. A folder
/// that is there is made durable too: its maker may not have come to that.
///
/// # Errors
/// [`FileError::Io`] if the folder cannot be made or found.
pub(super) fn made_durably(folder: &Path) -> Result<PathBuf, FileError> {
    let find = |path: &Path| path.canonicalize().map_err(FileError::io("cannot find", folder));
    let missing = first_missing(folder).map_err(FileError::io("cannot look at", folder))?;
    let Some((above, rest)) = missing else { return synced(find(folder)?) };
    let root = find(&above)?;
    if rest.components().all(|component| matches!(component, Component::Normal(_))) {
        Folder::made(&root, &root.join(&rest))?;
    } else {
        // A path that goes up again from a folder that is not there yet.
        fs::create_dir_all(folder).map_err(FileError::io("cannot make", folder))?;
    }
    synced(find(folder)?)
}

/// Syncs a folder and all above it, so that its name and theirs are on the disk.
fn synced(root: PathBuf) -> Result<PathBuf, FileError> {
    for folder in root.ancestors() {
        match Folder::root(folder).and_then(|opened| opened.sync()) {
            // It belongs to somebody else, or to a file system that syncs no folders.
            Err(error) if folder != root && is_foreign(&error) => {}
            synced => synced.map_err(FileError::io("cannot sync", folder))?,
        }
    }
    Ok(root)
}

/// Whether a folder above a store's can be left as it is, since the user of this program cannot have made it.
fn is_foreign(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::Unsupported
            | ErrorKind::InvalidInput
            | ErrorKind::ReadOnlyFilesystem
    )
}

/// Returns the part of a path that is there, and the rest; nothing if all of it is there.
fn first_missing(folder: &Path) -> std::io::Result<Option<(PathBuf, PathBuf)>> {
    let mut above = folder;
    loop {
        match fs::metadata(above) {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        above = match above.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        if above == Path::new(".") {
            break;
        }
    }
    let rest = folder.strip_prefix(above).unwrap_or(folder);
    Ok((rest != Path::new("")).then(|| (above.to_owned(), rest.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_with_all_above_it_and_found_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (given, made) in
            [("", ""), ("a/b/c", "a/b/c"), ("a/b", "a/b"), ("a/../d", "d"), ("e/../f/g", "f/g")]
        {
            assert_eq!(made_durably(&root.join(given)).unwrap(), root.join(made), "{given}");
        }
        fs::write(root.join("file"), "x").unwrap();
        assert!(matches!(made_durably(&root.join("file/x")), Err(FileError::Io { .. })));
        let (above, rest) = first_missing(Path::new("not-there/at-all")).unwrap().unwrap();
        assert_eq!((above.as_path(), rest.as_path()), (Path::new("."), Path::new("not-there/at-all")));
    }
}
