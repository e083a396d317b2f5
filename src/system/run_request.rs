//! A run with its options: id, budget, metadata, principal, and a key under which it is made once.

use std::future::IntoFuture;

use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::{Digest, Mint as _, check_id};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, RunBudget};
use serde::Serialize;

use crate::error::Error;
use crate::system::handle::System;
use crate::system::handles::TaskHandle;
use crate::system::input::TaskInput;
use crate::system::run_keys::check_keys;
use crate::system::session::SessionHandle;
use crate::system::tasks::with_new_id;
use crate::system::weak::WeakSystem;
use crate::tools::future::BoxFuture;

/// Keys of a task's metadata that have a meaning of their own and are set in other ways.
const RESERVED: [&str; 12] = [
    "budget",
    "budgets",
    "cancel_reason",
    "canceled",
    "cancelled",
    "error",
    "permissions",
    "run_context",
    "run_id",
    "session_id",
    "state_history",
    "parent_run_id",
];

/// The input of a run: a text for the model, a part, a message, or a whole task.
#[derive(Debug, Clone)]
pub struct RunInput(TaskInput);

/// A text is a prompt for the model.
impl From<&str> for RunInput {
    fn from(prompt: &str) -> Self {
        Self(TaskInput::Part(Part::infer(prompt)))
    }
}

/// A text is a prompt for the model.
impl From<String> for RunInput {
    fn from(prompt: String) -> Self {
        Self(TaskInput::Part(Part::infer(prompt)))
    }
}

impl From<Part> for RunInput {
    fn from(part: Part) -> Self {
        Self(part.into())
    }
}

impl From<Message> for RunInput {
    fn from(message: Message) -> Self {
        Self(message.into())
    }
}

impl From<PostedTask> for RunInput {
    fn from(task: PostedTask) -> Self {
        Self(task.into())
    }
}

/// A run that is about to be requested, see [`SessionHandle::run`]. It begins when it is awaited.
#[derive(Debug, Clone)]
#[must_use = "a run begins when it is awaited"]
pub struct RunRequest {
    system: WeakSystem,
    session: String,
    input: TaskInput,
    id: Option<String>,
    budget: Option<RunBudget>,
    deadline: Option<Timestamp>,
    metadata: JsonObject,
    once: Option<String>,
    /// The first option that cannot be used.
    fault: Option<String>,
}

impl SessionHandle {
    /// Requests a run in the conversation. A text is a prompt for the model. Options follow; the run begins when the
    /// request is awaited, and the handle of its task returns once it is on disk.
    ///
    /// ```
    /// # use taskreel::{RunBudget, System};
    /// # async fn refund(system: System) -> Result<(), taskreel::Error> {
    /// let task = system
    ///     .session("ada")
    ///     .run("Refund order A1")
    ///     .budget(RunBudget::new().llm_calls(4).runtime(std::time::Duration::from_secs(60)))
    ///     .metadata("tenant", "acme")
    ///     .principal("ada@example.org")
    ///     .once("refund-A1")
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&self, input: impl Into<RunInput>) -> RunRequest {
        RunRequest {
            system: self.system().clone(),
            session: self.id().to_owned(),
            input: input.into().0,
            id: None,
            budget: None,
            deadline: None,
            metadata: JsonObject::new(),
            once: None,
            fault: None,
        }
    }
}

impl RunRequest {
    /// Sets the task's id; one is made otherwise.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the budget of the task. It replaces the agent's default ([`Builder::run_budget`](crate::Builder::run_budget)).
    pub fn budget(mut self, budget: RunBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Sets the moment at which the task fails unless it is over: a call in flight and a model's answer are cut off then, and
    /// nothing is begun any more. It stands in the task's budget and in the log, so that it holds after a restart too and is
    /// handed on to the tasks that other agents are given. It does not move while a person is waited for; a task that waits
    /// then fails when it is answered.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # async fn by_five(session: taskreel::SessionHandle) -> Result<(), taskreel::Error> {
    /// session.run("Summarise the tickets").deadline(SystemTime::now() + Duration::from_secs(3_600)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline(mut self, at: impl Into<Timestamp>) -> Self {
        self.deadline = Some(at.into());
        self
    }

