//! The files of artifacts that callers add, beside the log: written to the agent's file store before the event or after it.

use proto_events::model::Artifact;

use crate::error::Error;
use crate::system::handle::System;

/// Artifacts of which the file store gets copies when they are in the log.
pub(crate) struct FilesToCopy {
    task_id: String,
    artifacts: Vec<Artifact>,
}

impl System {
    /// Writes the files of artifacts that stand beside the log instead of in it, and puts their digests in their place. Returns
    /// the artifacts whose files are to be copied later.
    ///
    /// # Errors
    /// [`Error::FileNotKept`] if a file cannot be written: nothing of its artifact goes to the log.
    pub(crate) async fn keep_files(
        &self,
        task_id: &str,
        artifacts: &mut [Artifact],
    ) -> Result<FilesToCopy, Error> {
        let (files, id) = (self.inner.files.clone(), task_id.to_owned());
        let mut to_copy = FilesToCopy { task_id: task_id.to_owned(), artifacts: Vec::new() };
        if !artifacts.iter().any(|artifact| files.concerns(artifact)) {
            return Ok(to_copy);
        }
        let mut given = artifacts.to_vec();
        let kept = self.on_pool(move || {
            for artifact in &mut given {
                files.write_before(&id, artifact).map_err(|why| Error::FileNotKept {
                    artifact: artifact.id.clone().unwrap_or_default(),
                    why: why.to_string(),
                })?;
            }
            Ok(given)
        });
        artifacts.clone_from_slice(&kept.await?);
        let concerned = artifacts.iter().filter(|artifact| self.inner.files.concerns(artifact));
        to_copy.artifacts = concerned.cloned().collect();
        Ok(to_copy)
    }

    /// Copies the files of artifacts that are in the log now. A copy that fails changes nothing.
    pub(crate) async fn copy_files(&self, of: FilesToCopy) {
        if of.artifacts.is_empty() {
            return;
        }
        let files = self.inner.files.clone();
        let copied = self.on_pool(move || {
            of.artifacts.iter().for_each(|artifact| files.copy_after(&of.task_id, artifact));
            Ok(())
        });
        if let Err(error) = copied.await {
            tracing::warn!(%error, "the files of artifacts were not copied; the log has them");
        }
    }
}
