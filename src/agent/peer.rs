//! Other agents that an agent may ask: their descriptions, the requests to them, and their answers.
//!
//! A call of another agent is a call like any other: its intent, which holds the whole task for the other
//! agent, is on disk before anything is sent. The peer's policy decides what may be done when the answer is
//! lost. An agent in the same process is created by [`System::peer`](crate::system::handle::System::peer);
//! for a remote one, implement [`Peer`].

use std::fmt;
use std::sync::Arc;

use proto_events::call::CallQuestion;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{
    AgentCard, Artifact, BudgetUsage, FinalState, LastItem, Part, PostedTask, TaskState, final_state,
};

use crate::tools::future::BoxFuture;
use crate::tools::policy::ToolPolicy;

/// Another agent, which this agent's model may ask.
pub trait Peer: Send + Sync + 'static {
    /// Returns the name by which a model asks for the agent.
    fn name(&self) -> &str;

    /// Returns the description for the model.
    fn description(&self) -> &str;

    /// Returns the names of the agent's skills, which are its tools.
    fn skills(&self) -> Vec<String>;

    /// Returns the agent's card, if it is known. The model is then shown the skills with their schemas, as Protolink
    /// shows them; without it, their names alone.
    fn card(&self) -> Option<AgentCard> {
        None
    }

    /// Learns what the peer says of itself, such as by reading its card. It is asked before the system starts, and has a
    /// few seconds; what [`Peer::description`], [`Peer::skills`] and [`Peer::card`] return after that is shown to models. A
    /// failure is reported, and the system starts all the same: the peer may be asked without a card. It is asked again while
    /// the system runs, at most a minute later, and what it says then joins the prompt.
    fn prepare(&self) -> BoxFuture<'static, Result<(), PeerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the policy of calls to this peer: recovery after a lost answer, and timeouts. Manual by
    /// default: a peer that cannot distinguish a repeated task from a new one must not be sent it twice.
    fn policy(&self) -> ToolPolicy {
        ToolPolicy::manual().declared_by("peer")
    }

    /// Sends a task and waits for its end. Every attempt of a call sends the same task, so that a peer that
    /// knows the task's id can return the first answer again.
    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>>;

    /// Cancels a task that was sent, as its answer is no longer wanted. A task that has already ended is not
    /// an error; for one that is not known (yet), return [`PeerErrorKind::NotFound`], and the cancel is
    /// retried a moment later.
    fn cancel(&self, task_id: &str, reason: &str) -> BoxFuture<'static, Result<(), PeerError>>;

    /// Cancels a task as [`Peer::cancel`] does, at a peer that gives tasks ids of its own.
    fn recall(&self, recalled: RecalledTask) -> BoxFuture<'static, Result<(), PeerError>> {
        self.cancel(&recalled.task_id, &recalled.reason)
    }

    /// Finds out whether the peer has the task of a lost attempt that never told its id ([`Delegation::accepted`]). It is
    /// asked in the mode reconcile ([`ToolPolicy::reconcile_peer`]), after a crash too, and perhaps more than once.
    fn find(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerFound, PeerError>> {
        let _ = delegation;
        Box::pin(std::future::ready(Ok(PeerFound::Unsure("the agent cannot be asked".to_owned()))))
    }
}

/// A peer's word on a task whose answer is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerFound {
    /// The peer has the task, under this id: the next attempt takes it up.
    Accepted(String),
    /// The task certainly never arrived, and never will: it is sent again.
    NotSent,
    /// The peer cannot say, for this reason: the outcome of the call is unknown, and a person decides.
    Unsure(String),
}

/// A task whose answer is no longer wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecalledTask {
    /// The id of the task that was sent.
    pub task_id: String,
    /// The idempotency key under which it was sent.
    pub idempotency_key: String,
    /// The id that the peer gave it, where an attempt told it.
    pub handle: Option<String>,
    /// The reason.
    pub reason: String,
}

impl RecalledTask {
    /// Creates the order to cancel a task. For tests of peers.
    pub fn new(task_id: impl Into<String>, idempotency_key: impl Into<String>) -> Self {
        let (task_id, idempotency_key) = (task_id.into(), idempotency_key.into());
        Self { task_id, idempotency_key, handle: None, reason: String::new() }
    }
}

