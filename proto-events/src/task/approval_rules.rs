//! The rules of a task's approvals: when one may be requested and decided, and which call it permits.

use std::borrow::Cow;

use crate::call::request::{CallKind, CallRequested};
use crate::json::{JsonObject, JsonText};
use crate::task::approval::{Approval, ApprovalBook, ApprovalDecided, ApprovalRejection, ApprovalRequested};
use crate::task::state::Task;

impl Task {
    /// Returns all approvals of the task, decided or not.
    pub fn approvals(&self) -> &ApprovalBook {
        &self.approvals
    }

    /// Returns the approvals that still await a decision, oldest first: undecided, requested by the newest
    /// run, of a task that is not over.
    pub fn awaited_approvals(&self) -> impl Iterator<Item = &Approval> {
        self.approvals.iter().filter(|approval| self.is_awaited(approval))
    }

    fn is_awaited(&self, approval: &Approval) -> bool {
        approval.decision.is_none()
            && !self.state().is_terminal()
            && approval.request.origin.run == self.runs()
            && self.calls().get(&approval.request.call_id).is_none()
    }

    /// Whether a call was made under this approval: each approval permits one call.
    pub fn is_used(&self, approval: &Approval) -> bool {
        self.calls().uses_approval(&approval.request.approval_id)
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

    /// Checks a decision and returns whether it is new; a repeated equal decision is accepted without an
    /// event.
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
                by: before.decided_by.name.clone(),
            }),
            None if self.is_awaited(approval) => Ok(true),
            None if self.state().is_terminal() => {
                Err(ApprovalRejection::TaskOver { approval_id: approval_id(), state: self.state() })
            }
            None => Err(ApprovalRejection::Superseded(approval_id())),
        }
    }

    /// Checks that a call which names an approval is the call that was approved, and that any other call was not
    /// denied (R11).
    pub(super) fn check_approval(&self, request: &CallRequested) -> Result<(), ApprovalRejection> {
        let of = |approval_id: &str, why| {
            let (call_id, approval_id) = (request.call_id.clone(), approval_id.to_owned());
            Err(ApprovalRejection::NotApproved { call_id, approval_id, why })
        };
        let Some(approval_id) = &request.approval else {
            let denied = self.approvals.iter().find(|approval| {
                approval.request.call_id == request.call_id
                    && approval.verdict().is_some_and(|decided| !decided.approved)
            });
            return denied.map_or(Ok(()), |denied| of(&denied.request.approval_id, "it was denied"));
        };
        let refused = |why| of(approval_id, why);
        let Some(approval) = self.approvals.get(approval_id) else {
            return refused("it was never requested");
        };
        let asked = &approval.request;
        match approval.verdict().map(|decided| decided.approved) {
            _ if asked.changed_agent().is_some() => refused("it is about the agent and permits no call"),
            _ if asked.exceeded_budget().is_some() => refused("it is about the budget and permits no call"),
            None => refused("it is not decided yet"),
            Some(false) => refused("it was denied"),
            Some(true) if asked.tool != request.target => refused("it is for another tool"),
            Some(true) if self.is_used(approval) => refused("it was already used for a call"),
            Some(true) if asked.args != *approved_args(request) => refused("it is for other arguments"),
            Some(true) if asked.origin.parent != request.origin.parent => {
                refused("it is for another request")
            }
            // After the approval the model calls again, under another call id.
            Some(true) if request.kind == CallKind::Delegate => Ok(()),
            Some(true) if asked.call_id != request.call_id => refused("it is for another call"),
            Some(true) => Ok(()),
        }
    }
}

/// Returns the arguments that an approval of this call names: the call's own; for another agent without the
/// `task` field, whose ids and times differ for each call.
pub fn approved_args(request: &CallRequested) -> Cow<'_, JsonText> {
    match request.args.read::<JsonObject>() {
        Ok(mut fields) if request.kind == CallKind::Delegate => {
            fields.remove("task");
            Cow::Owned(fields.to_text())
        }
        _ => Cow::Borrowed(&request.args),
    }
}
