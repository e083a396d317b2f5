//! Approvals: what a handler or a person decides, and what follows.

use proto_events::envelope::Metadata;
use proto_events::task::{ApprovalDecided, TaskCommand};

use super::{Effect, TaskCore};
use crate::actors::shared::Shared;
use crate::agent::approval::{ApprovalRequest, ApprovalVerdict, BY_HANDLER};
use crate::agent::plan::{self, Act};
use crate::error::Error;

impl TaskCore {
    /// Has the handler asked; once, as far as this actor knows.
    pub(super) fn ask_approver(&mut self, shared: &Shared, approval_id: &str) {
        let Some(approval) = self.task().approvals().get(approval_id) else { return };
        let agent = &shared.agent;
        let tool = agent.tools.get(&approval.request.tool).map(|tool| tool.spec().description.as_str());
        let peer = || agent.peers.get(&approval.request.tool).map(|peer| peer.description());
        let description = tool.or_else(peer).unwrap_or_default();
        let request = ApprovalRequest::of(self.task().id(), description, &approval.request);
        self.outside.known.asked.insert(approval_id.to_owned());
        self.outbox.push(Effect::AskApprover(Box::new(request)));
    }

    /// What the handler answered. It says nothing about an approval that is not waited for any more.
    pub(super) fn answered(
        &mut self,
        approval_id: String,
        verdict: ApprovalVerdict,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let awaited =
            self.task().awaited_approvals().any(|approval| approval.request.approval_id == approval_id);
        if !awaited || self.is_at_rest() {
            return Ok(());
        }
        let (approved, reason) = match verdict {
            ApprovalVerdict::Approved => (true, None),
            ApprovalVerdict::Denied { reason } => (false, reason),
            ApprovalVerdict::AskPerson => {
                self.outside.known.to_person.insert(approval_id);
                return Ok(());
            }
        };
        let decided = ApprovalDecided { approval_id, approved, reason, decided_by: BY_HANDLER.to_owned() };
        self.entity.decide(TaskCommand::DecideApproval(decided), metadata)
    }

    /// A person decides; if the task waits for it, a new run takes it up again.
    pub(super) fn decide_approval(
        &mut self,
        shared: &Shared,
        decided: ApprovalDecided,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let (approval_id, before) = (decided.approval_id.clone(), self.decided());
        self.entity.decide(TaskCommand::DecideApproval(decided), metadata)?;
        if self.decided() == before {
            return Ok(());
        }
        let mut mint = shared.ports.clone();
        for act in plan::after_decision(&mut self.question(shared, metadata, &mut mint), &approval_id) {
            if let Act::Task(command) = act {
                self.entity.decide(command, metadata)?;
            }
        }
        Ok(())
    }
}
