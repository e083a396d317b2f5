//! The files of artifacts that callers add, beside the log: written to the agent's file store before the event or after it.

use proto_events::model::Artifact;
use proto_events::task::TaskCommand;

use crate::actors::shared::messages::{TaskOp, ToTask};
use crate::error::Error;
use crate::files::beside::{References, references, taken};
use crate::system::calls_runtime::entered;
use crate::system::handle::System;

/// Artifacts of which the file store gets copies when they are in the log; by default none.
#[derive(Default)]
pub(crate) struct FilesToCopy {
    task_id: String,
    artifacts: Vec<Artifact>,
}

impl FilesToCopy {
    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.artifacts.is_empty()
    }
}

impl System {
    /// Writes the files of a command's artifacts that stand beside the log instead of in it, and puts their digests in their
    /// place. Returns the artifacts whose files are to be copied later.
    ///
    /// # Errors
    /// [`Error::Stopped`] if nothing is accepted any more, or [`Error::FileNotKept`] if a file cannot be written or a reference
    /// leads to none: nothing of its artifact goes to the log, and the command has lost its artifacts.
    pub(crate) async fn keep_files(&self, task_id: &str, command: &mut ToTask) -> Result<FilesToCopy, Error> {
        let files = &self.own_agent().agent.files;
        if !artifacts_of(&mut command.op).iter().any(|artifact| files.concerns(artifact)) {
            return Ok(FilesToCopy::default());
        }
        self.refuse_if_stopping()?;
        // The same post and the same command are told by what was sent, whatever store the agent has.
        if let TaskOp::Submit(posted) = &mut command.op {
            posted.source = posted.source();
        }
        if command.cause.may_repeat && files.is_instead_of_log() {
            command.cause.content = Some(command.op.content());
        }
        let artifacts = artifacts_of(&mut command.op);
        let known = self.known_references(task_id, artifacts).await?;
        let given = artifacts.iter_mut().map(taken).collect();
        let (clock, calls) = (&*self.inner.ports.clock, self.inner.running().parts.calls.clone());
        let kept = entered(calls, files.check_and_store(clock, task_id, given, known)).await;
        let kept = kept.map_err(|not| Error::FileNotKept { artifact: not.artifact, why: not.why })?;
        artifacts.iter_mut().zip(kept.artifacts).for_each(|(place, artifact)| *place = artifact);
        Ok(FilesToCopy { task_id: task_id.to_owned(), artifacts: kept.to_copy })
    }

    /// Copies the files of artifacts that are in the log now. A copy that fails changes nothing.
    pub(crate) async fn copy_files(&self, of: FilesToCopy) {
        if of.artifacts.is_empty() {
            return;
        }
        let (clock, calls) = (&*self.inner.ports.clock, self.inner.running().parts.calls.clone());
        entered(calls, self.own_agent().agent.files.copy(clock, &of.task_id, of.artifacts)).await;
    }

    /// Returns the references that the task's log holds, if these artifacts have any: a client that sends its whole task again
    /// refers to what is known, whether the file is still there or not.
    async fn known_references(&self, task_id: &str, artifacts: &[Artifact]) -> Result<References, Error> {
        if references(artifacts).is_empty() {
            return Ok(References::new());
        }
        let handle = self.task(task_id)?;
        match self.query(handle.stream(), TaskOp::Look).await {
            Ok(view) => Ok(view.task.map(|task| references(task.artifacts())).unwrap_or_default()),
            Err(Error::TaskNotFound(_)) => Ok(References::new()),
            Err(error) => Err(error),
        }
    }
}

/// Returns the artifacts that a caller's command adds.
fn artifacts_of(op: &mut TaskOp) -> &mut [Artifact] {
    let command = match op {
        TaskOp::Submit(posted) => return &mut posted.artifacts,
        TaskOp::Command(command) => command,
        _ => return &mut [],
    };
    match command.as_mut() {
        TaskCommand::AppendArtifact { artifact, .. } | TaskCommand::AppendArtifactPart { artifact, .. } => {
            std::slice::from_mut(artifact)
        }
        TaskCommand::Submit(posted) => &mut posted.artifacts,
        _ => &mut [],
    }
}
