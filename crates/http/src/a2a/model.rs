//! The data of A2A, in no version's form: [`wire`](crate::a2a::wire) reads and writes it as 1.0 and as 0.3, and
//! [`mapping`](crate::a2a::mapping) makes it of our tasks and makes our tasks of it.

use proto_events::json::{JsonObject, JsonText};

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// The content itself.
    pub content: Content,
    /// Further data; empty without any.
    pub metadata: JsonObject,
    /// The name of the file.
    pub filename: Option<String>,
    /// The media type.
    pub media_type: Option<String>,
}

/// The content of a part: exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// A text.
    Text(String),
    /// Bytes, in base64 as they came.
    Raw(String),
    /// The address of a file.
    Url(String),
    /// Any JSON.
    Data(JsonText),
}

/// The sender of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The client.
    User,
    /// The agent.
    Agent,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The id, chosen by the sender.
    pub id: String,
    /// The sender.
    pub role: Role,
    /// The content, one part at least.
    pub parts: Vec<Part>,
    /// The context to which it belongs.
    pub context_id: Option<String>,
    /// The task to which it belongs.
    pub task_id: Option<String>,
    /// Further data; empty without any.
    pub metadata: JsonObject,
    /// The extensions that it uses.
    pub extensions: Vec<String>,
    /// The tasks to which it refers.
    pub references: Vec<String>,
}

/// A result of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Artifact {
    /// The id, unique in its task.
    pub id: String,
    /// The display name.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The content.
    pub parts: Vec<Part>,
    /// Further data; empty without any.
    pub metadata: JsonObject,
    /// The extensions that it uses.
    pub extensions: Vec<String>,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A state that is not known.
    Unspecified,
    /// The task has not begun.
    Submitted,
    /// The task is in work.
    Working,
    /// The task has completed.
    Completed,
    /// The task has failed.
    Failed,
    /// The task was canceled.
    Canceled,
    /// The agent has refused the task.
    Rejected,
    /// The task waits for a message.
    InputRequired,
    /// The task waits for credentials.
    AuthRequired,
}

/// A state of a task with what was said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The state.
    pub state: State,
    /// The agent's words about it.
    pub message: Option<Message>,
    /// The time of the change, ISO 8601.
    pub timestamp: Option<String>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// The id, made by the server.
    pub id: String,
    /// The context, which is our session.
    pub context_id: String,
    /// The state.
    pub status: Status,
    /// The results; `None` where they are left out.
    pub artifacts: Option<Vec<Artifact>>,
    /// The messages, oldest first.
    pub history: Vec<Message>,
    /// Further data; empty without any.
    pub metadata: JsonObject,
}

/// A change of a task's state, in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusUpdate {
    /// The task.
    pub task_id: String,
    /// The context of the task.
    pub context_id: String,
    /// The state.
    pub status: Status,
    /// Further data; empty without any.
    pub metadata: JsonObject,
    /// Whether the stream ends with it. Only 0.3 writes it.
    pub is_last: bool,
}

/// A result of a task, or a piece of one, in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArtifactUpdate {
    /// The task.
    pub task_id: String,
    /// The context of the task.
    pub context_id: String,
    /// The result, or the piece.
    pub artifact: Artifact,
    /// Whether the parts are added to those before.
    pub append: bool,
    /// Whether the result is complete.
    pub last_chunk: bool,
    /// Further data; empty without any.
    pub metadata: JsonObject,
}

/// An item of a stream, or the answer to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A whole task.
    Task(Box<Task>),
    /// A message.
    Message(Box<Message>),
    /// A change of state.
    Status(Box<StatusUpdate>),
    /// A result.
    Artifact(Box<ArtifactUpdate>),
}

/// The way to call a webhook.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushConfig {
    /// The id of the registration; empty where the server chooses one.
    pub id: String,
    /// The task; empty within the configuration of a message.
    pub task_id: String,
    /// The address.
    pub url: String,
    /// The token that the webhook compares.
    pub token: Option<String>,
    /// The scheme of its authorization, and the credentials.
    pub authentication: Option<(String, Option<String>)>,
}

/// Shows everything but the secrets.
impl std::fmt::Debug for PushConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, task_id, url, .. } = self;
        f.debug_struct("PushConfig")
            .field("id", id)
            .field("task_id", task_id)
            .field("url", url)
            .finish_non_exhaustive()
    }
}

