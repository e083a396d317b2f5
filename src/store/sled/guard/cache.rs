//! sled's small files: `conf` and the snapshots `snap.*`. Both can be made anew: `conf` is the same for every log of
//! this format, a snapshot is a cache of the log. A damaged one is set aside; a half-written one is removed.

use std::fs;
use std::path::Path;

use crate::store::{OpenError, OpenNote};

use super::super::dir::io_error;
use super::aside;

/// Name of the file with the parameters that a database was made with.
const CONF: &str = "conf";

/// What sled's snapshots begin with. Nothing else may, or sled would take it for one.
pub(super) const SNAPSHOT: &str = "snap.";

/// What a snapshot that is being written ends with.
const UNFINISHED: &str = ".generating";

/// Sees that sled finds files that it can read. Answers from which lsn on it will read the log.
pub(super) fn look(dir: &Path, notes: &mut Vec<OpenNote>) -> Result<u64, OpenError> {
    conf(dir, notes)?;
    snapshot(dir, notes)
}

/// Takes away what making a log had begun before the power went: without a database nothing rests on it.
pub(super) fn forget_half_made(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(CONF);
    if conf_is_whole(&path)? {
        return Ok(());
    }
    fs::remove_file(&path).map_err(io_error(&path, "it could not be removed"))
}

fn conf(dir: &Path, notes: &mut Vec<OpenNote>) -> Result<(), OpenError> {
    if conf_is_whole(&dir.join(CONF))? {
        return Ok(());
    }
    set_aside(dir, CONF, "is not whole", notes)
}

/// A text, then its CRC32. An absent one is made by sled.
fn conf_is_whole(path: &Path) -> Result<bool, OpenError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(io_error(path, "it could not be read")(error)),
    };
    let parts = bytes.split_last_chunk::<4>();
    Ok(parts.is_some_and(|(text, crc)| !text.is_empty() && crc32fast::hash(text).to_le_bytes() == *crc))
}

/// The newest snapshot that is whole counts. sled takes the last by name, and gives up if it is not whole.
fn snapshot(dir: &Path, notes: &mut Vec<OpenNote>) -> Result<u64, OpenError> {
    let mut names = Vec::new();
    let unreadable = "the directory could not be read";
    for entry in fs::read_dir(dir).map_err(io_error(dir, unreadable))? {
        let name = entry.map_err(io_error(dir, unreadable))?.file_name();
        names.extend(name.into_string().ok().filter(|name| name.starts_with(SNAPSHOT)));
    }
    names.sort();
    while let Some(name) = names.pop() {
        let path = dir.join(&name);
        if name.ends_with(UNFINISHED) {
            // It never had its name, so that nothing rests on it: a crash while opening leaves it.
            fs::remove_file(&path).map_err(io_error(&path, "it could not be removed"))?;
            continue;
        }
        let bytes = fs::read(&path).map_err(io_error(&path, "it could not be read"))?;
        match stable(&name).filter(|_| is_whole(&bytes)) {
            Some(lsn) => return Ok(lsn),
            None => set_aside(dir, &name, "is a damaged snapshot of the database", notes)?,
        }
    }
    Ok(0)
}

/// Up to where a snapshot goes, by its name.
fn stable(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix(SNAPSHOT)?, 16).ok()
}

/// The body, then its length (8), then its CRC32 (4).
fn is_whole(bytes: &[u8]) -> bool {
    let parts =
        bytes.split_last_chunk::<4>().and_then(|(rest, crc)| Some((rest.split_last_chunk::<8>()?, crc)));
    parts.is_some_and(|((body, length), crc)| {
        !body.is_empty()
            && crc32fast::hash(body).to_le_bytes() == *crc
            && u64::from_le_bytes(*length) == body.len() as u64
    })
}

fn set_aside(dir: &Path, name: &str, why: &'static str, notes: &mut Vec<OpenNote>) -> Result<(), OpenError> {
    let kept = aside::file(dir, name).map_err(io_error(&dir.join(name), "it could not be set aside"))?;
    notes.push(OpenNote::FileSetAside { file: name.to_owned(), why, kept });
    Ok(())
}
