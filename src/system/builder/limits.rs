//! The settings of a builder that bound an agent's work and its cost: calls at once, the model's calls, budgets, prices.

use proto_events::call::Price;
use proto_events::model::BudgetScope;

use crate::models::policy::InferPolicy;
use crate::system::builder::Builder;

impl Builder {
    /// Sets the price of a model: its name, or `backend/model` where the same name has several prices. Each intent of
    /// an inference holds the price, so that the log alone says what a call cost: the tokens that the provider reports,
    /// of failed attempts too, at this price. A later change of the price changes no earlier call.
    #[must_use]
    pub fn price(mut self, model: impl Into<String>, price: Price) -> Self {
        self.agent.prices.insert(model.into(), price);
        self
    }

    /// Sets the maximum number of concurrent calls, of tools and of the model, in the whole system; others
    /// wait with their intent on disk. By default there is no bound; zero counts as one.
    #[must_use]
    pub fn max_concurrency(mut self, calls: usize) -> Self {
        self.agent.max_concurrency = Some(calls.max(1));
        self
    }

    /// Sets the maximum number of live actors of tasks and sessions, by default 10,000. When there are more,
    /// those that have been idle longest are passivated at once; the log keeps them, and the next command
    /// starts them again. An actor with open work (a run, a turn that is waited for, a caller that waits for
    /// the end) is never passivated, so open work may exceed the bound.
    #[must_use]
    pub fn live_actors(mut self, bound: usize) -> Self {
        self.live_actors = bound.max(1);
        self
    }

    /// Sets the number of tasks with open work that are resumed at once after a start, by default 64; zero counts as
    /// one. The next one is resumed when one of them has come to rest, or a second later: commands are answered in the
    /// meantime, and a command about a task resumes it at once.
    #[must_use]
    pub fn resumed_at_once(mut self, tasks: usize) -> Self {
        self.resumed_at_once = tasks.max(1);
        self
    }

    /// Sets how the model is called: time limit, retries, circuit breaker.
    #[must_use]
    pub fn infer_policy(mut self, policy: InferPolicy) -> Self {
        self.agent.infer_policy = policy;
        self
    }

    /// Sets the work that one budget covers; the whole task by default.
    #[must_use]
    pub fn budget_scope(mut self, scope: BudgetScope) -> Self {
        self.agent.budget_scope = scope;
        self
    }

    /// Sets the most model calls for one `infer` part, by default [`INFER_STEPS_MAX`]; zero counts as one. A part that
    /// needs more fails.
    ///
    /// [`INFER_STEPS_MAX`]: proto_events::limits::INFER_STEPS_MAX
    #[must_use]
    pub fn infer_steps(mut self, steps: u32) -> Self {
        self.agent.infer_steps = steps.max(1);
        self
    }
}
