//! The folder of a store, opened or made.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::files::error::FileError;
use crate::files::folder::Folder;

/// Makes a folder with those above it that are missing, all of them durable, and returns its path with links followed.
///
/// # Errors
/// [`FileError::Io`] if the folder cannot be made or found.
pub(super) fn made_durably(folder: &Path) -> Result<PathBuf, FileError> {
    let find = |path: &Path| path.canonicalize().map_err(FileError::io("cannot find", folder));
    let missing = first_missing(folder).map_err(FileError::io("cannot look at", folder))?;
    let Some((above, rest)) = missing else { return find(folder) };
    let root = find(&above)?;
    if rest.components().all(|component| matches!(component, Component::Normal(_))) {
        Folder::made(&root, &root.join(&rest))?;
    } else {
        // A path that goes up again from a folder that is not there yet.
        fs::create_dir_all(folder).map_err(FileError::io("cannot make", folder))?;
    }
    find(folder)
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
