//! The settings of a builder about an agent's work: the code that does it, and its bounds and cost: calls at once, the
//! model's calls, budgets, prices.

use std::sync::Arc;

use proto_events::call::Price;
use proto_events::json::JsonText;
use proto_events::model::{BudgetScope, Message, RunBudget};
use proto_events::task::Task;
use taskreel_log::artifacts::{VIEW_DATA_ARTIFACT, VIEW_TEXT_ARTIFACT};
use taskreel_log::context::ContextStrategy;

use crate::agent::budget_stop::BudgetStop;
use crate::agent::definition_change::ChangedAgent;
use crate::agent::handler::{HandlerContext, HandlerEnd, HandlerFn, KnownHandler};
use crate::agent::loop_rules::LoopRules;
use crate::agent::responder::{KnownResponder, ResponderEnd};
use crate::files::beside::FilesBeside;
use crate::files::store::FileStore;
use crate::models::policy::InferPolicy;
use crate::system::builder::Builder;
use crate::tools::artifact_tools::ArtifactTools;
use crate::tools::into_tool::IntoToolError;
use crate::tools::policy::ToolPolicy;

impl<Of> Builder<Of> {
    /// Sets the price of a model: its name, or `backend/model` where the same name has several prices. Each intent of
    /// an inference holds the price, so that the log alone says what a call cost: the tokens that the provider reports,
    /// of failed attempts too, at this price. A later change of the price changes no earlier call.
    #[must_use]
    pub fn price(mut self, model: impl Into<String>, price: Price) -> Self {
        self.agent.prices.insert(model.into(), price);
        self
    }

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
    /// and circuit breaker as for a tool. A probe, parallel calls, capabilities and secret arguments
    /// are refused by [`Builder::start`].
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

    /// Sets the code that answers the agent's messages, where an answer is nothing but a function of the task and its message: it
    /// asks nothing outside and changes nothing. A run gives its message to it instead of executing the parts.
    ///
    /// Such an answer is not a call. It is computed within the step that takes the message, so that the message, the answer and the end
    /// of the task are written at once: a crash leaves all of them or none, and a message whose answer is not in the log is given to
    /// the code again. The code runs on a thread of the actors, where other tasks wait for it: it must not block, and while an answer
    /// takes longer than 5 ms the next one is computed on the runtime for calls. A panic fails the task. Code with an effect, or that
    /// waits for something, is a [`handler`](Builder::handler): its call has an intent on disk before it begins.
    ///
    /// ```
    /// use taskreel::{Message, System, Task};
    ///
    /// let builder = System::builder("./log")
    ///     .responder(|task: &Task, message: &Message| {
    ///         format!("{} parts in message {}", message.parts.len(), task.messages().len())
    ///     });
    /// ```
    #[must_use]
    pub fn responder<F, T>(mut self, responder: F) -> Self
    where
        F: Fn(&Task, &Message) -> T + Send + Sync + 'static,
        T: Into<ResponderEnd> + 'static,
    {
        self.agent.responder = Some(KnownResponder::new(responder));
        self
    }

    /// Sets the maximum number of concurrent calls of the agent, of its tools, its handler and its model; others
    /// wait with their intent on disk. By default they are unbounded; zero counts as one. Each agent of a system has its
    /// own bound.
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

    /// Sets what happens to a task that is found under way at a start, or when its actor reads it again, and whose agent's
    /// definition has changed since its run last went on; [`ChangedAgent::Follow`] by default. The definition is the model,
    /// the system prompt, the tools with their schemas and policies, the other agents and the parameters, as the log's
    /// stream of the agent has them.
    ///
    /// With [`ChangedAgent::WaitForPerson`] the task stays `working` with an open approval, and nothing of it is sent: no
    /// call again, no inference, no probe. [`TaskHandle::finished`] returns, [`System::approvals`] and `taskreel calls` list
    /// it. [`System::approve`], or `taskreel approve`, lets it go on as after a restart under the same definition;
    /// [`System::deny`] fails it; a cancel works as ever. The conversation's turn, if the run has one, waits with it, and
    /// the time of its budget goes on. A task that waits for a person already is not asked about again.
    ///
    /// [`TaskHandle::finished`]: crate::TaskHandle::finished
    /// [`System::approvals`]: crate::System::approvals
    /// [`System::approve`]: crate::System::approve
    /// [`System::deny`]: crate::System::deny
    #[must_use]
    pub fn on_changed_agent(mut self, rule: ChangedAgent) -> Self {
        self.agent.on_changed = rule;
        self
    }

    /// Sets the budget of tasks that have none of their own. It is recorded with each task, so that a later change holds
    /// for later tasks.
    #[must_use]
    pub fn run_budget(mut self, budget: RunBudget) -> Self {
        self.agent.run_budget = Some(budget);
        self
    }

    /// Sets a value in the metadata of tasks that have none under this key, such as the name of the service. It is recorded
    /// with each task.
    #[must_use]
    pub fn run_metadata(mut self, key: impl Into<String>, value: impl Into<JsonText>) -> Self {
        self.agent.run_metadata.set(key, value.into());
        self
    }

