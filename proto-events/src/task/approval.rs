//! Approvals: requested before a call that needs one, and decided by a person or a handler. An approval is
//! bound to the tool and the checked arguments (R11): a call with other arguments needs its own
//! approval.

use crate::call::request::CallOrigin;
use crate::envelope::{Principal, Timestamp};
use crate::json::JsonText;
use crate::model::task_state::TaskState;

/// A request to approve a call. The call itself is not yet requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequested {
    /// The approval's id, unique in its stream.
    pub approval_id: String,
    /// The id that the call will have.
    pub call_id: String,
    /// The name of the tool or of the other agent.
    pub tool: String,
    /// The checked arguments, as the tool would receive them.
    pub args: JsonText,
    /// The capabilities that require the approval.
    pub capabilities: Vec<String>,
    /// The place in the run from which the call comes.
    pub origin: CallOrigin,
}

/// The name under which an approval handler in the host's code decides.
pub const BY_HANDLER: &str = "approval handler";

/// The name under which the system itself decides a question that has become pointless.
pub const BY_SYSTEM: &str = "taskreel";

/// The decision on an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDecided {
    /// The id of the approval.
    pub approval_id: String,
    /// Whether the call may be made.
    pub approved: bool,
    /// The reason, as given by the person.
    pub reason: Option<String>,
    /// The name of the person or handler that decided, if known.
    pub decided_by: Principal,
}

/// An approval and its decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The request.
    pub request: ApprovalRequested,
    /// The time of the request.
    pub requested_at: Timestamp,
    /// The decision and its time.
    pub decision: Option<(ApprovalDecided, Timestamp)>,
}

impl Approval {
    /// Returns the decision, if made.
    pub fn verdict(&self) -> Option<&ApprovalDecided> {
        self.decision.as_ref().map(|(decided, _)| decided)
    }
}

/// All approvals of one task, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalBook(pub(crate) Vec<Approval>);

impl ApprovalBook {
    /// Returns the approval with this id.
    pub fn get(&self, approval_id: &str) -> Option<&Approval> {
        self.0.iter().rev().find(|approval| approval.request.approval_id == approval_id)
    }

    /// Returns all approvals, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Approval> {
        self.0.iter()
    }

    pub(super) fn requested(&mut self, request: &ApprovalRequested, at: Timestamp) {
        self.0.push(Approval { request: request.clone(), requested_at: at, decision: None });
    }

    pub(super) fn decided(&mut self, decided: &ApprovalDecided, at: Timestamp) {
        let asked = |approval: &&mut Approval| approval.request.approval_id == decided.approval_id;
        if let Some(approval) = self.0.iter_mut().rev().find(asked) {
            approval.decision = Some((decided.clone(), at));
        }
    }
}

/// The reason why a command about an approval is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalRejection {
    /// The stream has no such approval.
    #[error("approval `{0}` was never requested in this task")]
    Unknown(String),
    /// The id is already used.
    #[error("approval `{0}` was already requested; an approval id identifies one request")]
    AlreadyRequested(String),
    /// The request does not come from the current run.
    #[error("approval `{0}` cannot be requested: its run is not active")]
    NotRunning(String),
    /// The approval was decided before, the other way.
    #[error("approval `{approval_id}` was already {} by {by}; a decision cannot be changed", verdict(*.approved))]
    AlreadyDecided {
        /// The approval.
        approval_id: String,
        /// The earlier decision: whether the call may be made.
        approved: bool,
        /// The name of the person or handler that decided.
        by: String,
    },
    /// The task continued without the approval.
    #[error("approval `{0}` is no longer pending: the task continued without it")]
    Superseded(String),
    /// The task is over.
    #[error("approval `{approval_id}` is no longer pending: the task is {state}")]
    TaskOver {
        /// The approval.
        approval_id: String,
        /// The final state of the task.
        state: TaskState,
    },
    /// A call names an approval that was not given.
    #[error("call `{call_id}` cannot be made under approval `{approval_id}`: {why}")]
    NotApproved {
        /// The id of the call.
        call_id: String,
        /// The approval that it names.
        approval_id: String,
        /// The reason, as a phrase after the call's name.
        why: &'static str,
    },
}

const fn verdict(approved: bool) -> &'static str {
    if approved { "approved" } else { "denied" }
}
