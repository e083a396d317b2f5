//! The end of a task as a type: what a caller has to tell apart.

use std::any::type_name;
use std::ops::ControlFlow;

use proto_events::call::{Call, CallKind};
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{InferFields, LimitUse, Part, TaskState};
use proto_events::task::{Approval, Task, TaskEvent};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::read::{decode_record, for_each_page_of};

use crate::error::Error;
use crate::run::notes::is_denial;
use crate::system::handles::{TaskHandle, TaskSnapshot};
use crate::system::task_index::{awaited_tasks, questions};
use crate::tools::schema::type_schema::schema_of;
use crate::tools::texts::short;

/// The end of a task's work: it is over, or nothing more happens without a person. See [`TaskHandle::settled`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Outcome {
    /// The task is completed.
    Completed(TaskSnapshot),
    /// The task failed.
    Failed(Failure),
    /// The task was canceled, for this reason if one was given.
    Canceled(Option<String>),
    /// A person must approve or deny these calls.
    AwaitsApproval(Vec<Approval>),
    /// A person must answer the questions of these calls, see [`Call::open_question`].
    AwaitsAnswer(Vec<Call>),
    /// Tasks of other agents of the system wait for a person, and this task for their end.
    AwaitsTasks(Vec<StreamId>),
    /// The outcome of these calls is unknown, and a person must find it out: [`TaskHandle::reconcile`] records it.
    OutcomeUnknown(Vec<Call>),
    /// The task waits for a message. Its last message says for what.
    AwaitsInput(TaskSnapshot),
}

/// The reason why a task failed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Failure {
    /// The next step would have exceeded this limit of the budget.
    Budget(LimitUse),
    /// A tool failed.
    Tool {
        /// The tool's name.
        tool: String,
        /// The id of the call.
        call_id: String,
        /// The task's error.
        error: String,
    },
    /// The model failed, or its answers could not be used.
    Model {
        /// The id of the last inference.
        call_id: String,
        /// The task's error.
        error: String,
    },
    /// Another agent failed or could not be reached.
    Agent {
        /// The agent's name.
        agent: String,
        /// The id of the call.
        call_id: String,
        /// The task's error.
        error: String,
    },
    /// The policy, an approval handler or a person denied a call.
    Denied {
        /// The task's error, which names the call and the reason.
        error: String,
    },
    /// The agent's handler failed, or rejected the work.
    Handler {
        /// Whether the work was refused, not attempted.
        rejected: bool,
        /// The task's error.
        error: String,
    },
    /// The task failed in another way: a caller let it fail, its model is missing, its parts cannot be read.
    Other {
        /// The task's error.
        error: String,
    },
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Budget(over) => over.fmt(f),
            Self::Tool { error, .. }
            | Self::Model { error, .. }
            | Self::Agent { error, .. }
            | Self::Denied { error }
            | Self::Handler { error, .. }
            | Self::Other { error } => f.write_str(error),
        }
    }
}

impl std::error::Error for Failure {}

impl TaskHandle {
    /// Waits as [`TaskHandle::finished`] does, and returns what came of the task as a type.
    ///
    /// ```
    /// # use taskreel::{Failure, Outcome, TaskHandle};
    /// # async fn tell(task: TaskHandle) -> Result<String, taskreel::Error> {
    /// Ok(match task.settled().await? {
    ///     Outcome::Failed(Failure::Budget(over)) => format!("too expensive: {over}"),
    ///     Outcome::Failed(failure) => format!("failed: {failure}"),
    ///     Outcome::AwaitsApproval(calls) => format!("{} calls wait for you", calls.len()),
    ///     outcome => outcome.answer::<String>()?,
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`TaskHandle::finished`].
    pub async fn settled(&self) -> Result<Outcome, Error> {
        let end = self.finished().await?;
        let task = end.task();
        Ok(match end.state() {
            TaskState::Completed => Outcome::Completed(end),
            TaskState::Canceled => {
                Outcome::Canceled(task.metadata().get("cancel_reason").and_then(JsonText::to_str))
            }
            TaskState::Failed => {
                let (stream, through) = (self.stream().clone(), end.version());
                let system = self.system().get()?;
                let store = system.log();
                let find = move || Ok(exceeded(store.as_ref(), &stream, through)?);
                Outcome::Failed(failure(task, system.on_pool(find).await?))
            }
            _ => waiting(end),
        })
    }
}

/// Returns the outcome of a task that is not over.
fn waiting(end: TaskSnapshot) -> Outcome {
    let task = end.task();
    let approvals: Vec<Approval> = task.awaited_approvals().cloned().collect();
    if !approvals.is_empty() {
        return Outcome::AwaitsApproval(approvals);
    }
    let asked = questions(task);
    if !asked.is_empty() {
        return Outcome::AwaitsAnswer(asked);
    }
    let tasks = awaited_tasks(task);
    if !tasks.is_empty() {
        return Outcome::AwaitsTasks(tasks);
    }
    let unknown: Vec<Call> = task.lost_calls().cloned().collect();
    if unknown.is_empty() { Outcome::AwaitsInput(end) } else { Outcome::OutcomeUnknown(unknown) }
}

