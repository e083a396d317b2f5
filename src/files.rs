//! Files beside the log: copies of the files of artifacts and messages, and A2A tasks as JSON files that a2a-utils
//! reads and writes too.
//!
//! The stores here are for other programs and for people. The log keeps what happened; a store can be deleted and
//! filled again. Their operations block, so an async caller runs them on the blocking pool.

mod address;
mod base64;
pub(crate) mod beside;
mod digest;
pub(crate) mod error;
mod file_check;
mod folder;
#[cfg(feature = "files-http")]
mod http;
mod identifier;
pub(crate) mod images;
pub(crate) mod local;
mod name;
mod python_numbers;
pub(crate) mod remote;
pub(crate) mod store;
mod store_folder;
mod task_shape;
pub(crate) mod tasks;
mod write;

use std::ffi::OsStr;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

pub use address::{Hosts, is_public};
pub use error::FileError;
pub use file_check::StoredFiles;
#[cfg(feature = "files-http")]
pub use http::HttpFetcher;
pub use local::LocalFileStore;
pub use remote::{FetchRemote, RemoteUri, UriSchemes};
pub use store::FileStore;
pub use tasks::JsonTaskStore;

/// Saves bytes as a file in a folder, which is made if it is missing, and returns its path. The name is made harmless as
/// [`LocalFileStore`] does it: its last component, without `..`, leading dots and control characters, or `file_INDEX` if
/// nothing is left. No file is replaced: if another content has the name, the beginning of the file's SHA-256 is added.
///
/// # Errors
/// [`FileError`] if the folder or the file cannot be written.
pub fn save_as(folder: &Path, name: Option<&str>, index: usize, bytes: &[u8]) -> Result<PathBuf, FileError> {
    let root = store_folder::made_durably(folder)?;
    let adding = write::FileAddition::to(&root, &root)?;
    let saved =
        adding.add(&name::cleaned(name, index), bytes).and_then(|saved| adding.finish().map(|()| saved));
    // The folder is a person's, so nothing else stays in it; another program that is writing there makes it anew.
    let _ = std::fs::remove_dir(root.join(write::UNFINISHED));
    let saved = saved?;
    Ok(saved.file_name().map_or_else(|| saved.clone(), |name| folder.join(name)))
}

/// Reads a file at or below a folder, of so many bytes at most. Links are followed as long as they stay there; what is not a plain file
/// is not read.
///
/// # Errors
/// [`FileError::Escapes`] if the path leads out of the folder, [`FileError::TooLarge`] for a longer file, [`FileError::Io`] if it
/// cannot be read.
pub fn read_within(folder: &Path, path: &Path, bytes_max: u64) -> Result<Vec<u8>, FileError> {
    let root = folder.canonicalize().map_err(FileError::io("cannot open", folder))?;
    let whole = folder::resolved(&root, path)?;
    let missing = |kind: ErrorKind| FileError::io("cannot read", path)(kind.into());
    let (Some(above), Some(name)) = (whole.parent(), whole.file_name().and_then(OsStr::to_str)) else {
        return Err(missing(ErrorKind::InvalidInput));
    };
    let within = folder::Folder::within(&root, above, folder::kind::MissingFolder::None)?;
    let opened = within.ok_or_else(|| missing(ErrorKind::NotFound))?.opened(name);
    let opened = opened.map_err(FileError::io("cannot read", path))?;
    let file = opened.ok_or_else(|| missing(ErrorKind::InvalidInput))?;
    let size = file.metadata().map_err(FileError::io("cannot read", path))?.len();
    let mut bytes = Vec::new();
    let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(FileError::io("cannot read", path))?;
    let bytes_read = size.max(bytes.len() as u64);
    if bytes_read > bytes_max {
        return Err(FileError::TooLarge { limit: bytes_max, bytes: bytes_read });
    }
    Ok(bytes)
}

/// Returns the bytes of a text in base64, read as Python reads it: other characters are skipped, the padding is checked.
///
/// # Errors
/// [`FileError::Base64`] or [`FileError::NotAscii`] if it is not valid.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, FileError> {
    base64::decoded(text)
}
