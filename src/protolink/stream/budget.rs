//! Budget events, as a subscriber sees them: a warning when four fifths of a limit are used, and the limit
//! that ended the run.

use std::time::Duration;

use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{BudgetLimit, BudgetUsage, LimitUse};

use crate::protolink::stream::event::object;
use crate::protolink::stream::fold::Fold;
use crate::run::spent;

impl Fold {
    /// Warns of the first limit that is nearly used up, unless it was warned of before. As in Protolink, a limit
    /// behind it stays silent as long as the first is near.
    pub(crate) fn warn(&mut self, part: u32, usage: &BudgetUsage) {
        let Some(Ok(budget)) = self.task.run_budget() else { return };
        let Some(near) = budget.near(usage).into_iter().next() else { return };
        if self.warned.contains(&(part, near.limit)) {
            return;
        }
        self.warned.push((part, near.limit));
        let (name, used, allowed) = (near.limit.name(), near.used_text(), near.allowed_text());
        let text = format!("Run budget warning: {name} observed {used} near limit {allowed}");
        let decision = self.decision(part, "warn", &near, &text);
        self.llm("budget_warning", None, decision);
    }

    /// Reports the limit that ended the run. What is checked after the prompt is reported after the step.
    pub(crate) fn over_budget(&mut self, part: u32, over: &LimitUse) {
        if matches!(over.limit, BudgetLimit::LlmCalls | BudgetLimit::InputTokens) {
            let mut usage = self.usage(part);
            usage.steps = usage.steps.saturating_add(1);
            self.warn(part, &usage);
            let step = u32::try_from(usage.steps).unwrap_or(u32::MAX);
            self.llm("llm_step", Some(step), JsonObject::new());
            let manifest = object([("agent_name", JsonText::string(&self.agent.name))]).to_text();
            self.llm("context_prepared", Some(step), object([("manifest", manifest)]));
        }
        let decision = self.decision(part, "deny", over, &over.to_string());
        self.llm("budget_exceeded", None, decision);
    }

    fn decision(&self, part: u32, effect: &str, limit: &LimitUse, message: &str) -> JsonObject {
        let number = |text: String| JsonText::parse(&text).unwrap_or_default();
        let decision = object([
            ("effect", JsonText::string(effect)),
            ("limit_name", JsonText::string(limit.limit.name())),
            ("observed", number(limit.used_text())),
            ("limit", number(limit.allowed_text())),
            ("message", JsonText::string(message)),
            ("usage", self.used(part)),
        ]);
        object([("decision", decision.to_text())])
    }

    /// Returns the part's usage so far.
    pub(crate) fn used(&self, part: u32) -> JsonText {
        self.usage(part).to_json()
    }

    /// Counts the part's usage. Input tokens are estimated over the whole history, which is not in the task's
    /// log: they are left out here.
    pub(crate) fn usage(&self, part: u32) -> BudgetUsage {
        let mut usage = spent::usage(self.agent.budget_scope, &self.task, part);
        if let Some(run) = self.task.run() {
            let millis = self.now().millis_since(run.began);
            usage.runtime_seconds = Duration::from_millis(millis).as_secs_f64();
        }
        usage
    }
}
