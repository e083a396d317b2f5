//! The operations of a store of files.

use std::path::PathBuf;

use taskreel_log::artifacts::{A2aArtifact, A2aMessage, KeptFile};

use crate::files::digest::is_among;
use crate::files::error::FileError;

/// A store for the files of artifacts and messages. Its operations block.
pub trait FileStore: Send + Sync {
    /// Whether files stand in this store instead of the log, which then holds their digests alone. By default the store gets
    /// copies.
    fn is_instead_of_log(&self) -> bool {
        false
    }

    /// Saves the files of an artifact and returns their paths, in the order of the parts. Parts that are no files count for the
    /// names of files without one; a system gives them as empty texts.
    ///
    /// # Errors
    /// [`FileError`] if an id is not a plain name, or if a file cannot be fetched or written. Files of earlier parts stay,
    /// and the next call finds them.
    fn save_artifact(&self, task_id: &str, artifact: &A2aArtifact) -> Result<Vec<PathBuf>, FileError>;

    /// Returns the paths of an artifact's files, sorted; none if nothing was saved.
    ///
    /// # Errors
    /// [`FileError`] if an id is not a plain name, or if the folder cannot be read.
    fn get_artifact(&self, task_id: &str, artifact_id: &str) -> Result<Vec<PathBuf>, FileError>;

    /// Whether a file of an artifact has the digest and the size of one to which a log refers. By default the files that
    /// [`get_artifact`](Self::get_artifact) returns are compared.
    ///
    /// # Errors
    /// As for [`get_artifact`](Self::get_artifact).
    fn has_file(&self, task_id: &str, artifact_id: &str, kept: &KeptFile) -> Result<bool, FileError> {
        let paths = self.get_artifact(task_id, artifact_id)?;
        Ok(is_among(paths.iter().map(PathBuf::as_path), kept))
    }

    /// Deletes an artifact's files; none may be there.
    ///
    /// # Errors
    /// [`FileError`] if an id is not a plain name, or if a file cannot be deleted.
    fn delete_artifact(&self, task_id: &str, artifact_id: &str) -> Result<(), FileError>;

    /// Saves the files of a message and returns their paths, in the order of the parts.
    ///
    /// # Errors
    /// As for [`save_artifact`](Self::save_artifact).
    fn save_message(&self, message: &A2aMessage) -> Result<Vec<PathBuf>, FileError>;

    /// Returns the paths of a message's files, sorted; none if nothing was saved.
    ///
    /// # Errors
    /// As for [`get_artifact`](Self::get_artifact).
    fn get_message(&self, message_id: &str) -> Result<Vec<PathBuf>, FileError>;

    /// Deletes a message's files; none may be there.
    ///
    /// # Errors
    /// As for [`delete_artifact`](Self::delete_artifact).
    fn delete_message(&self, message_id: &str) -> Result<(), FileError>;
}