    /// Adds a value to the task's metadata, which tools and approval handlers are shown.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
        let key = key.into();
        if RESERVED.contains(&key.as_str()) {
            self.note_fault(format!(
                "the metadata key `{key}` has a meaning of its own; use the option for it, or another key"
            ));
            return self;
        }
        match JsonText::encode(&value) {
            Ok(value) => self.metadata.set(key, value),
            Err(error) => self.note_fault(format!("the metadata value of `{key}` is no JSON: {error}")),
        }
        self
    }

    /// Sets the principal on whose behalf the run is made; that of the handle by default. See
    /// [`System::acting_as`].
    pub fn principal(mut self, principal: impl Into<Principal>) -> Self {
        self.system = self.system.acting_as(principal);
        self
    }

    /// Makes the run once: a second request under this key returns the first one's task, and one with another content or
    /// another id is refused ([`Error::CommandIdReused`]), also after a crash.
    ///
    /// The key is unique among the tasks of the agent. Where the task's id is made from it, that holds for the life of the
    /// log. With an [id](RunRequest::id) of its own it holds for a window: the newest 65,536 events of the log when the
    /// first key is used after a start, and the newest 65,536 keys since.
    pub fn once(mut self, key: impl Into<String>) -> Self {
        self.once = Some(key.into());
        self
    }

    fn note_fault(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    /// Sends the request.
    async fn start(self) -> Result<TaskHandle, Error> {
        if let Some(fault) = self.fault {
            return Err(Error::RunRequest(fault));
        }
        let system = self.system.get()?;
        check_id(&self.session)?;
        let (session, source) = (self.session, self.input.source(Some("")));
        let is_posted = matches!(self.input, TaskInput::Task(_));
        let mut posted = self.input.into_task(Some(&session), &mut system.inner.ports.clone())?;
        if is_posted && self.id.as_ref().is_some_and(|id| posted.names_id() && *id != posted.id) {
            let text = format!("the task is named `{}`; leave the option `id` out", posted.id);
            return Err(Error::RunRequest(text));
        }
        let source = source
            .or_else(|| posted.source())
            .unwrap_or_else(|| Digest::compute(posted.to_json().as_str().as_bytes()));
        let budget = self.deadline.map(|at| {
            let of_agent = || system.own_agent().agent.run_budget.clone();
            self.budget.clone().or_else(of_agent).unwrap_or_default().until(at)
        });
        let budget = budget.or(self.budget);
        if let Some(budget) = &budget {
            set_budget(&mut posted, budget)?;
        }
        posted.metadata.merge(&self.metadata);
        // What tells this request from another one, without the ids and times that a repetition gets anew.
        let budget = budget.as_ref().map(RunBudget::to_json).unwrap_or_default();
        let options = [source.to_string(), session, budget.to_string(), self.metadata.to_text().to_string()];
        posted.source = Some(Digest::compute(JsonText::of_model(&options).as_str().as_bytes()));
        let id = self.id.or_else(|| (is_posted && posted.names_id()).then(|| posted.id.clone()));
        system.start_run(posted, id, self.once).await
    }
}

impl IntoFuture for RunRequest {
    type Output = Result<TaskHandle, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

/// Sets the budget of a task, in its run context if it has one.
fn set_budget(posted: &mut PostedTask, budget: &RunBudget) -> Result<(), Error> {
    match posted.metadata.get("run_context").filter(|context| context.is_object()) {
        Some(context) => {
            let mut context: JsonObject =
                context.read().map_err(|error| Error::RunRequest(format!("the run context: {error}")))?;
            context.set("budget", budget.to_json());
            posted.metadata.set("run_context", context.to_text());
        }
        None => posted.metadata.set("budget", budget.to_json()),
    }
    check_keys(&posted.metadata)
}

impl System {
    /// Submits the task of a run request.
    async fn start_run(
        &self,
        mut posted: PostedTask,
        id: Option<String>,
        once: Option<String>,
    ) -> Result<TaskHandle, Error> {
        self.add_defaults(&mut posted);
        let Some(key) = once.as_deref().or(self.caller.command_id.as_deref()).map(str::to_owned) else {
            if let Some(id) = id {
                posted.id = id;
                return self.submit_as(posted, self.cause()?).await;
            }
            let made = &|| {
                let id = self.inner.ports.clone().id("task_");
                PostedTask { id, ..posted.clone() }
            };
            return with_new_id(move || async move {
                let mut posted = made();
                let cause = self.complete(&mut posted, true)?;
                self.submit_as(posted, cause).await
            })
            .await;
        };
        let keyed = self.once(&key);
        let cause = keyed.cause()?;
        let claim = self.claim_once(&key, id).await?;
        posted.id.clone_from(&claim.task);
        let sent = keyed.submit_as(posted, cause).await;
        // One whose outcome is not known keeps its key.
        if sent.as_ref().is_err_and(|error| !matches!(error, Error::InDoubt { .. })) {
            claim.refused();
        }
        sent
    }

    /// Adds the agent's defaults to a task that has none of its own: a budget, and keys of the metadata.
    pub(crate) fn add_defaults(&self, posted: &mut PostedTask) {
        let agent = &self.own_agent().agent;
        let context: JsonObject =
            posted.metadata.get("run_context").and_then(|context| context.read().ok()).unwrap_or_default();
        let named = [posted.metadata.get("budget"), posted.metadata.get("budgets"), context.get("budget")];
        let has_budget = named.into_iter().flatten().any(|budget| !budget.is_null());
        let lacks = |key: &str| posted.metadata.get(key).is_none();
        let missing: Vec<_> = agent
            .run_metadata
            .iter()
            .filter(|(key, _)| lacks(key))
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect();
        if (has_budget || agent.run_budget.is_none()) && missing.is_empty() {
            return;
        }
        // The same post is the same task, even after the defaults have changed.
        let source = posted.source().unwrap_or_else(|| Digest::compute(posted.to_json().as_str().as_bytes()));
        posted.source = Some(source);
        for (key, value) in missing {
            posted.metadata.set(key, value);
        }
        if let Some(budget) = agent.run_budget.as_ref().filter(|_| !has_budget) {
            if posted.metadata.get("run_context").is_some_and(JsonText::is_object) {
                let mut context = context;
                context.set("budget", budget.to_json());
                posted.metadata.set("run_context", context.to_text());
            } else {
                posted.metadata.set("budget", budget.to_json());
            }
        }
    }
}
