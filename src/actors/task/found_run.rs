//! A run that was open when its task was read, and what its agent's definition has become since: whether a person is
//! asked about the change, and in which commands.

use proto_events::id::Mint;
use proto_events::task::{
    AgentChange, Approval, ApprovalDecided, ApprovalRequested, BY_SYSTEM, CHANGED_AGENT_ID, ChangeIds, Task,
    TaskCommand,
};
use taskreel_log::views::agent_change;

use crate::actors::entity::Entity;
use crate::actors::shared::parts::Shared;
use crate::actors::stream_reads::on_blocking_pool;
use crate::agent::definition_change::ChangedAgent;
use crate::error::Error;

/// The agent's definition as a run found it that was open when its task was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundRun {
    /// The number of the run.
    pub(crate) run: u32,
    /// The change of the definition since the run last went on, if a person is asked about it.
    pub(crate) change: Option<AgentChange>,
    /// The reason why an earlier question about a change is pointless, if it is.
    pub(crate) settled: &'static str,
    /// Whether a person was asked, where that is needed.
    pub(crate) is_looked_at: bool,
}

impl FoundRun {
    /// Looks at the run of a task that was just read; `None` without one.
    pub(crate) async fn new(shared: &Shared, entity: &Entity<Task>) -> Result<Option<Self>, Error> {
        let task = entity.state();
        if task.run().is_none() {
            return Ok(None);
        }
        let run = task.runs();
        if shared.agent.on_changed == ChangedAgent::Follow {
            let settled = "the agent's tasks follow its newest definition";
            return Ok(Some(Self { run, change: None, settled, is_looked_at: false }));
        }
        let (store, stream) = (shared.store.clone(), entity.stream().clone());
        let epoch = store.fence().epoch;
        let read = move || agent_change(store.as_ref(), &stream, epoch);
        let change = on_blocking_pool(&shared.store, entity.stream(), read).await??;
        let settled = "the agent's definition is again what it was";
        Ok(Some(Self { run, change, settled, is_looked_at: false }))
    }
}

impl FoundRun {
    /// Whether the newest question about a change stands for this one too: it is the same change, or a person has denied the
    /// other one, and what a person denied stays denied, whatever the agent is now.
    pub(crate) fn is_asked(&self, task: &Task) -> bool {
        let is_denied = |approval: &Approval| approval.verdict().is_some_and(|decided| !decided.approved);
        let (asked, change) = (task.changed_agent(), self.change);
        asked.is_some_and(|(approval, known)| {
            change.is_some_and(|change| known.to == change.to || is_denied(approval))
        })
    }
}

/// Returns the commands that ask about the change, or withdraw an open question about another one.
pub(crate) fn commands(task: &Task, found: FoundRun, agent: &str, mint: &mut dyn Mint) -> Vec<TaskCommand> {
    let asked = task.changed_agent();
    let open = asked.filter(|(approval, _)| approval.decision.is_none());
    let settle = |approved: bool, reason: &str| {
        let decided = |approval_id: String| ApprovalDecided {
            approval_id,
            approved,
            reason: Some(reason.to_owned()),
            decided_by: BY_SYSTEM.into(),
        };
        let open = open.map(|(approval, _)| approval.request.approval_id.clone());
        open.map(|approval_id| TaskCommand::DecideApproval(decided(approval_id)))
    };
    let Some(change) = found.change else { return settle(true, found.settled).into_iter().collect() };
    if found.is_asked(task) {
        return Vec::new();
    }
    let ids = ChangeIds { approval_id: mint.id("approval_"), call_id: mint.id(CHANGED_AGENT_ID) };
    let ask = ApprovalRequested::of_changed_agent(task, agent, change, ids);
    let superseded = settle(false, "the agent's definition has changed again");
    superseded.into_iter().chain([TaskCommand::RequestApproval(Box::new(ask))]).collect()
}
