//! Approvals: what a call that needs one waits for, and what was decided. An approval is bound to the tool and the
//! digest of the checked arguments (R11): other arguments are another call, and need an approval of their own.

use super::Task;
use crate::call::{CallKind, CallOrigin, CallRequested};
use crate::envelope::Timestamp;
use crate::id::Digest;
use crate::json::{JsonObject, JsonText};
use crate::model::TaskState;

/// Somebody is asked whether a call may be made. The call itself is not intended yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequested {
    /// Unique in its stream.
    pub approval_id: String,
    /// The id that the call will have.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The checked arguments, as the tool would get them.
    pub args: JsonText,
    /// SHA-256 of the text of `args`.
    pub args_digest: Digest,
    /// The capabilities that may not be used without being asked for.
    pub capabilities: Vec<String>,
    /// Where the call comes from.
    pub origin: CallOrigin,
}

/// Somebody decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDecided {
    /// Which approval.
    pub approval_id: String,
    /// Whether the call may be made.
    pub approved: bool,
    /// Why, in their words.
    pub reason: Option<String>,
    /// Who, by name as far as it is known.
    pub decided_by: String,
}

/// One approval and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// What is asked for.
    pub request: ApprovalRequested,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// What was decided, and when.
    pub decision: Option<(ApprovalDecided, Timestamp)>,
}

impl Approval {
    /// What was decided, if anything was.
    pub fn verdict(&self) -> Option<&ApprovalDecided> {
        self.decision.as_ref().map(|(decided, _)| decided)
    }
}

/// All approvals of one task, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalBook(pub(crate) Vec<Approval>);

impl ApprovalBook {
    /// The approval with this id.
    pub fn get(&self, approval_id: &str) -> Option<&Approval> {
        self.0.iter().rev().find(|approval| approval.request.approval_id == approval_id)
    }

    /// All approvals, oldest first.
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

/// Why a command about an approval is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalRejection {
    /// No such approval in this stream.
    #[error("approval `{0}` was never asked for in this task")]
    Unknown(String),
    /// The id has been used.
    #[error("approval `{0}` was asked for before; an approval id names one question")]
    AlreadyRequested(String),
    /// The run that asks is not the one that is going on.
    #[error("approval `{0}` cannot be asked for: its run is not going on")]
    NotRunning(String),
    /// It was decided before, the other way.
    #[error("approval `{approval_id}` was {} by {by} before; what is decided once is not changed", verdict(*.approved))]
    AlreadyDecided {
        /// The approval.
        approval_id: String,
        /// What was decided.
        approved: bool,
        /// By whom.
        by: String,
    },
    /// The task went on without it.
    #[error("approval `{0}` is not waited for any more: the task went on without it")]
    Superseded(String),
    /// The task is over.
    #[error("approval `{approval_id}` is not waited for any more: the task is {state}")]
    TaskOver {
        /// The approval.
        approval_id: String,
        /// How the task ended.
        state: TaskState,
    },
    /// A call names an approval that was not given.
    #[error("call `{call_id}` cannot be made under approval `{approval_id}`: {why}")]
    NotApproved {
        /// The call.
        call_id: String,
        /// The approval that it names.
        approval_id: String,
        /// What is missing.
        why: &'static str,
    },
}

const fn verdict(approved: bool) -> &'static str {
    if approved { "approved" } else { "denied" }
}

impl Task {
    /// Its approvals, decided or not.
    pub fn approvals(&self) -> &ApprovalBook {
        &self.approvals
    }

    /// The approvals that somebody still waits for, oldest first: not decided, asked for by the newest run, of a task
    /// that is not over.
    pub fn awaited_approvals(&self) -> impl Iterator<Item = &Approval> {
        self.approvals.iter().filter(|approval| self.is_awaited(approval))
    }

    fn is_awaited(&self, approval: &Approval) -> bool {
        approval.decision.is_none()
            && !self.state().is_terminal()
            && approval.request.origin.run == self.runs()
            && self.calls().get(&approval.request.call_id).is_none()
    }

    /// Whether a call was made under it: an approval is good for one.
    pub fn is_used(&self, approval: &Approval) -> bool {
        let id = Some(&approval.request.approval_id);
        self.calls().iter().any(|call| call.request.approval.as_ref() == id)
            || self.calls().get(&approval.request.call_id).is_some()
    }

    pub(super) fn may_ask(&self, request: &ApprovalRequested) -> Result<(), ApprovalRejection> {
        let id = || request.approval_id.clone();
        if self.run().is_none() || request.origin.run != self.runs() {
            return Err(ApprovalRejection::NotRunning(id()));
        }
        match self.approvals.get(&request.approval_id) {
            Some(_) => Err(ApprovalRejection::AlreadyRequested(id())),
            None => Ok(()),
        }
    }

    /// Whether this decision is new. The same one again is not.
    pub(super) fn may_decide(&self, decided: &ApprovalDecided) -> Result<bool, ApprovalRejection> {
        let approval_id = || decided.approval_id.clone();
        let Some(approval) = self.approvals.get(&decided.approval_id) else {
            return Err(ApprovalRejection::Unknown(approval_id()));
        };
        match approval.verdict() {
            Some(before) if before.approved == decided.approved => Ok(false),
            Some(before) => Err(ApprovalRejection::AlreadyDecided {
                approval_id: approval_id(),
                approved: before.approved,
                by: before.decided_by.clone(),
            }),
            None if self.is_awaited(approval) => Ok(true),
            None if self.state().is_terminal() => {
                Err(ApprovalRejection::TaskOver { approval_id: approval_id(), state: self.state() })
            }
            None => Err(ApprovalRejection::Superseded(approval_id())),
        }
    }

    /// A call that names an approval is the very call that was approved (R11).
    pub(super) fn check_approval(&self, request: &CallRequested) -> Result<(), ApprovalRejection> {
        let Some(approval_id) = &request.approval else { return Ok(()) };
        let refused = |why| {
            let (call_id, approval_id) = (request.call_id.clone(), approval_id.clone());
            Err(ApprovalRejection::NotApproved { call_id, approval_id, why })
        };
        let Some(approval) = self.approvals.get(approval_id) else {
            return refused("it was never asked for");
        };
        let asked = &approval.request;
        match approval.verdict().map(|decided| decided.approved) {
            None => refused("it was not decided"),
            Some(false) => refused("it was denied"),
            Some(true) if asked.tool != request.target => refused("it is for another tool"),
            Some(true) if self.is_used(approval) => refused("a call was made under it before"),
            Some(true) if asked.args_digest != asked_for(request) => refused("it is for other arguments"),
            // The model asks again after a person's approval, by a call of its own.
            Some(true) if request.kind == CallKind::Delegate => Ok(()),
            Some(true) if asked.call_id != request.call_id => refused("it is for another call"),
            Some(true) => Ok(()),
        }
    }
}

/// Digest of what was to be approved: the arguments; of a question to another agent what the model wants of it, since
/// the task that the agent is sent has ids and times of ours.
fn asked_for(request: &CallRequested) -> Digest {
    match request.args.read::<JsonObject>() {
        Ok(mut fields) if request.kind == CallKind::Delegate => {
            fields.remove("task");
            Digest::of(fields.to_text().as_str().as_bytes())
        }
        _ => request.args_digest,
    }
}
