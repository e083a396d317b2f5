//! Events of a task: facts in the past tense; time and causes are in the record's metadata.

use crate::call::event::CallEvent;
use crate::id::Digest;
use crate::json::JsonObject;
use crate::model::artifact::Artifact;
use crate::model::message::Message;
use crate::model::posted_task::PostedTask;
use crate::model::run_budget::LimitUse;
use crate::model::task_state::TaskState;
use crate::task::approval::{ApprovalDecided, ApprovalRequested};
use crate::task::webhook::WebhookEvent;
use crate::turn::TurnMessage;

/// An event of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskEvent {
    /// The task was submitted, as posted: with any state, messages, artifacts and metadata.
    Submitted(Box<PostedTask>),
    /// The lifecycle state changed.
    StateChanged {
        /// The state before.
        from: TaskState,
        /// The state after.
        to: TaskState,
        /// The limit of the run's budget that ended the run.
        budget: Option<LimitUse>,
    },
    /// The task was posted again with new items, which precede this event in its record.
    PostedAgain {
        /// The SHA-256 of the posted text.
        source: Digest,
    },
    /// A message was added at the end.
    MessageAppended(Message),
    /// An artifact was added at the end.
    ArtifactAppended {
        /// The artifact.
        artifact: Artifact,
        /// The part of the current run that produced the artifact.
        part: Option<u32>,
    },
    /// A piece of an artifact was added: its first one adds the artifact, each other one its parts to that artifact.
    ArtifactPartAppended {
        /// The piece: the artifact's id and the new parts. The other fields count in the first piece.
        artifact: Artifact,
        /// Whether the artifact is complete.
        is_last: bool,
    },
    /// Keys of the metadata were set.
    MetadataMerged(JsonObject),
    /// A caller requested the task's cancellation.
    CancelRequested {
        /// The reason, as given by the caller.
        reason: Option<String>,
    },
    /// An approval was requested for a call.
    ApprovalRequested(Box<ApprovalRequested>),
    /// An approval was decided.
    ApprovalDecided(ApprovalDecided),
    /// A message to or from the model, in a task of an agent that keeps no conversation.
    InferMessageAppended(TurnMessage),
    /// An event of the task's webhooks.
    Webhook(WebhookEvent),
    /// An event of one of the task's calls.
    Call(CallEvent),
}

impl TaskEvent {
    /// A change of state that no budget caused.
    pub const fn state_changed(from: TaskState, to: TaskState) -> Self {
        Self::StateChanged { from, to, budget: None }
    }
}
