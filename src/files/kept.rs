//! The files that stand beside a log, compared with the digests that the log holds.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use proto_events::id::Digest;
use sha2::{Digest as _, Sha256};
use taskreel_log::artifacts::{KeptFile, KeptFileAt, KeptFiles};

use crate::files::error::FileError;
use crate::files::local::LocalFileStore;
use crate::files::store::FileStore;

/// The bytes that are read of a file at a time.
const PIECE: usize = 64 * 1024;

impl LocalFileStore {
    /// Returns the path of a file to which an artifact in a log refers: the one of the artifact's files that has its
    /// digest.
    ///
    /// # Errors
    /// The reason in words why there is none: it is missing, or another content stands in its place.
    pub fn kept_file(&self, task_id: &str, artifact_id: &str, kept: &KeptFile) -> Result<PathBuf, String> {
        let looked = self.get_artifact(task_id, artifact_id);
        let paths = looked.map_err(|error| error.to_string())?;
        let (mut changed, mut unread) = (Vec::new(), None);
        for path in paths {
            match digest_of(&path) {
                Ok((sha256, size)) if (sha256.as_str(), size) == (kept.sha256.as_str(), kept.size) => {
                    return Ok(path);
                }
                Ok(_) => changed.push(path),
                Err(error) => unread = Some(FileError::io("cannot read", &path)(error).to_string()),
            }
        }
        // A file under its name, or its only file, has been changed; any other is another part's.
        let named = |path: &&PathBuf| kept.name.as_deref().is_some_and(|name| path.ends_with(last_of(name)));
        let in_its_place = changed.iter().find(named).or_else(|| changed.first());
        Err(match (unread, in_its_place) {
            (Some(why), _) => why,
            (None, Some(path)) => format!(
                "no file of the artifact has the digest {} and {} bytes; '{}' has another content",
                kept.sha256,
                kept.size,
                path.display()
            ),
            (None, None) => {
                format!("the file with the digest {} and {} bytes is missing", kept.sha256, kept.size)
            }
        })
    }
}

impl KeptFiles for LocalFileStore {
    fn fault(&self, kept: &KeptFileAt) -> Option<String> {
        let why = self.kept_file(&kept.stream.id(), &kept.artifact_id, &kept.file).err()?;
        Some(format!("artifact {}, part {}: {why}", kept.artifact_id, kept.part))
    }
}

fn last_of(name: &str) -> &Path {
    Path::new(name.rsplit('/').next().unwrap_or(name))
}

/// Returns the SHA-256 of a file and its bytes; it is read piece by piece.
fn digest_of(path: &Path) -> io::Result<(String, u64)> {
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
