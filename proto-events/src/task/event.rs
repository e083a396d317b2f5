//! What happens to a task. Facts in the past tense; when and why stand in the record's metadata.

use super::{ApprovalDecided, ApprovalRequested};
use crate::call::CallEvent;
use crate::json::JsonObject;
use crate::model::{Artifact, Message, PostedTask, TaskState};
use crate::turn::TurnMessage;

/// A fact about one task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskEvent {
    /// The task came in, as it was posted: any state, messages, artifacts, metadata.
    Submitted(Box<PostedTask>),
    /// Its lifecycle went on.
    StateChanged {
        /// Before.
        from: TaskState,
        /// After.
        to: TaskState,
    },
    /// A message was added at the end.
    MessageAppended(Message),
    /// An artifact was added at the end.
    ArtifactAppended {
        /// The artifact.
        artifact: Artifact,
        /// The part of the current run whose output it is.
        part: Option<u32>,
    },
    /// Keys of the metadata were set.
    MetadataMerged(JsonObject),
    /// Somebody asked to cancel it.
    CancelRequested {
        /// Why, in their words.
        reason: Option<String>,
    },
    /// Somebody is asked whether a call may be made.
    ApprovalRequested(Box<ApprovalRequested>),
    /// Somebody decided whether it may.
    ApprovalDecided(ApprovalDecided),
    /// A message to or from the model, in a task of an agent that keeps no conversation.
    InferMessageAppended(TurnMessage),
    /// Something happened to one of its calls.
    Call(CallEvent),
}
