//! Protolink's streaming events: what a subscriber of one task is told, and its form on the wire.

use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, TaskState};

/// One event of a task's stream, as Protolink's clients know them.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskStreamEvent {
    /// Its id. Made of what it tells, so that whoever takes the stream again gets the same event under the same id.
    pub event_id: String,
    /// The task.
    pub task_id: String,
    /// When it happened, in Protolink's form.
    pub timestamp: String,
    /// Whatever else belongs to it.
    pub metadata: JsonObject,
    /// What it tells.
    pub tells: Tells,
}

/// What a [`TaskStreamEvent`] tells.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Tells {
    /// `task_status_update`: the lifecycle went on.
    Status {
        /// Before; none for a task that was over when it came in.
        previous: Option<TaskState>,
        /// After.
        new: TaskState,
        /// Whether nothing follows. The whole task then stands in the metadata, under `task`.
        last: bool,
    },
    /// `task_progress`: a tool is about to run, or says how far it is.
    Progress {
        /// Percent; 0 where nobody counts.
        progress: u8,
        /// In words.
        message: String,
    },
    /// `task_llm_stream`: something in the loop of an `infer` part.
    Llm {
        /// The agent.
        agent: String,
        /// Which event, such as `llm_chunk`.
        kind: &'static str,
        /// The loop's step, from 1.
        step: Option<u32>,
        /// The piece or the whole of what the model said.
        content: Option<String>,
        /// Whether the loop ends with it. The task's stream goes on to its final status.
        last: bool,
    },
    /// `task_artifact_update`: an artifact of the task.
    Artifact(Box<Artifact>),
    /// `task_error`: the run could not go on. The final status follows.
    Error {
        /// `llm_stream_failed` in an `infer` part, else `task_failed`.
        code: &'static str,
        /// What went wrong.
        message: String,
    },
}

impl TaskStreamEvent {
    /// Its type on the wire.
    pub fn type_name(&self) -> &'static str {
        match self.tells {
            Tells::Status { .. } => "task_status_update",
            Tells::Progress { .. } => "task_progress",
            Tells::Llm { .. } => "task_llm_stream",
            Tells::Artifact(_) => "task_artifact_update",
            Tells::Error { .. } => "task_error",
        }
    }

    /// Whether it is the last of its stream.
    pub fn is_last(&self) -> bool {
        matches!(self.tells, Tells::Status { last: true, .. })
    }

    /// As Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        let mut fields: Vec<(&str, JsonText)> = vec![
            ("event_id", JsonText::string(&self.event_id)),
            ("type", JsonText::string(self.type_name())),
            ("task_id", JsonText::string(&self.task_id)),
        ];
        fields.extend(self.told());
        fields.push(("timestamp", JsonText::string(&self.timestamp)));
        fields.push(("metadata", self.metadata.to_text()));
        object(fields).to_text()
    }

    fn told(&self) -> Vec<(&'static str, JsonText)> {
        match &self.tells {
            Tells::Status { previous, new, last } => vec![
                ("previous_state", text_or_null(previous.map(TaskState::as_str))),
                ("new_state", JsonText::string(new.as_str())),
                ("final", boolean(*last)),
            ],
            Tells::Progress { progress, message } => {
                vec![("progress", number(u64::from(*progress))), ("message", JsonText::string(message))]
            }
            Tells::Llm { agent, kind, step, content, last } => vec![
                ("agent_name", JsonText::string(agent)),
                ("llm_event_type", JsonText::string(kind)),
                ("step", step.map_or_else(JsonText::null, |step| number(u64::from(step)))),
                ("content", text_or_null(content.as_deref())),
                ("final", boolean(*last)),
            ],
            Tells::Artifact(artifact) => vec![("artifact", JsonText::of_model(artifact))],
            Tells::Error { code, message } => vec![
                ("error_code", JsonText::string(code)),
                ("error_message", JsonText::string(message)),
                ("recoverable", boolean(false)),
            ],
        }
    }
}

/// An id that looks like Protolink's and is always the same for the same event.
pub(super) fn event_id(parts: &[&[u8]]) -> String {
    let digest = Digest::of_parts(parts).0;
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// An object of these fields, in this order.
pub(super) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, JsonText)>) -> JsonObject {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A whole number.
pub(super) fn number(number: u64) -> JsonText {
    JsonText::from(serde_json::Value::from(number))
}

/// Yes or no.
pub(super) fn boolean(yes: bool) -> JsonText {
    JsonText::from(serde_json::Value::from(yes))
}

/// A text, or null.
pub(super) fn text_or_null(text: Option<&str>) -> JsonText {
    text.map_or_else(JsonText::null, JsonText::string)
}