/// Returns the limit that ended the task, if a budget did.
fn exceeded(
    log: &dyn EventReader,
    stream: &StreamId,
    through: Version,
) -> Result<Option<LimitUse>, ReadError> {
    let mut found = None;
    for_each_page_of(log, stream, Version(1), |page| {
        for stored in &page {
            for recorded in decode_record::<TaskEvent>(stored)? {
                if let TaskEvent::StateChanged { to: TaskState::Failed, budget, .. } = recorded.event
                    && recorded.version <= through
                {
                    found = budget;
                }
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Returns the reason why a task failed.
fn failure(task: &Task, exceeded: Option<LimitUse>) -> Failure {
    if let Some(over) = exceeded {
        return Failure::Budget(over);
    }
    let error = task.error().unwrap_or_default();
    if is_denial(&error) {
        return Failure::Denied { error };
    }
    // The last call of the run that failed, which no other call asked for.
    let last = task
        .calls()
        .iter()
        .rev()
        .find(|call| call.request.origin.run == task.runs() && call.request.origin.parent.is_none());
    let Some(Call { request, .. }) = last else { return Failure::Other { error } };
    let (call_id, target) = (request.call_id.clone(), request.target.clone());
    match request.kind {
        CallKind::Tool => Failure::Tool { tool: target, call_id, error },
        CallKind::Infer => Failure::Model { call_id, error },
        CallKind::Delegate => Failure::Agent { agent: target, call_id, error },
        CallKind::Handler => Failure::Handler { rejected: task.is_rejected(), error },
    }
}

impl Outcome {
    /// Whether the task is completed.
    pub fn is_completed(&self) -> bool {
        matches!(self, Self::Completed(_))
    }

    /// Reads the answer of a completed task: the result of a tool, or what the model said. An answer that is a text with
    /// JSON in it is read as that JSON where the type needs it.
    ///
    /// # Errors
    /// [`Error::Answer`] if the task is not completed, has no answer, or has one of another type.
    pub fn answer<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let wrong = |why: String| Error::Answer { wanted: type_name::<T>(), why: short(&why) };
        let Self::Completed(end) = self else { return Err(wrong(self.without_answer())) };
        let task = end.task();
        let part = task.last_item().and_then(|item| task.parts(item).last());
        let part = part.ok_or_else(|| wrong("the task has produced nothing".to_owned()))?;
        let mut content = part.content().clone();
        if part.kind() == "tool_output" {
            let fields: JsonObject = content.read().map_err(|error| wrong(error.to_string()))?;
            content = fields.get("result").cloned().unwrap_or_default();
        }
        let direct = content.read::<T>();
        let within = || content.to_str().and_then(|text| JsonText::parse(text.trim()).ok()?.read::<T>().ok());
        match direct {
            Ok(answer) => Ok(answer),
            Err(error) => within().ok_or_else(|| wrong(error.to_string())),
        }
    }

    /// Returns why the answer is missing.
    fn without_answer(&self) -> String {
        match self {
            Self::Completed(_) => "the task is completed".to_owned(),
            Self::Failed(failure) => format!("the task failed: {failure}"),
            Self::Canceled(reason) => {
                format!("the task was canceled: {}", reason.as_deref().unwrap_or("no reason was given"))
            }
            Self::AwaitsApproval(_) => "the task waits for an approval".to_owned(),
            Self::AwaitsAnswer(_) => "the task waits for a person's answer".to_owned(),
            Self::AwaitsTasks(_) => "the task waits for tasks of other agents".to_owned(),
            Self::OutcomeUnknown(_) => "the outcome of a call of the task is unknown".to_owned(),
            Self::AwaitsInput(_) => "the task waits for a message".to_owned(),
        }
    }
}

/// Parts whose answer has a Rust type.
pub trait InferAs: Sized {
    /// Returns a prompt whose answer must fit the JSON Schema of `T`. The feature `output-schema` enforces it; without it
    /// the model is only asked for it. [`Outcome::answer`] reads the answer.
    fn infer_as<T: JsonSchema>(prompt: impl Into<String>) -> Self;
}

impl InferAs for Part {
    fn infer_as<T: JsonSchema>(prompt: impl Into<String>) -> Self {
        let output_schema = Some(JsonText::from(schema_of::<T>()));
        Self::infer_of(InferFields { prompt: Some(prompt.into()), output_schema, ..InferFields::default() })
    }
}