/// A request to another agent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Delegation {
    /// The task, as stored in the intent.
    pub task: PostedTask,
    /// The idempotency key: the same for every attempt, and for no other call.
    pub idempotency_key: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The id that the peer gave the task, where an earlier attempt told it ([`Delegation::accepted`]). The task is not sent
    /// again then: it is taken up.
    pub handle: Option<String>,
    /// The peer's questions with which earlier attempts ended ([`PeerErrorKind::Asks`]), with a person's answers.
    pub questions: Vec<CallQuestion>,
    taken: AttemptLog,
}

impl Delegation {
    /// Creates a request. For code that makes calls, and for tests of peers.
    pub fn new(task: PostedTask, idempotency_key: impl Into<String>, attempt: u32) -> Self {
        let idempotency_key = idempotency_key.into();
        Self { task, idempotency_key, attempt, handle: None, questions: Vec::new(), taken: AttemptLog(None) }
    }

    /// Names the id that the peer gave the task. For tests of peers.
    #[must_use]
    pub fn taken_up(self, handle: impl Into<String>) -> Self {
        Self { handle: Some(handle.into()), ..self }
    }

    /// Adds the questions that the peer asked. For tests of peers.
    #[must_use]
    pub fn with_questions(self, questions: Vec<CallQuestion>) -> Self {
        Self { questions, ..self }
    }

    /// Has the id that the peer gave the task told to this receiver. For tests of peers.
    #[must_use]
    pub fn telling(self, sink: AcceptedSink) -> Self {
        Self { taken: AttemptLog(Some(sink)), ..self }
    }

    /// Records the id that the peer gave the task, and returns once that is on disk: from then on, whatever happens, no
    /// attempt sends the task again. A peer calls it as soon as it knows the id.
    ///
    /// # Errors
    /// [`PeerErrorKind::Lost`] if nobody waits for the task any more, as its call was canceled, or if the log cannot be
    /// written. The attempt is to end with that error.
    pub fn accepted(&self, handle: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        match &self.taken.0 {
            Some(sink) => sink(handle.to_owned()),
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }
}

/// The receiver of the id that a peer gave a task.
pub type AcceptedSink = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), PeerError>> + Send + Sync>;

/// The way of an attempt to its task's log. It does not tell one request from another.
#[derive(Clone)]
struct AttemptLog(Option<AcceptedSink>);

impl PartialEq for AttemptLog {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for AttemptLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptLog")
    }
}

/// The outcome of a task that was sent to another agent.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerAnswer {
    /// The state in which the task stopped.
    pub state: TaskState,
    /// The content of its last part, which the model receives in any state.
    pub result: JsonText,
    /// The error that ended the run early, without output.
    pub error: Option<String>,
    /// The usage of the task, as far as the peer tells: it counts against the budget of the task that asked.
    pub used: BudgetUsage,
}

impl PeerAnswer {
    /// Returns the answer in a task that came back as Protolink sends it. The newest item is determined by
    /// the timestamps.
    pub fn of_posted(task: &PostedTask) -> Self {
        let last = task.last_item().and_then(|item| LastItem::parts(item).last());
        let error = task.metadata.get("error").and_then(JsonText::to_str);
        Self::new(task.state, last.map(Part::content), &task.artifacts, error)
    }

