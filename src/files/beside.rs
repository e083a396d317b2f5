//! The files of artifacts on their way to a task's log: written to the store first where they stand there instead of the log, and
//! copied to it afterwards elsewhere.

use std::sync::Arc;

use proto_events::id::Digest;
use proto_events::model::{Artifact, Part};
use sha2::{Digest as _, Sha256};
use taskreel_log::artifacts::{A2aArtifact, A2aFile, A2aFileContent, A2aPart, KeptFile};
use taskreel_log::views::file_in;

use crate::files::base64::decoded;
use crate::files::error::FileError;
use crate::files::store::FileStore;

/// The bytes from which on a file stands in the store instead of the log: below, the digest saves little.
const KEPT_FROM: usize = 4_096;

/// The file store of an agent.
#[derive(Clone, Default)]
pub(crate) struct FilesBeside(Option<Arc<dyn FileStore>>);

impl std::fmt::Debug for FilesBeside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FilesBeside").field(&self.0.is_some()).finish()
    }
}

impl FilesBeside {
    pub(crate) fn new(store: Arc<dyn FileStore>) -> Self {
        Self(Some(store))
    }

    /// Whether an artifact has files of which the store is told.
    pub(crate) fn concerns(&self, artifact: &Artifact) -> bool {
        self.0.is_some() && artifact.parts.iter().any(|part| with_content(part).is_some())
    }

    /// Writes the files that stand in the store instead of the log, and puts their digests in their place. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if a file is no base64 or cannot be written; nothing of the artifact may go to the log then.
    pub(crate) fn write_before(&self, task_id: &str, artifact: &mut Artifact) -> Result<(), FileError> {
        let Some(store) = self.0.as_ref().filter(|store| store.is_instead_of_log()) else { return Ok(()) };
        let artifact_id = artifact.id.clone().unwrap_or_default();
        for part in &mut artifact.parts {
            let Some((file, text)) = with_content(part) else { continue };
            let content = decoded(&text)?;
            if content.len() < KEPT_FROM {
                continue;
            }
            let kept = KeptFile {
                sha256: Digest(Sha256::digest(&content).into()).to_string(),
                size: content.len() as u64,
                name: file.name.clone(),
                mime_type: file.mime_type.clone(),
            };
            drop(content);
            store.save_artifact(task_id, &only(&artifact_id, vec![A2aPart::File(file)]))?;
            *part = kept.in_place_of_content(part);
        }
        Ok(())
    }

    /// Copies the files of an artifact that is in the log. Blocks. A copy that fails is named in the program's own log: the
    /// file itself is safe.
    pub(crate) fn copy_after(&self, task_id: &str, artifact: &Artifact) {
        let Some(store) = self.0.as_ref().filter(|store| !store.is_instead_of_log()) else { return };
        let files = artifact.parts.iter().filter_map(with_content).map(|(file, _)| A2aPart::File(file));
        let files: Vec<A2aPart> = files.collect();
        if files.is_empty() {
            return;
        }
        let artifact_id = artifact.id.clone().unwrap_or_default();
        if let Err(error) = store.save_artifact(task_id, &only(&artifact_id, files)) {
            tracing::warn!(task_id, artifact_id, %error, "the files of an artifact were not copied; the log has them");
        }
    }
}

/// Returns the file that a part holds with its content, and that content in base64.
fn with_content(part: &Part) -> Option<(A2aFile, String)> {
    let file = file_in(part)?;
    let text = match &file.content {
        A2aFileContent::Bytes(text) => text.clone(),
        A2aFileContent::Uri(_) => return None,
    };
    Some((file, text))
}

fn only(artifact_id: &str, parts: Vec<A2aPart>) -> A2aArtifact {
    A2aArtifact { artifact_id: artifact_id.to_owned(), name: None, description: None, parts }
}
