//! A person's decisions through a socket: what is asked, what is answered, and who carries it out.

use serde::{Deserialize, Serialize};

use crate::socket::peer::Peer;

/// A person's decision about a task. `task` is the name of the task's stream in each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperatorRequest {
    /// Approves a call that waits for approval.
    Approve {
        /// The task's stream.
        task: String,
        /// The approval's id.
        approval: String,
    },
    /// Denies a call that waits for approval.
    Deny {
        /// The task's stream.
        task: String,
        /// The approval's id.
        approval: String,
        /// The reason, if one is given.
        reason: Option<String>,
    },
    /// Records the outcome of a call whose outcome is unknown.
    Reconcile {
        /// The task's stream.
        task: String,
        /// The call's id.
        call: String,
        /// The result as JSON, if the call took effect.
        landed: Option<String>,
    },
    /// Stops the investigation of a call whose outcome is unknown.
    Abandon {
        /// The task's stream.
        task: String,
        /// The call's id.
        call: String,
        /// The reason.
        reason: String,
    },
    /// Answers the question of a call.
    Answer {
        /// The task's stream.
        task: String,
        /// The question's id.
        question: String,
        /// The answer, or the reason why it is missing.
        answer: Result<String, String>,
    },
    /// Cancels a task.
    Cancel {
        /// The task's stream.
        task: String,
        /// The reason, if one is given.
        reason: Option<String>,
    },
}

impl OperatorRequest {
    /// Returns the name of the task's stream.
    pub fn task(&self) -> &str {
        match self {
            Self::Approve { task, .. }
            | Self::Deny { task, .. }
            | Self::Reconcile { task, .. }
            | Self::Abandon { task, .. }
            | Self::Answer { task, .. }
            | Self::Cancel { task, .. } => task,
        }
    }
}

/// The result of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorReply {
    /// The state of the task after the decision.
    pub state: String,
    /// The version of the task's stream.
    pub version: u64,
    /// Whether anything was appended; the same decision again appends nothing.
    pub is_new: bool,
    /// The name of the person, as the log records it.
    pub by: String,
}

/// The reasons why a decision is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalKind {
    /// The task, call, approval or question does not exist.
    Unknown,
    /// The task's state does not allow it.
    Rejected,
    /// The request itself is wrong.
    Input,
    /// The program could not carry it out, or cannot tell whether it did.
    Failed,
    /// The program takes no decisions.
    NotTaken,
}

/// A refusal, with its reason in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{why}")]
pub struct OperatorRefusal {
    /// The kind of the refusal.
    pub kind: RefusalKind,
    /// The reason.
    pub why: String,
}

/// The part of a program that carries out decisions that come through its socket. Each call has a thread of its own, and
/// may block.
pub trait OperatorHandler: Send + Sync {
    /// Carries out a decision of the user at the other end.
    ///
    /// # Errors
    /// [`OperatorRefusal`] if it cannot be carried out.
    fn carry_out(&self, peer: &Peer, request: OperatorRequest) -> Result<OperatorReply, OperatorRefusal>;
}
