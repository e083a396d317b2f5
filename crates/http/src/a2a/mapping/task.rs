//! Tasks.

use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{self, PostedTask, TaskState};
use proto_events::task::Task as OwnTask;
use taskreel::handler::HandlerEnd;

use crate::a2a::mapping::message::{self, MessagePlace, is_agents};
use crate::a2a::mapping::notes::{Notes, USED, restored, shown};
use crate::a2a::mapping::remarks::{error_id, error_message, with_remark, without_remark};
use crate::a2a::mapping::{EXTENSION, artifact};
use crate::a2a::model::{Message, State, Status, Task};
use crate::a2a::wire::{DataForm, read, write};

/// The key of the conversation in our metadata.
const SESSION: &str = "session_id";

/// The keys of our metadata that tell of a run's inside: of the run itself, and of what others read of it. Clients of A2A are
/// shown them as one text, which goes back as it came.
const OF_RUN: [&str; 7] =
    ["run_context", "run_id", "trace_id", "workspace_uri", "parent_run_id", "canceled", "cancel_reason"];

/// A task of ours, borrowed, and what the log knows of it.
#[derive(Debug)]
pub(crate) struct Own<'a> {
    pub(crate) id: &'a str,
    pub(crate) state: TaskState,
    /// The messages that are shown.
    pub(crate) messages: Vec<&'a model::Message>,
    /// The last message, shown or not.
    pub(crate) last: Option<&'a model::Message>,
    /// The artifacts; `None` where they are left out.
    pub(crate) artifacts: Option<Vec<&'a model::Artifact>>,
    pub(crate) metadata: &'a JsonObject,
    pub(crate) flow_state: &'a JsonText,
    pub(crate) created_at: Option<&'a str>,
    /// The state as A2A knows it, where the log names it more exactly.
    pub(crate) shown: Option<State>,
    /// The time of the last change of state, as A2A writes it.
    pub(crate) since: Option<String>,
    /// The number of events of the task's stream.
    pub(crate) generation: Option<u64>,
    /// The budget that the task has used, where that is told.
    pub(crate) used: Option<JsonText>,
    /// Words about the task's calls that its state does not tell.
    pub(crate) remark: Option<String>,
    /// The number of calls whose outcome is unknown.
    pub(crate) lost: usize,
}

impl<'a> From<&'a PostedTask> for Own<'a> {
    fn from(task: &'a PostedTask) -> Self {
        Self {
            id: &task.id,
            state: task.state,
            messages: task.messages.iter().collect(),
            last: task.messages.last(),
            artifacts: Some(task.artifacts.iter().collect()),
            metadata: &task.metadata,
            flow_state: &task.flow_state,
            created_at: task.created_at.as_deref(),
            shown: None,
            since: None,
            generation: None,
            used: None,
            remark: None,
            lost: 0,
        }
    }
}

/// Returns the context of a task: its session, which by default is its own.
pub(crate) fn context_of(id: &str, metadata: &JsonObject) -> String {
    session(metadata).unwrap_or_else(|| id.to_owned())
}

fn session(metadata: &JsonObject) -> Option<String> {
    metadata.get(SESSION).and_then(JsonText::to_str).filter(|session| !session.is_empty())
}

/// Returns a state of ours as A2A's.
pub(crate) fn state_of(state: TaskState) -> State {
    match state {
        TaskState::Submitted => State::Submitted,
        TaskState::Working => State::Working,
        TaskState::InputRequired => State::InputRequired,
        TaskState::Completed => State::Completed,
        TaskState::Failed => State::Failed,
        TaskState::Canceled => State::Canceled,
        TaskState::Unknown => State::Unspecified,
    }
}

/// Returns the state of a task of the log: a handler may have named it more exactly.
pub(crate) fn state_of_task(task: &OwnTask) -> State {
    let state = task.state();
    // Only these two are named more exactly: all others are not looked for among the calls.
    let end = || HandlerEnd::of_task(task);
    match state {
        TaskState::Failed if matches!(end(), Some(HandlerEnd::Rejected(_))) => State::Rejected,
        TaskState::InputRequired if matches!(end(), Some(HandlerEnd::AuthRequired(_))) => State::AuthRequired,
        _ => state_of(state),
    }
}

