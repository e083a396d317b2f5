//! The question whether a run goes on that has reached a limit of its budget: an approval of its own kind, which permits no
//! call. While a person has not decided it, the run stays as it is.

use crate::call::request::CallOrigin;
use crate::json;
use crate::json::{JsonObject, JsonText};
use crate::model::run_budget::{BudgetLimit, LimitUse};
use crate::task::approval::{Approval, ApprovalRequested};
use crate::task::changed_agent::ChangeIds;
use crate::task::state::Task;

/// The beginning of the call id of such an approval. The ids of calls begin otherwise, so that no call is made under it.
pub const BUDGET_STOP_ID: &str = "budget_";

/// The capability that such an approval names.
pub const BUDGET_STOP: &str = "budget.exceeded";

impl ApprovalRequested {
    /// A request whether the task's current run goes on, whose next step would exceed this limit.
    pub fn of_budget(task: &Task, agent: &str, over: &LimitUse, ids: ChangeIds) -> Self {
        let part = task.run().map_or(0, |run| run.next_part);
        Self {
            approval_id: ids.approval_id,
            call_id: ids.call_id,
            tool: agent.to_owned(),
            args: json!({"limit": over.limit.name(), "used": over.used, "allowed": over.allowed}).to_text(),
            capabilities: vec![BUDGET_STOP.to_owned()],
            origin: CallOrigin { run: task.runs(), part, ..CallOrigin::default() },
        }
    }

    /// Returns the limit that the request is about; `None` for the request of a call.
    pub fn exceeded_budget(&self) -> Option<LimitUse> {
        if !self.call_id.starts_with(BUDGET_STOP_ID) {
            return None;
        }
        let fields: JsonObject = self.args.read().ok()?;
        let number = |name: &str| fields.get(name).and_then(|number: &JsonText| number.read::<f64>().ok());
        let name = fields.get("limit").and_then(JsonText::to_str)?;
        let limit = BudgetLimit::ALL.into_iter().find(|limit| limit.name() == name)?;
        Some(LimitUse { limit, used: number("used")?, allowed: number("allowed")? })
    }
}

impl Task {
    /// Returns the newest question of the current run whether it goes on beyond its budget, decided or not.
    pub fn budget_stop(&self) -> Option<(&Approval, LimitUse)> {
        let runs = self.run().map(|_| self.runs())?;
        let of_run = self.approvals().iter().rev().filter(|approval| approval.request.origin.run == runs);
        { of_run }.find_map(|approval| Some((approval, approval.request.exceeded_budget()?)))
    }
}
