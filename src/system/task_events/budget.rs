//! Budgets, as a subscriber is told of them: a warning when four fifths of a limit are used, and the limit that ended
//! the run.

use proto_events::call::{CallKind, CallStatus};
use proto_events::json::{JsonObject, JsonText};
use serde_json::{Value, json};

use super::event::object;
use super::fold::Fold;
use crate::agent::budget::{Budget, BudgetUsage};

/// How the text begins with which a run over its budget ends.
const EXCEEDED: &str = "Run budget exceeded: ";

impl Fold {
    /// Warns once for each of these limits that is nearly used up.
    pub(super) fn warn(&mut self, part: u32, limits: &[&'static str]) {
        let Some(budget) = self.budget() else { return };
        let usage = self.usage(part);
        for limit in budget.near(&usage).into_iter().filter(|limit| limits.contains(limit)) {
            if self.warned.contains(&(part, limit)) {
                continue;
            }
            self.warned.push((part, limit));
            let (observed, most) = figures(limit, &usage, &budget);
            let text = format!("Run budget warning: {limit} observed {observed} near limit {most}");
            let decision = object([
                ("effect", JsonText::string("warn")),
                ("limit_name", JsonText::string(limit)),
                ("observed", JsonText::from(observed)),
                ("limit", JsonText::from(most)),
                ("message", JsonText::string(&text)),
                ("usage", self.used(part)),
            ]);
            self.llm("budget_warning", None, object([("decision", decision.to_text())]));
        }
    }

    /// Names the limit, if that is what ended the run. What is checked behind the prompt is told after the step.
    pub(super) fn over_budget(&mut self, part: u32, error: &str) {
        let Some(said) = error.strip_prefix(EXCEEDED) else { return };
        let mut words = said.split_whitespace();
        let limit = words.next().unwrap_or_default().to_owned();
        let numbers: Vec<Value> = words.filter_map(|word| serde_json::from_str(word).ok()).collect();
        if limit == "max_llm_calls" || limit == "max_input_tokens" {
            let step = u32::try_from(self.usage(part).steps).unwrap_or(u32::MAX).saturating_add(1);
            self.llm("llm_step", Some(step), JsonObject::new());
            let manifest = object([("agent_name", JsonText::string(&self.agent.name))]).to_text();
            self.llm("context_prepared", Some(step), object([("manifest", manifest)]));
        }
        let decision = object([
            ("effect", JsonText::string("deny")),
            ("limit_name", JsonText::string(&limit)),
            ("observed", JsonText::from(numbers.first().cloned().unwrap_or_default())),
            ("limit", JsonText::from(numbers.get(1).cloned().unwrap_or_default())),
            ("message", JsonText::string(error)),
            ("usage", self.used(part)),
        ]);
        self.llm("budget_exceeded", None, object([("decision", decision.to_text())]));
    }

    /// What the part has used so far.
    pub(super) fn used(&self, part: u32) -> JsonText {
        let usage = self.usage(part);
        JsonText::from(json!({
            "steps": usage.steps,
            "llm_calls": usage.llm_calls,
            "tool_calls": usage.tool_calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "runtime_seconds": usage.runtime_seconds,
        }))
    }

    fn budget(&self) -> Option<Budget> {
        let context = self.task.metadata().get("run_context")?.to_value();
        Budget::from_json(context.get("budget")?).ok()
    }

    /// Input tokens are estimated over the whole history, which is not in the task's log: they are left out here.
    fn usage(&self, part: u32) -> BudgetUsage {
        let mut usage = BudgetUsage::default();
        for call in self.task.calls().iter() {
            let origin = &call.request.origin;
            if origin.run != self.task.runs() || origin.part != part || origin.step == 0 {
                continue;
            }
            if call.request.kind == CallKind::Infer {
                usage.steps += 1;
                usage.llm_calls += 1;
            } else if call.request.kind == CallKind::Tool {
                usage.tool_calls += 1;
            }
            if let Some(tokens) = call.usage.filter(|_| matches!(call.status, CallStatus::Succeeded(_))) {
                usage.output_tokens = usage.output_tokens.saturating_add(tokens.output_tokens);
            }
        }
        if let Some(run) = self.task.run() {
            let millis = self.now().millis_since(run.began);
            usage.runtime_seconds = std::time::Duration::from_millis(millis).as_secs_f64();
        }
        usage
    }
}

/// What was used of a limit, and the limit.
fn figures(limit: &str, usage: &BudgetUsage, budget: &Budget) -> (Value, Value) {
    match limit {
        "max_steps" => (usage.steps.into(), budget.max_steps.into()),
        "max_llm_calls" => (usage.llm_calls.into(), budget.max_llm_calls.into()),
        "max_tool_calls" => (usage.tool_calls.into(), budget.max_tool_calls.into()),
        "max_input_tokens" => (usage.input_tokens.into(), budget.max_input_tokens.into()),
        "max_output_tokens" => (usage.output_tokens.into(), budget.max_output_tokens.into()),
        _ => (usage.runtime_seconds.into(), budget.max_runtime_seconds.into()),
    }
}