impl PushConfig {
    /// Returns the way to call a webhook at an address, without secrets, under an id that the agent chooses.
    pub fn new(url: &str) -> Self {
        Self {
            id: String::new(),
            task_id: String::new(),
            url: url.to_owned(),
            token: None,
            authentication: None,
        }
    }

    /// Sets the id of the registration: one with the id of another replaces it.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self }
    }

    /// Sets the token that the webhook compares.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// Sets the scheme of the authorization, such as `Bearer`, and the credentials.
    #[must_use]
    pub fn authentication(self, scheme: &str, credentials: &str) -> Self {
        Self { authentication: Some((scheme.to_owned(), Some(credentials.to_owned()))), ..self }
    }
}

impl State {
    /// All states by their numbers in protobuf, with their words in 1.0 and in 0.3.
    const WORDS: [(Self, &'static str, &'static str); 9] = [
        (Self::Unspecified, "TASK_STATE_UNSPECIFIED", "unknown"),
        (Self::Submitted, "TASK_STATE_SUBMITTED", "submitted"),
        (Self::Working, "TASK_STATE_WORKING", "working"),
        (Self::Completed, "TASK_STATE_COMPLETED", "completed"),
        (Self::Failed, "TASK_STATE_FAILED", "failed"),
        (Self::Canceled, "TASK_STATE_CANCELED", "canceled"),
        (Self::InputRequired, "TASK_STATE_INPUT_REQUIRED", "input-required"),
        (Self::Rejected, "TASK_STATE_REJECTED", "rejected"),
        (Self::AuthRequired, "TASK_STATE_AUTH_REQUIRED", "auth-required"),
    ];

    /// Whether the state is final.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether the task waits for its client.
    pub const fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }

    /// Returns the name of the state in 1.0, such as `TASK_STATE_COMPLETED`.
    pub fn word(self) -> &'static str {
        self.words().0
    }

    /// Returns the names of the state in 1.0 and in 0.3.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        let found = Self::WORDS.iter().find(|(state, ..)| *state == self);
        found.map_or(("TASK_STATE_UNSPECIFIED", "unknown"), |(_, new, old)| (new, old))
    }

    /// Returns the state with this number in protobuf, as text.
    pub(crate) fn of_number(digits: &str) -> Option<Self> {
        let number: usize = digits.parse().ok()?;
        Self::WORDS.get(number).map(|(state, ..)| *state)
    }

    /// Returns the state with this word, of either version.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, new, old)| *new == word || *old == word).map(|(state, ..)| *state)
    }
}

impl Part {
    /// Returns a part without further data.
    pub fn from_content(content: Content) -> Self {
        Self { content, metadata: JsonObject::new(), filename: None, media_type: None }
    }

    /// Returns a part with a text.
    pub fn text(text: &str) -> Self {
        Self::from_content(Content::Text(text.to_owned()))
    }
}

impl Message {
    /// Returns a message of the user that begins a task. The id must be new for each message.
    pub fn user(id: &str, parts: Vec<Part>) -> Self {
        Self {
            id: id.to_owned(),
            role: Role::User,
            parts,
            context_id: None,
            task_id: None,
            metadata: JsonObject::new(),
            extensions: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Names the task to which the message belongs.
    #[must_use]
    pub fn for_task(self, task_id: &str) -> Self {
        Self { task_id: Some(task_id.to_owned()), ..self }
    }

    /// Names the context to which the message belongs.
    #[must_use]
    pub fn in_context(self, context_id: &str) -> Self {
        Self { context_id: Some(context_id.to_owned()), ..self }
    }
}

impl Event {
    /// Returns the task to which the event belongs; `None` for a message of no task.
    pub fn task_id(&self) -> Option<&str> {
        match self {
            Self::Task(task) => Some(&task.id),
            Self::Message(message) => message.task_id.as_deref(),
            Self::Status(update) => Some(&update.task_id),
            Self::Artifact(update) => Some(&update.task_id),
        }
    }

    /// Returns the state that the event tells; `None` if it tells none.
    pub fn state(&self) -> Option<State> {
        match self {
            Self::Task(task) => Some(task.status.state),
            Self::Status(update) => Some(update.status.state),
            Self::Message(_) | Self::Artifact(_) => None,
        }
    }
}
