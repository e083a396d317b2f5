//! The budget of a task and the calls that draw from it; who submitted it, and why it failed.

use std::time::Duration;

use super::Task;
use crate::call::Costs;
use crate::envelope::Principal;
use crate::json::JsonText;
use crate::model::{ModelError, RunBudget, TaskState};

impl Task {
    /// Returns the error with which a run of the task, or a caller, let it fail. What a task was posted with is not an error of
    /// it: a task that is not failed has none.
    pub fn error(&self) -> Option<String> {
        let has_failed = self.history().last().is_some_and(|change| change.to == TaskState::Failed);
        self.metadata().get("error").filter(|_| has_failed).and_then(JsonText::to_str)
    }

    /// Returns the principal that submitted the task; its name is empty if it is unknown.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Returns the budget that the task's run context names, if it names one.
    ///
    /// # Errors
    /// [`ModelError`], naming the wrong field of the budget.
    pub fn run_budget(&self) -> Option<Result<&RunBudget, &ModelError>> {
        let read = || {
            let budget = self.metadata().get("run_context")?.member("budget")?;
            Some(Box::new(RunBudget::from_json(&budget)))
        };
        // It is asked for at each step, and a posted context can be long.
        self.budget.get(read).as_ref().map(|read| Result::as_ref(read))
    }

    /// Returns the time for which the earlier runs of the task worked.
    pub fn worked(&self) -> Duration {
        self.worked
    }

    /// Returns what the calls of the task cost, failed ones and failed attempts too.
    pub fn costs(&self) -> Costs {
        let mut costs = Costs::default();
        for call in self.calls().iter() {
            costs.add(call.request.price.as_ref(), call.usage);
        }
        costs
    }
}