    /// Sets what happens to a run whose next step would exceed its budget; [`BudgetStop::Fail`] by default.
    ///
    /// With [`BudgetStop::WaitForPerson`] the task stays `working` with an open approval and nothing of it is sent:
    /// [`TaskHandle::finished`](crate::TaskHandle::finished) returns, and [`System::waiting`](crate::System::waiting) and
    /// [`System::approvals`](crate::System::approvals) list it. [`TaskHandle::raise_budget`](crate::TaskHandle::raise_budget)
    /// lets it go on where it stopped, so that nothing is paid again; a denial fails it with the limit, as the default does.
    /// An approval without a raised budget stops it again. The limit of time is not asked about: it passes while a person
    /// is waited for, the session's turn waits too.
    #[must_use]
    pub fn on_budget(mut self, stop: BudgetStop) -> Self {
        self.agent.on_budget = stop;
        self
    }

    /// Sets the rules by which the model's replies are read and its turns end; [`LoopRules::Taskreel`] by default.
    #[must_use]
    pub fn loop_rules(mut self, rules: LoopRules) -> Self {
        self.agent.loop_rules = rules;
        self
    }

    /// Sets the work that one budget covers; the whole task by default.
    #[must_use]
    pub fn budget_scope(mut self, scope: BudgetScope) -> Self {
        self.agent.budget_scope = scope;
        self
    }

    /// Sets the context strategy: what the model is shown of a history, such as
    /// [`TrimRounds`](crate::context::TrimRounds) or a [`Chain`](crate::context::Chain) of several. It is applied before
    /// each inference; the history in the log is never changed. What was kept and cut stands in the intent as data, so that
    /// the log alone renders what was sent. By default all messages are shown, whole.
    ///
    /// ```
    /// use taskreel::System;
    /// use taskreel::context::{Chain, TrimRounds, TruncateToolOutputs};
    ///
    /// let strategy = Chain::new(TruncateToolOutputs::new(4_000)?).then(TrimRounds::new(50)?);
    /// let builder = System::builder("./log").context(strategy).context_window(128_000);
    /// # Ok::<_, taskreel::context::SettingError>(())
    /// ```
    #[must_use]
    pub fn context(mut self, strategy: impl ContextStrategy) -> Self {
        self.agent.context.choose(Arc::new(strategy));
        self
    }

    /// Sets the tokens of the model's window, counted by four characters for each: after the [context
    /// strategy](Builder::context), if there is one, the oldest rounds are left out until the messages fit, as
    /// [`FitContextWindow`](crate::context::FitContextWindow) does by its default rules. A task whose instructions, newest
    /// question and newest round do not fit fails, and says so. Choose less than the model's own window: the answer and the
    /// tools' schemas need room too. Without it nothing is left out.
    #[must_use]
    pub fn context_window(mut self, tokens: u32) -> Self {
        let set = self.agent.context.set_window(tokens.into());
        self.faults.extend(set.err().map(|error| format!("the context window: {error}")));
        self
    }

    /// Adds the tools `view_text_artifact` and `view_data_artifact`, with which the model looks at any artifact and any
    /// result of a call that its task may see: its own, its session's and its child tasks'. With them, results
    /// of more than 50,000 characters are minimized in prompts, each with a tip that names the tool and the ids which
    /// show the rest. The log keeps them whole, and the intent of each inference says what was minimized. See
    /// [`ArtifactTools`](crate::artifact::ArtifactTools) for the limits and for a wider reach. Results come first, then the
    /// [context strategy](Builder::context).
    ///
    /// ```
    /// use taskreel::System;
    /// use taskreel::artifact::ArtifactTools;
    ///
    /// let builder = System::builder("./log").artifact_tools(ArtifactTools::new());
    /// ```
    #[must_use]
    pub fn artifact_tools(mut self, tools: ArtifactTools) -> Self {
        let outputs = tools.limit_of_outputs();
        if self.agent.context.has_other_views() {
            return self;
        }
        match tools.registered() {
            Ok(both) => {
                for tool in both {
                    self.faults.extend(self.agent.tools.register(tool).err());
                }
                self.agent.context.minimize_outputs(outputs);
            }
            Err(fault) => self.faults.push(fault),
        }
        self
    }

    /// Leaves the names of [`Builder::artifact_tools`] to other tools, which a toolkit registers: their own are not added, neither
    /// before nor after, and no result is minimized, since no tool would show the rest of it.
    #[doc(hidden)]
    #[must_use]
    pub fn other_artifact_tools(mut self) -> Self {
        for name in [VIEW_TEXT_ARTIFACT, VIEW_DATA_ARTIFACT] {
            self.agent.tools.remove(name);
        }
        self.agent.context.view_elsewhere();
        self
    }

    /// Sets a store for the files of artifacts, beside the log: files that a handler or a tool adds, and files of posted tasks. By default it
    /// gets a copy of each when its event is on disk, and the log keeps the file itself; a copy that fails is named in the
    /// program's own log. A store that stands
    /// [instead of the log](crate::files::LocalFileStore::instead_of_log) gets the file first, and the log its digest.
    /// A method that adds an artifact returns when its files are written.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use taskreel::System;
    /// use taskreel::files::LocalFileStore;
    ///
    /// let builder = System::builder("./log").file_store(Arc::new(LocalFileStore::new("./files")?));
    /// # Ok::<_, taskreel::files::FileError>(())
    /// ```
    #[must_use]
    pub fn file_store(mut self, store: Arc<dyn FileStore>) -> Self {
        self.agent.files = FilesBeside::new(store);
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
