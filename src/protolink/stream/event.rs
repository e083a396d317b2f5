//! Protolink's streaming events for the subscribers of one task, and their form on the wire.

use std::borrow::Cow;

use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, TaskState};

/// An event of a task's stream, as Protolink's clients know it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskStreamEvent {
    /// The event's id, derived from its content, so that another subscription gets the same event under the
    /// same id.
    pub event_id: String,
    /// The id of the task.
    pub task_id: String,
    /// The time of the event, in Protolink's form.
    pub timestamp: String,
    /// Further data of the event.
    pub metadata: JsonObject,
    /// The event's payload.
    pub payload: TaskStreamPayload,
}

/// The payload of a [`TaskStreamEvent`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TaskStreamPayload {
    /// `task_status_update`: the lifecycle state changed.
    Status {
        /// The state before; `None` for a task that was over when it was posted.
        previous: Option<TaskState>,
        /// The state after.
        new: TaskState,
        /// Whether no event follows. The metadata then holds the whole task, under `task`.
        last: bool,
    },
    /// `task_progress`: a tool is about to run, or reports its progress.
    Progress {
        /// The percentage; 0 where it is unknown.
        progress: u8,
        /// The progress in words.
        message: String,
    },
    /// `task_llm_stream`: an event in the loop of an `infer` part.
    Llm {
        /// The agent.
        agent: String,
        /// The kind of event, such as `llm_chunk`.
        kind: Cow<'static, str>,
        /// The loop's step, from 1.
        step: Option<u32>,
        /// A piece of the model's answer, or all of it.
        content: Option<String>,
        /// Whether the loop ends with this event. The task's stream continues to its final status.
        last: bool,
    },
    /// `task_artifact_update`: an artifact of the task.
    Artifact(Box<Artifact>),
    /// `task_error`: the run could not go on. The final status follows.
    Error {
        /// `llm_stream_failed` in an `infer` part, else `task_failed`.
        code: Cow<'static, str>,
        /// The error's text.
        message: String,
        /// Whether the run may go on; ours never does.
        recoverable: bool,
    },
}

impl TaskStreamEvent {
    /// The event's type on the wire.
    pub fn type_name(&self) -> &'static str {
        match self.payload {
            TaskStreamPayload::Status { .. } => "task_status_update",
            TaskStreamPayload::Progress { .. } => "task_progress",
            TaskStreamPayload::Llm { .. } => "task_llm_stream",
            TaskStreamPayload::Artifact(_) => "task_artifact_update",
            TaskStreamPayload::Error { .. } => "task_error",
        }
    }

    /// Whether this is the last event of its stream.
    pub fn is_last(&self) -> bool {
        matches!(self.payload, TaskStreamPayload::Status { last: true, .. })
    }

    /// Returns the event as Protolink's JSON.
    pub fn to_json(&self) -> JsonText {
        let mut fields: Vec<(&str, JsonText)> = vec![
            ("event_id", JsonText::string(&self.event_id)),
            ("type", JsonText::string(self.type_name())),
            ("task_id", JsonText::string(&self.task_id)),
        ];
        fields.extend(self.members());
        fields.push(("timestamp", JsonText::string(&self.timestamp)));
        fields.push(("metadata", self.metadata.to_text()));
        object(fields).to_text()
    }

    fn members(&self) -> Vec<(&'static str, JsonText)> {
        match &self.payload {
            TaskStreamPayload::Status { previous, new, last } => vec![
                ("previous_state", text_or_null(previous.map(TaskState::as_str))),
                ("new_state", JsonText::string(new.as_str())),
                ("final", boolean(*last)),
            ],
            TaskStreamPayload::Progress { progress, message } => {
                vec![("progress", number(u64::from(*progress))), ("message", JsonText::string(message))]
            }
            TaskStreamPayload::Llm { agent, kind, step, content, last } => vec![
                ("agent_name", JsonText::string(agent)),
                ("llm_event_type", JsonText::string(kind)),
                ("step", step.map_or_else(JsonText::null, |step| number(u64::from(step)))),
                ("content", text_or_null(content.as_deref())),
                ("final", boolean(*last)),
            ],
            TaskStreamPayload::Artifact(artifact) => vec![("artifact", JsonText::of_model(artifact))],
            TaskStreamPayload::Error { code, message, recoverable } => vec![
                ("error_code", JsonText::string(code)),
                ("error_message", JsonText::string(message)),
                ("recoverable", boolean(*recoverable)),
            ],
        }
    }
}

/// Returns an id in the form of Protolink's that is always the same for the same event.
pub(crate) fn event_id(parts: &[&[u8]]) -> String {
    let digest = Digest::of_parts(parts).0;
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// Returns an object of these fields, in this order.
pub(crate) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, JsonText)>) -> JsonObject {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns an integer.
pub(crate) fn number(number: u64) -> JsonText {
    JsonText::from(proto_events::json::JsonValue::from(number))
}

/// Returns a boolean.
pub(crate) fn boolean(yes: bool) -> JsonText {
    JsonText::from(proto_events::json::JsonValue::from(yes))
}

/// Returns a text, or null.
pub(crate) fn text_or_null(text: Option<&str>) -> JsonText {
    text.map_or_else(JsonText::null, JsonText::string)
}
