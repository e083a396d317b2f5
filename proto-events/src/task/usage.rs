//! The budget usage of a part of the current run, as far as the task's own stream records it.

use super::Task;
use crate::call::{Call, CallKind, CallStatus};
use crate::json::JsonObject;
use crate::model::{BudgetUsage, ModelError, RunBudget};

impl Task {
    /// Returns the budget that the task's run context names, if it names one.
    ///
    /// # Errors
    /// [`ModelError`], naming the wrong field of the budget.
    pub fn run_budget(&self) -> Option<Result<RunBudget, ModelError>> {
        let context: JsonObject = self.metadata().get("run_context")?.read().ok()?;
        Some(RunBudget::from_json(context.get("budget")?))
    }

    /// Returns the calls that the loop of an infer part made in the current run, oldest first.
    pub fn calls_of_part(&self, part: u32) -> impl Iterator<Item = &Call> {
        self.calls().of_part(self.runs(), part).filter(|call| call.request.origin.step > 0)
    }

    /// Returns the usage of an infer part in the current run. Input tokens and time are zero: the caller
    /// estimates the former over the whole history and measures the latter, since the task's stream holds
    /// neither.
    pub fn usage_of_part(&self, part: u32) -> BudgetUsage {
        let mut used = BudgetUsage::default();
        for call in self.calls_of_part(part) {
            match call.request.kind {
                CallKind::Infer => {
                    used.steps += 1;
                    used.llm_calls += 1;
                }
                CallKind::Tool => used.tool_calls += 1,
                // The other agent counts its own usage, against the same budget.
                CallKind::Delegate => {}
            }
            if let Some(tokens) = call.usage.filter(|_| matches!(call.status, CallStatus::Succeeded(_))) {
                used.output_tokens = used.output_tokens.saturating_add(tokens.output_tokens);
            }
        }
        used
    }
}
