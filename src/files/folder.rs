//! A folder of a store, and what is done to the names in it.
//!
//! On Unix a folder is held open, and each operation is relative to it and follows no link: a user who replaces a folder by
//! a link after it was checked moves nothing out of the store. Elsewhere the same operations go by paths.

pub(super) mod kind;
#[cfg(test)]
pub(super) mod missing_operations;
#[cfg(not(unix))]
mod paths;
#[cfg(unix)]
mod unix;

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

#[cfg(not(unix))]
pub(super) use paths::Folder;
#[cfg(unix)]
pub(super) use unix::Folder;

use crate::files::error::FileError;
use crate::files::folder::kind::MissingFolder;

impl Folder {
    /// Opens a folder at or below a store's, if it is still there after the links of the part of it that exists are followed.
    pub(super) fn within(
        root: &Path,
        path: &Path,
        missing: MissingFolder,
    ) -> Result<Option<Self>, FileError> {
        let resolved = resolved(root, path)?;
        let below = resolved.strip_prefix(root).map_err(|_| FileError::Escapes { path: path.to_owned() })?;
        let mut folder = Self::root(root).map_err(FileError::io("cannot open", root))?;
        for component in below.components() {
            let Component::Normal(name) = component else {
                return Err(FileError::Escapes { path: path.to_owned() });
            };
            folder = match folder.below(name, missing) {
                Ok(below) => below,
                Err(error) if error.kind() == ErrorKind::NotFound && missing == MissingFolder::None => {
                    return Ok(None);
                }
                // A folder has become a link since its links were followed.
                Err(error) if Self::is_link(&error) => {
                    return Err(FileError::Escapes { path: path.to_owned() });
                }
                Err(error) => return Err(FileError::io("cannot open", path)(error)),
            };
        }
        Ok(Some(folder))
    }

    /// Opens a folder below a store's, which is made if it is missing.
    pub(super) fn made(root: &Path, path: &Path) -> Result<Self, FileError> {
        let missing = || FileError::io("cannot make", path)(ErrorKind::NotFound.into());
        Self::within(root, path, MissingFolder::Made)?.ok_or_else(missing)
    }
}

/// Returns a path with the links of the part of it that exists followed, if it stays at or below the store's folder.
pub(super) fn resolved(root: &Path, path: &Path) -> Result<PathBuf, FileError> {
    let escapes = || FileError::Escapes { path: path.to_owned() };
    let (mut existing, mut rest) = (path, Vec::new());
    let mut resolved = loop {
        match existing.canonicalize() {
            Ok(resolved) => break resolved,
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::symlink_metadata(existing) {
                Err(_) => {
                    rest.push(existing.file_name().ok_or_else(escapes)?);
                    existing = existing.parent().ok_or_else(escapes)?;
                }
                // A link to nothing exists and leads somewhere that cannot be checked.
                Ok(found) if found.is_symlink() => return Err(escapes()),
                // Another writer has made it at this moment: it is looked at again.
                Ok(_) => {}
            },
            Err(error) => return Err(FileError::io("cannot look at", existing)(error)),
        }
    };
    resolved.extend(rest.into_iter().rev());
    if resolved.starts_with(root) { Ok(resolved) } else { Err(escapes()) }
}
