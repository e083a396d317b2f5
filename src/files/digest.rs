//! The digests of contents and of files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use proto_events::id::Digest;
use sha2::{Digest as _, Sha256};
use taskreel_log::artifacts::KeptFile;

/// The bytes that are read of a file at a time.
const PIECE: usize = 64 * 1024;

/// Returns the SHA-256 of a content in hexadecimal digits.
pub(super) fn digest_of_bytes(bytes: &[u8]) -> String {
    Digest(Sha256::digest(bytes).into()).to_string()
}

/// Returns the SHA-256 of a file and its bytes; it is read piece by piece.
pub(super) fn digest_of(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut digest, mut size, mut piece) = (Sha256::new(), 0_u64, vec![0; PIECE]);
    loop {
        let read = file.read(&mut piece)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        digest.update(bytes);
        size += bytes.len() as u64;
    }
    Ok((Digest(digest.finalize().into()).to_string(), size))
}

/// Whether a regular file stands at a path, with this length.
pub(super) fn has_length(path: &Path, bytes: u64) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes)
}

/// Whether one of these files is the one to which a log refers. Only files of its length are read.
pub(super) fn is_among<'a>(paths: impl IntoIterator<Item = &'a Path>, kept: &KeptFile) -> bool {
    let same = |(sha256, size): (String, u64)| sha256 == kept.sha256 && size == kept.size;
    paths.into_iter().any(|path| has_length(path, kept.size) && digest_of(path).is_ok_and(same))
}
