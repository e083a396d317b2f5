//! What may be wished of a task, and how it says no.

use super::posted_again::Difference;
use crate::call::{CallCommand, CallRejection};
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
    /// Do something about a call.
    Call(CallCommand),
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
    /// A message between a tool call and its answer.
    #[error(transparent)]
    IllFormed(#[from] IllFormed),
}