    /// Returns the answer of a task in this state, with this content in its last part. An output that holds
    /// an error is a result like any other; a failed task without such an output has broken: in Protolink's
    /// words, its agent raised.
    pub fn new<'a>(
        state: TaskState,
        last: Option<&JsonText>,
        artifacts: impl IntoIterator<Item = &'a Artifact>,
        error: Option<String>,
    ) -> Self {
        let outputs: Vec<Part> =
            artifacts.into_iter().flat_map(|artifact| artifact.parts.iter().cloned()).collect();
        let raised =
            state == TaskState::Failed && !matches!(final_state(&outputs), FinalState::Failed { .. });
        let error = raised.then(|| error.unwrap_or_else(|| "unknown error".to_owned()));
        let result = last.cloned().unwrap_or_else(JsonText::null);
        Self { state, result, error, used: BudgetUsage::default() }
    }

    /// Adds what the task used.
    #[must_use]
    pub fn with_usage(self, used: BudgetUsage) -> Self {
        Self { used, ..self }
    }

    /// Returns the answer as an event stores it.
    pub(crate) fn to_json(&self) -> JsonText {
        let mut fields = JsonObject::new();
        fields.set("state", JsonText::string(self.state.as_str()));
        fields.set("result", self.result.clone());
        if self.used != BudgetUsage::default() {
            fields.set("used", self.used.to_json());
        }
        fields.to_text()
    }

    /// Returns the usage in a stored answer.
    pub(crate) fn used_in(kept: &JsonText) -> BudgetUsage {
        let fields: JsonObject = kept.read().unwrap_or_default();
        fields.get("used").map(BudgetUsage::from_json).unwrap_or_default()
    }

    /// Returns the state in a stored answer.
    pub(crate) fn state_in(kept: &JsonText) -> TaskState {
        let fields: JsonObject = kept.read().unwrap_or_default();
        let state = fields.get("state").and_then(JsonText::to_str);
        state.and_then(|state| state.parse().ok()).unwrap_or(TaskState::Unknown)
    }

    /// Returns the result in a stored answer.
    pub(crate) fn result_in(kept: &JsonText) -> JsonText {
        let fields: JsonObject = kept.read().unwrap_or_default();
        fields.get("result").cloned().unwrap_or_else(JsonText::null)
    }
}

/// The kind of a peer's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerErrorKind {
    /// The peer does not accept this task. This is reported to the model, which may try another action.
    Refused,
    /// The task was certainly never sent. Ends the run.
    Unreachable,
    /// The peer accepted the task and failed. Ends the run.
    Failed,
    /// The task may have been accepted; its answer is lost. The policy decides what follows, as after a
    /// crash.
    Lost,
    /// The peer knows no such task.
    NotFound,
    /// The peer has the task and waits for an answer; the message is its question. The task that asked waits for a person
    /// too, and the next attempt is given the answer ([`Delegation::questions`]).
    Asks,
}

/// A peer's failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PeerError {
    kind: PeerErrorKind,
    message: String,
}

impl PeerError {
    /// Creates a failure, with a message for people and models.
    pub fn new(kind: PeerErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> PeerErrorKind {
        self.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl proto_events::id::Mint for Fixed {
        fn id(&mut self, prefix: &str) -> String {
            format!("{prefix}1")
        }

        fn uuid(&mut self) -> String {
            "u".to_owned()
        }

        fn timestamp(&mut self) -> String {
            "2026-11-21T07:03:20+00:00".to_owned()
        }
    }

    fn task(json: &str) -> PostedTask {
        PostedTask::parse(json, &mut Fixed).unwrap()
    }

    #[test]
    fn a_task_whose_output_is_an_error_answers_with_it_and_one_that_raised_has_broken() {
        let failed = task(
            r#"{"state":"failed","metadata":{"error":"boom"},"messages":[{"timestamp":"1","parts":[{"type":"infer","content":{"prompt":"p"}}]}],
                "artifacts":[{"timestamp":"2","parts":[{"type":"tool_output","content":{"call_id":"c","result":null,"error":{"message":"boom"}}}]}]}"#,
        );
        let answer = PeerAnswer::of_posted(&failed);
        assert_eq!(answer.error, None);
        assert!(answer.result.as_str().contains("boom"), "{answer:?}");
        let raised = task(r#"{"state":"failed","metadata":{"error":"model down"}}"#);
        assert_eq!(PeerAnswer::of_posted(&raised).error.as_deref(), Some("model down"));
        let done =
            task(r#"{"state":"completed","artifacts":[{"parts":[{"type":"infer_output","content":"ok"}]}]}"#);
        let answer = PeerAnswer::of_posted(&done);
        assert_eq!((answer.state, answer.result.as_str()), (TaskState::Completed, "\"ok\""));
        assert_eq!(PeerAnswer::result_in(&answer.to_json()).as_str(), "\"ok\"");
    }
}
