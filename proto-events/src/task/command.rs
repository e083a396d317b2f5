//! Commands to a task, and the reasons to reject them.

use crate::call::command::{CallCommand, CallRejection};
use crate::id::Digest;
use crate::json::JsonObject;
use crate::model::artifact::Artifact;
use crate::model::message::Message;
use crate::model::posted::PostedTask;
use crate::model::run_budget::LimitUse;
use crate::model::task_state::TaskState;
use crate::task::approval::{ApprovalDecided, ApprovalRejection, ApprovalRequested};
use crate::task::posted_again::PostedDifference;
use crate::turn::{IllFormed, TurnMessage};

/// A command to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskCommand {
    /// Accept the task or, if its id is known, append its new items.
    Submit(Box<PostedTask>),
    /// Start the work on the last item.
    Begin,
    /// Complete the task, optionally with a last message.
    Complete(Option<Message>),
    /// Fail the task.
    Fail {
        /// The error text; becomes `metadata.error`.
        error: String,
    },
    /// Finish badly, because the run used more than its budget allows. What it used becomes `metadata.error`.
    ExceedBudget(LimitUse),
    /// Wait for a person, optionally with a question.
    RequireInput(Option<Message>),
    /// Cancel the task: close every open call, then the task.
    Cancel {
        /// The reason, as given by the caller.
        reason: Option<String>,
        /// Further entries for the metadata.
        metadata: JsonObject,
    },
    /// Add a message.
    AppendMessage(Message),
    /// Add an artifact.
    AppendArtifact {
        /// The artifact.
        artifact: Artifact,
        /// The part of the current run that produced the artifact.
        part: Option<u32>,
    },
    /// Set keys of the metadata.
    MergeMetadata(JsonObject),
    /// Add a message to or from the model.
    AppendInferMessage(TurnMessage),
    /// Request approval of a call.
    RequestApproval(Box<ApprovalRequested>),
    /// Decide an approval. The same decision again adds nothing.
    DecideApproval(ApprovalDecided),
    /// Apply a command to a call.
    Call(CallCommand),
}

impl TaskCommand {
    /// Returns the SHA-256 of the command's content, which distinguishes a repeated command from another one
    /// under the same id. Equal in every release, because the log keeps it.
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
            Self::ExceedBudget(over) => ("exceed-budget", text(&over.to_string())),
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
            // The system itself issues these three, with command ids made of call, attempt and kind.
            Self::RequestApproval(asked) => ("request-approval", text(&asked.approval_id)),
            Self::AppendInferMessage(said) => ("append-infer-message", text(&said.message.content)),
            Self::Call(command) => ("call", text(command.call_id())),
        };
        Digest::of_parts(&[word.as_bytes(), b"\0", &body.0])
    }
}

/// The reason why a task rejects a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskRejection {
    /// The lifecycle has no such edge. The text is Protolink's.
    #[error("Invalid task state transition: {from} -> {to}")]
    InvalidTransition {
        /// The current state.
        from: TaskState,
        /// The requested state.
        to: TaskState,
    },
    /// The task does not exist.
    #[error("the task does not exist")]
    NotFound,
    /// The task was posted again while it runs.
    #[error("Task '{0}' is already running")]
    AlreadyRunning(String),
    /// The posted task is not the stored one with items appended.
    #[error("task `{id}` already exists with different content: {difference}")]
    Differs {
        /// The task's id.
        id: String,
        /// The first difference.
        difference: PostedDifference,
    },
    /// The task is over and takes only evidence, metadata and messages.
    #[error("the task is {0}; only messages and metadata can be added")]
    Over(TaskState),
    /// The rejection of a command about a call.
    #[error(transparent)]
    Call(#[from] CallRejection),
    /// The rejection of a command about an approval.
    #[error(transparent)]
    Approval(#[from] ApprovalRejection),
    /// A message came between a tool call and its result.
    #[error(transparent)]
    IllFormed(#[from] IllFormed),
}
