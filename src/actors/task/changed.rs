//! A run that is found open under an agent whose definition has changed: where the host wants it so, a person is asked
//! before anything of it goes on.

use proto_events::envelope::Metadata;
use proto_events::id::Mint;
use proto_events::task::{
    AgentChange, Approval, ApprovalDecided, ApprovalRequested, CHANGED_AGENT_ID, ChangeIds, Task, TaskCommand,
};
use taskreel_log::views::agent_change;

use crate::actors::entity::{Entity, on_blocking_pool};
use crate::actors::shared::messages::Cause;
use crate::actors::shared::parts::Shared;
use crate::actors::task::core::TaskCore;
use crate::agent::changed::ChangedAgent;
use crate::error::Error;

/// The name under which the system itself decides a question that has become pointless.
const BY_SYSTEM: &str = "taskreel";

/// The agent's definition as a run found it that was open when its task was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundRun {
    /// The number of the run.
    run: u32,
    /// The change of the definition since the run last went on, if a person is asked about it.
    change: Option<AgentChange>,
    /// The reason why an earlier question about a change is pointless, if it is.
    settled: &'static str,
    /// Whether a person was asked, where that is needed.
    is_looked_at: bool,
}

impl FoundRun {
    /// Looks at the run of a task that was just read; `None` without one.
    pub(crate) async fn of(shared: &Shared, entity: &Entity<Task>) -> Result<Option<Self>, Error> {
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

impl TaskCore {
    /// Whether nothing more happens without a person. A question of an earlier start counts once this one has looked at
    /// it.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_open = self.found.is_none_or(|found| found.is_looked_at);
        self.is_idle() || (is_open && self.task().is_held())
    }

    /// Asks a person whether the run that was found open goes on, or withdraws a question that has become pointless, in
    /// an append of its own: before the operation is decided, and before anything is planned.
    pub(crate) async fn ask_about_change(
        &mut self,
        shared: &Shared,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let Some(found) = self.found.filter(|found| !found.is_looked_at) else { return Ok(()) };
        let is_same = self.task().run().is_some() && found.run == self.task().runs();
        let mut mint = shared.ports.clone();
        let commands =
            if is_same { commands(self.task(), found, &shared.agent.name, &mut mint) } else { Vec::new() };
        if !commands.is_empty() {
            let to = found.change.map_or(0, |change| change.to);
            let cause = Cause::own(format_args!("changed:{}:{to}", shared.store.fence().epoch), "start");
            let correlation_id = metadata.correlation_id.clone();
            let own = Metadata { correlation_id, ..cause.metadata(metadata.at) };
            for command in commands {
                self.entity.decide(command, &own)?;
            }
            let content = self.content.take();
            let written = self.flush(shared, &own).await;
            self.content = content;
            written?;
        }
        self.found = Some(FoundRun { is_looked_at: true, ..found });
        Ok(())
    }
}

/// Returns the commands that ask about the change, or withdraw an open question about another one.
fn commands(task: &Task, found: FoundRun, agent: &str, mint: &mut dyn Mint) -> Vec<TaskCommand> {
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
    // What a person denied stays denied, whatever the agent is now.
    let is_denied = |approval: &Approval| approval.verdict().is_some_and(|decided| !decided.approved);
    if asked.is_some_and(|(approval, known)| known.to == change.to || is_denied(approval)) {
        return Vec::new();
    }
    let ids = ChangeIds { approval_id: mint.id("approval_"), call_id: mint.id(CHANGED_AGENT_ID) };
    let ask = ApprovalRequested::of_changed_agent(task, agent, change, ids);
    let superseded = settle(false, "the agent's definition has changed again");
    superseded.into_iter().chain([TaskCommand::RequestApproval(Box::new(ask))]).collect()
}
