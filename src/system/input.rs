//! The input of which a task is made: a posted task, a message, or a part.

use proto_events::id::{Digest, Mint};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::python::truthy;
use proto_events::model::{Message, Part, PostedTask, TaskState};
use taskreel_log::ports::Ports;

use crate::error::Error;
use crate::system::run_keys::check_keys;

/// The input of which a task is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TaskInput {
    /// A whole task, as it arrived.
    Task(Box<PostedTask>),
    /// A single message.
    Message(Message),
    /// A single part of a user's message.
    Part(Part),
}

impl From<PostedTask> for TaskInput {
    fn from(task: PostedTask) -> Self {
        Self::Task(Box::new(task))
    }
}

impl From<Message> for TaskInput {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

impl From<Part> for TaskInput {
    fn from(part: Part) -> Self {
        Self::Part(part)
    }
}

impl TaskInput {
    /// Returns what tells this part or message from another one, without the ids and times that a repetition
    /// gets anew.
    pub(crate) fn source(&self, session: Option<&str>) -> Option<Digest> {
        let parts = match self {
            Self::Task(_) => return None,
            Self::Message(message) => &message.parts,
            Self::Part(part) => std::slice::from_ref(part),
        };
        let mut said = JsonText::of_model(&parts).as_str().as_bytes().to_vec();
        said.push(0);
        said.extend_from_slice(session.unwrap_or_default().as_bytes());
        Some(Digest::compute(&said))
    }

    /// Returns the posted task itself, or a new one around the message or part.
    pub(crate) fn into_task(self, session: Option<&str>, ports: &mut Ports) -> Result<PostedTask, Error> {
        let message = match self {
            Self::Task(mut task) => {
                if let Some(session) = session {
                    put_in_session(&mut task, session)?;
                }
                check_keys(&task.metadata)?;
                return Ok(*task);
            }
            Self::Message(message) => message,
            Self::Part(part) => Message {
                id: Some(ports.id("msg_")),
                role: Some("user".to_owned()),
                parts: vec![part.hydrated(ports)?],
                timestamp: Some(ports.timestamp()),
            },
        };
        let mut metadata = JsonObject::new();
        if let Some(session) = session {
            metadata.set("session_id", JsonText::string(session));
        }
        Ok(PostedTask {
            filled_in: Vec::new(),
            source: None,
            id: ports.id("task_"),
            state: TaskState::Submitted,
            messages: vec![message],
            artifacts: Vec::new(),
            metadata,
            flow_state: JsonText::empty_object(),
            created_at: Some(ports.timestamp()),
        })
    }
}

/// Puts a posted task into the conversation through which it is sent.
///
/// # Errors
/// [`Error::OtherSession`] if the task names another one.
fn put_in_session(task: &mut PostedTask, session: &str) -> Result<(), Error> {
    let context: JsonObject =
        task.metadata.get("run_context").and_then(|context| context.read().ok()).unwrap_or_default();
    let named = [task.metadata.get("session_id"), context.get("session_id")];
    for named in named.into_iter().flatten().filter(|named| truthy(named)) {
        let named = named.to_str().unwrap_or_else(|| named.to_string());
        if named != session {
            let (id, asked) = (task.id.clone(), session.to_owned());
            return Err(Error::OtherSession { id, asked, named });
        }
    }
    task.metadata.set("session_id", JsonText::string(session));
    Ok(())
}