/// Returns our task as A2A's.
pub(crate) fn to_a2a(task: &Own<'_>) -> Task {
    let context_id = context_of(task.id, task.metadata);
    let place = MessagePlace { task: task.id, context: &context_id };
    let mut own = task.metadata.clone();
    let carried = TaskExtras::extract(&mut own);
    let mut notes = Notes::default();
    match session(&own) {
        Some(_) => drop(own.remove(SESSION)),
        None => notes.set_flag("noSession"),
    }
    let of_run: JsonObject =
        OF_RUN.iter().filter_map(|key| Some(((*key).to_owned(), own.remove(key)?))).collect();
    if !of_run.is_empty() {
        notes.set_json("run", &of_run.to_text());
    }
    let mut metadata = shown(&own, &mut notes);
    if task.flow_state.as_str() != "{}" {
        notes.set_json("flowState", task.flow_state);
    }
    notes.set_optional("created", task.created_at);
    let plain = task.shown.unwrap_or_else(|| state_of(task.state));
    let state = carried.state.filter(|kept| ours(*kept) == task.state).unwrap_or(plain);
    if let Some(generation) = task.generation {
        notes.set_text("generation", &generation.to_string());
    }
    if let Some(used) = &task.used {
        notes.set_json(USED, used);
    }
    if task.lost > 0 {
        notes.set_text("unknownOutcomes", &task.lost.to_string());
    }
    notes.write_to(&mut metadata);
    let message = carried.message.clone().or_else(|| status_message(task, place));
    let message = with_remark(message, task.remark.as_deref(), place);
    Task {
        id: task.id.to_owned(),
        status: Status { state, message, timestamp: task.since.clone().or(carried.timestamp) },
        artifacts: task
            .artifacts
            .as_ref()
            .map(|artifacts| artifacts.iter().map(|one| artifact::to_a2a(one)).collect()),
        history: task.messages.iter().map(|one| message::to_a2a(one, place)).collect(),
        context_id,
        metadata,
    }
}

/// Returns the agent's words about its state: the last message, if it is the agent's, or the error of a task that failed.
fn status_message(task: &Own<'_>, place: MessagePlace<'_>) -> Option<Message> {
    let last = task.last.filter(|last| is_agents(last.role.as_deref()));
    last.map(|last| message::to_a2a(last, place)).or_else(|| {
        let error = task.metadata.get("error").filter(|_| task.state == TaskState::Failed)?;
        Some(error_message(&error.to_str().unwrap_or_else(|| error.to_string()), place))
    })
}

fn ours(state: State) -> TaskState {
    match state {
        State::Unspecified => TaskState::Unknown,
        State::Submitted => TaskState::Submitted,
        State::Working => TaskState::Working,
        State::Completed => TaskState::Completed,
        State::Failed | State::Rejected => TaskState::Failed,
        State::Canceled => TaskState::Canceled,
        State::InputRequired | State::AuthRequired => TaskState::InputRequired,
    }
}

/// Returns A2A's task as ours.
pub(crate) fn to_ours(task: Task) -> PostedTask {
    let Task { id, context_id, status, artifacts, history, mut metadata } = task;
    let notes = Notes::extract(&mut metadata);
    let mut own = restored(&metadata, &notes);
    if let Some(of_run) = notes.object("run") {
        own.merge(&of_run);
    }
    if !notes.flag("noSession") {
        own.set(SESSION, JsonText::string(&context_id));
    }
    let state = ours(status.state);
    let Status { state: named, message: said, timestamp } = status;
    let said = said.and_then(without_remark);
    let is_made = said.as_ref().is_none_or(|said| {
        said.id == error_id(&id) || history.last().is_some_and(|last| is_same(last, said))
    });
    TaskExtras {
        state: matches!(named, State::Rejected | State::AuthRequired).then_some(named),
        timestamp,
        message: said.filter(|_| !is_made),
    }
    .write_to(&mut own);
    PostedTask {
        id,
        state,
        messages: history.into_iter().map(|one| message::to_ours(one, false)).collect(),
        artifacts: artifacts.unwrap_or_default().into_iter().map(artifact::to_ours).collect(),
        metadata: own,
        flow_state: notes.json("flowState").unwrap_or_else(JsonText::empty_object),
        created_at: notes.text("created"),
        filled_in: Vec::new(),
        source: None,
    }
}

/// Whether two messages are one. gRPC does not keep the order of members, so that one message may come in two orders.
fn is_same(one: &Message, other: &Message) -> bool {
    let tree = |message: &Message| write::message(DataForm::V1, message).tree();
    one == other || (one.id == other.id && tree(one) == tree(other))
}

/// The members of a task of A2A that ours has no place for, in its metadata.
#[derive(Debug, Default)]
struct TaskExtras {
    state: Option<State>,
    timestamp: Option<String>,
    message: Option<Message>,
}

impl TaskExtras {
    fn extract(metadata: &mut JsonObject) -> Self {
        let notes = Notes::extract(metadata);
        Self {
            state: notes.text("state").and_then(|word| State::of_word(&word)),
            timestamp: notes.text("time"),
            message: notes
                .json("message")
                .and_then(|json| read::message(DataForm::V1, &json, "message").ok()),
        }
    }

    fn write_to(&self, metadata: &mut JsonObject) {
        let mut notes = Notes::default();
        notes.set_optional("state", self.state.map(|state| state.words().0));
        notes.set_optional("time", self.timestamp.as_deref());
        if let Some(message) = &self.message {
            notes.set_json("message", &write::message(DataForm::V1, message));
        }
        metadata.remove(EXTENSION);
        notes.write_to(metadata);
    }
}
