//! What may be wished of a task, and how it says no.

use super::posted_again::Difference;
use super::{ApprovalDecided, ApprovalRejection, ApprovalRequested};
use crate::call::{CallCommand, CallRejection};
use crate::id::Digest;
use crate::json::JsonObject;
use crate::model::{Artifact, Message, PostedTask, TaskState};
use crate::turn::{IllFormed, TurnMessage};

/// A wish.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskCommand {
    /// Take the task in; or, if its id is known, what is new in it.
    Submit(Box<PostedTask>),
    /// Start work on the last item.
    Begin,
    /// Finish well, perhaps with a last message.
    Complete(Option<Message>),
    /// Finish badly.
    Fail {
        /// Why: becomes `metadata.error`.
        error: String,
    },
    /// Wait for a person, perhaps with a question.
    RequireInput(Option<Message>),
    /// Give up: close every open call, then the task.
    Cancel {
        /// Why, in the caller's words.
        reason: Option<String>,
        /// What else to note in the metadata.
        metadata: JsonObject,
    },
    /// Add a message.
    AppendMessage(Message),
    /// Add an artifact.
    AppendArtifact {
        /// The artifact.
        artifact: Artifact,
        /// The part of the current run whose output it is.
        part: Option<u32>,
    },
    /// Set keys of the metadata.
    MergeMetadata(JsonObject),
    /// Add a message to or from the model.
    AppendInferMessage(TurnMessage),
    /// Ask whether a call may be made.
    RequestApproval(Box<ApprovalRequested>),
    /// Decide whether it may. The same decision again adds nothing.
    DecideApproval(ApprovalDecided),
    /// Do something about a call.
    Call(CallCommand),
}

impl TaskCommand {
    /// SHA-256 of what the command says: tells its repetition from another command under the same id. The
    /// same in every release, since it is kept in the log.
    pub fn digest(&self) -> Digest {
        let text = |text: &str| Digest::of(text.as_bytes());
        let message = |message: &Option<Message>| match message {
            Some(message) => text(message.to_json().as_str()),
            None => Digest::default(),
        };
        let (word, body) = match self {
            Self::Submit(posted) => ("submit", text(posted.to_json().as_str())),
            Self::Begin => ("begin", Digest::default()),
            Self::Complete(last) => ("complete", message(last)),
            Self::Fail { error } => ("fail", text(error)),
            Self::RequireInput(question) => ("require-input", message(question)),
            Self::Cancel { reason, metadata } => {
                let reason = text(reason.as_deref().unwrap_or_default());
                let metadata = text(metadata.to_text().as_str());
                ("cancel", Digest::of_parts(&[&reason.0, &metadata.0]))
            }
            Self::AppendMessage(added) => ("append-message", text(added.to_json().as_str())),
            Self::AppendArtifact { artifact, part } => {
                let part = part.map_or_else(|| "-".to_owned(), |part| part.to_string());
                let artifact = text(artifact.to_json().as_str());
                ("append-artifact", Digest::of_parts(&[&artifact.0, part.as_bytes()]))
            }
            Self::MergeMetadata(entries) => ("merge-metadata", text(entries.to_text().as_str())),
            Self::DecideApproval(ApprovalDecided { approval_id, approved, reason, decided_by }) => {
                let reason = text(reason.as_deref().unwrap_or_default());
                let said = [approval_id.as_bytes(), &[u8::from(*approved)], &reason.0, decided_by.as_bytes()];
                ("decide-approval", Digest::of_parts(&said))
            }
            // These three come from the system itself, which names them by call, attempt and kind.
            Self::RequestApproval(asked) => ("request-approval", text(&asked.approval_id)),
            Self::AppendInferMessage(said) => ("append-infer-message", text(&said.message.content)),
            Self::Call(command) => ("call", text(command.call_id())),
        };
        Digest::of_parts(&[word.as_bytes(), b"\0", &body.0])
    }
}

/// A task's "no".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskRejection {
    /// The lifecycle has no such edge. Protolink's words.
    #[error("Invalid task state transition: {from} -> {to}")]
    InvalidTransition {
        /// The state it is in.
        from: TaskState,
        /// The state that was asked for.
        to: TaskState,
    },
    /// There is no such task.
    #[error("the task does not exist")]
    NotFound,
    /// It was posted again while it runs.
    #[error("Task '{0}' is already running")]
    AlreadyRunning(String),
    /// It was posted again, and is not the stored task with something appended.
    #[error("task `{id}` is known with another content: {difference}")]
    Differs {
        /// The task's id.
        id: String,
        /// The first difference.
        difference: Difference,
    },
    /// The task is over and takes only evidence, metadata and messages.
    #[error("the task is {0}; only messages and metadata may still be added")]
    Over(TaskState),
    /// About a call.
    #[error(transparent)]
    Call(#[from] CallRejection),
    /// About an approval.
    #[error(transparent)]
    Approval(#[from] ApprovalRejection),
    /// A message between a tool call and its answer.
    #[error(transparent)]
    IllFormed(#[from] IllFormed),
}
