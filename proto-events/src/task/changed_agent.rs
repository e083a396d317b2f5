//! The question whether a task goes on under an agent whose definition has changed: an approval of its own kind, which
//! permits no call. While a person has not decided it, the run stays as it is.

use crate::call::request::CallOrigin;
use crate::json;
use crate::json::{JsonObject, JsonText};
use crate::task::approval::{Approval, ApprovalRequested};
use crate::task::state::Task;

/// The beginning of the call id of such an approval. The ids of calls begin otherwise, so that no call is made under it.
pub const CHANGED_AGENT_ID: &str = "revision_";

/// The capability that such an approval names.
pub const CHANGED_AGENT: &str = "agent.changed";

/// A change of an agent's definition, by the numbers of its revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentChange {
    /// The revision under which the run last went on.
    pub from: u32,
    /// The revision that is in force now.
    pub to: u32,
}

impl AgentChange {
    /// Returns the change in words, as the end of a sentence.
    pub fn in_words(self) -> String {
        let Self { from, to } = self;
        format!(
            "the agent's definition has changed, from revision {from} to revision {to}, while the task was under way"
        )
    }
}

/// The ids of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeIds {
    /// The approval's id.
    pub approval_id: String,
    /// The id in place of a call's, which begins with [`CHANGED_AGENT_ID`].
    pub call_id: String,
}

impl ApprovalRequested {
    /// A request whether the task's current run goes on under this agent.
    pub fn of_changed_agent(task: &Task, agent: &str, change: AgentChange, ids: ChangeIds) -> Self {
        let part = task.run().map_or(0, |run| run.next_part);
        Self {
            approval_id: ids.approval_id,
            call_id: ids.call_id,
            tool: agent.to_owned(),
            args: json!({"from": change.from, "to": change.to}).to_text(),
            capabilities: vec![CHANGED_AGENT.to_owned()],
            origin: CallOrigin { run: task.runs(), part, ..CallOrigin::default() },
        }
    }

    /// Returns the change of the agent that the request is about; `None` for the request of a call.
    pub fn changed_agent(&self) -> Option<AgentChange> {
        if !self.call_id.starts_with(CHANGED_AGENT_ID) {
            return None;
        }
        let fields: JsonObject = self.args.read().ok()?;
        let number = |name: &str| fields.get(name).and_then(|number: &JsonText| number.read::<u32>().ok());
        Some(AgentChange { from: number("from")?, to: number("to")? })
    }
}

impl Task {
    /// Returns the newest question of the current run whether it goes on under a changed agent, decided or not.
    pub fn changed_agent(&self) -> Option<(&Approval, AgentChange)> {
        let runs = self.run().map(|_| self.runs())?;
        let of_run = self.approvals().iter().rev().filter(|approval| approval.request.origin.run == runs);
        { of_run }.find_map(|approval| Some((approval, approval.request.changed_agent()?)))
    }

    /// Whether the current run waits for a person as it is, because the agent has changed or its budget is used up: nothing
    /// of it goes on.
    pub fn is_held(&self) -> bool {
        let is_open = |approval: &Approval| approval.decision.is_none();
        self.changed_agent().is_some_and(|(approval, _)| is_open(approval))
            || self.budget_stop().is_some_and(|(approval, _)| is_open(approval))
    }
}
