//! The settings of a builder about an agent's work: the code that does it, and its bounds: calls at once, the model's
//! calls, budgets.

use std::sync::Arc;

use proto_events::model::{BudgetScope, Message};

use crate::agent::handler::{HandlerContext, HandlerEnd, HandlerFn, KnownHandler};
use crate::models::policy::InferPolicy;
use crate::system::builder::Builder;
use crate::tools::into_tool::IntoToolError;
use crate::tools::policy::ToolPolicy;

impl Builder {
    /// Sets the code that does the agent's work: an `async fn(HandlerContext, Message)`. A run of a task gives its
    /// message to it instead of executing the parts. The call is recorded as any call, its intent before it begins. Its
    /// recovery mode is Manual: after a crash in the middle the outcome is unknown, and a person decides.
    ///
    /// ```
    /// use taskreel::handler::{HandlerContext, HandlerEnd};
    /// use taskreel::tool::ToolError;
    /// use taskreel::{Message, System};
    ///
    /// async fn work(cx: HandlerContext, message: Message) -> Result<HandlerEnd, ToolError> {
    ///     let city = cx.ask("Which city?").await?;
    ///     cx.say(&format!("{} parts about {city}", message.parts.len())).await?;
    ///     Ok(HandlerEnd::Completed)
    /// }
    /// let builder = System::builder("./log").handler(work);
    /// ```
    #[must_use]
    pub fn handler<F, Fut, T, E>(self, handler: F) -> Self
    where
        F: Fn(HandlerContext, Message) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<HandlerEnd> + 'static,
        E: IntoToolError + 'static,
    {
        self.handler_with(handler, ToolPolicy::manual())
    }

    /// Sets the code that does the agent's work, with a policy: recovery mode, timeout, retries, deadline, concurrency
    /// and circuit breaker as for a tool. A probe, parallel calls and capabilities are refused by
    /// [`Builder::start`].
    #[must_use]
    pub fn handler_with<F, Fut, T, E>(mut self, handler: F, policy: ToolPolicy) -> Self
    where
        F: Fn(HandlerContext, Message) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<HandlerEnd> + 'static,
        E: IntoToolError + 'static,
    {
        let policy = policy.declared_by_handler();
        self.agent.handler = Some(KnownHandler { code: Arc::new(HandlerFn(handler)), policy });
        self
    }

    /// Sets the maximum number of concurrent calls, of tools and of the model, in the whole system; others
    /// wait with their intent on disk. By default there is no bound; zero counts as one.
    #[must_use]
    pub fn max_concurrency(mut self, calls: usize) -> Self {
        self.agent.max_concurrency = Some(calls.max(1));
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
