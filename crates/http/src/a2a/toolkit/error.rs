//! The reasons why a session does not answer: typed, with a2a-utils' texts.

use taskreel::files::FileError;
use taskreel_log::artifacts::ArtifactError;

use crate::a2a::client::error::A2aError;
use crate::a2a::model::{Message, Task};
use crate::a2a::toolkit::words::{is_timeout, listed, quoted, told};

/// The reason why a list of agents cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentsError {
    /// The file cannot be read.
    #[error("the file of agents cannot be read: {0}")]
    File(String),
    /// The text is not JSON, or not an object with an object for each agent.
    #[error("the list of agents cannot be read: {0}")]
    Json(String),
}

/// The reason why a session does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No agent with a card has this id.
    #[error("Agent '{}' not found. Available agents: {}", quoted(agent), listed(available))]
    UnknownAgent {
        /// The id.
        agent: String,
        /// The ids of the agents with a card.
        available: Vec<String>,
    },
    /// An agent with this id has a card already.
    #[error("Agent '{}' is already registered", quoted(.0))]
    AlreadyRegistered(String),
    /// The address or a header of an agent is not valid.
    #[error("{0}")]
    Config(String),
    /// An id could be read as a path.
    #[error("Invalid {what}: '{}'. Expected letters, numbers, '.', '_' or '-'.", quoted(value))]
    Identifier {
        /// The kind of id.
        what: &'static str,
        /// The id.
        value: String,
    },
    /// A task with this id is another agent's.
    #[error("Task '{}' belongs to another agent.", quoted(task))]
    ForeignTask {
        /// The id.
        task: String,
    },
    /// A file may not be sent.
    #[error("File '{}' may not be sent: it is in none of the folders whose files may be sent.", quoted(.0))]
    UploadNotAllowed(String),
    /// A file cannot be read.
    #[error("File '{}' cannot be read: {why}", quoted(file))]
    UploadUnreadable {
        /// The file.
        file: String,
        /// The error.
        why: String,
    },
    /// A file is too large to send.
    #[error("File '{}' is {}MB. Maximum size for file uploads is 1MB.", quoted(file), megabytes(*bytes))]
    UploadTooLarge {
        /// The file.
        file: String,
        /// The bytes.
        bytes: u64,
    },
    /// The address of a file may not be sent.
    #[error("{}", quoted(.0))]
    Uri(String),
    /// The rows that were asked for are not.
    #[error(
        "Invalid rows format: '{}'. {}", quoted(rows),
        if *is_list {
            "Comma-separated values must be integers. Examples: '0', '0-10', '0,2,5', 'all'."
        } else {
            "Examples: '0' (single row), '0-10' (range), '0,2,5' (specific rows), 'all'."
        }
    )]
    Rows {
        /// The text.
        rows: String,
        /// Whether it has commas.
        is_list: bool,
    },
    /// An argument of a tool is absent or of a wrong type.
    #[error("{0}")]
    Argument(String),
    /// The artifact cannot be shown so.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The agent does not answer, or with an error.
    #[error("{}", told(.0).text)]
    Agent(#[from] A2aError),
    /// The tasks that are kept cannot be read.
    #[error("the tasks that are kept cannot be read: {0}")]
    Store(String),
}

/// The kind of a session's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionErrorKind {
    /// An agent, artifact, field or column does not exist.
    NotFound,
    /// The request is wrong.
    Invalid,
    /// The request is not allowed.
    NotAllowed,
    /// The request asks for too much at once.
    TooLarge,
    /// No answer came in time.
    TimedOut,
    /// The agent, or the way to it, failed.
    Agent,
    /// The session itself failed.
    Internal,
}

impl SessionError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> SessionErrorKind {
        use taskreel_log::artifacts::ArtifactErrorKind as Artifact;
        match self {
            Self::UnknownAgent { .. } => SessionErrorKind::NotFound,
            Self::ForeignTask { .. } | Self::UploadNotAllowed(_) => SessionErrorKind::NotAllowed,
            Self::UploadTooLarge { .. } => SessionErrorKind::TooLarge,
            Self::Artifact(error) => match error.kind() {
                Artifact::NotFound => SessionErrorKind::NotFound,
                Artifact::TooLarge => SessionErrorKind::TooLarge,
                _ => SessionErrorKind::Invalid,
            },
            Self::Agent(error) if is_timeout(error) => SessionErrorKind::TimedOut,
            Self::Agent(_) => SessionErrorKind::Agent,
            Self::Store(_) => SessionErrorKind::Internal,
            _ => SessionErrorKind::Invalid,
        }
    }

    /// Returns the error of an address of a file.
    pub(crate) fn of_uri(error: &FileError) -> Self {
        Self::Uri(error.to_string())
    }
}

/// Checks an id, so that it names nothing but itself where it becomes a part of a path.
///
/// # Errors
/// [`SessionError::Identifier`].
pub(crate) fn check_id(what: &'static str, value: &str) -> Result<(), SessionError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_id = !matches!(value, "" | "." | "..") && value.bytes().all(plain);
    if is_id { Ok(()) } else { Err(SessionError::Identifier { what, value: value.to_owned() }) }
}

/// Checks the ids of a task and of all in it: they become names of files, and agents choose them.
pub(crate) fn check_task(task: &Task) -> Result<(), SessionError> {
    check_id("task id", &task.id)?;
    task.artifacts.iter().flatten().try_for_each(|artifact| check_id("artifact id", &artifact.id))?;
    task.status.message.iter().chain(&task.history).try_for_each(check_message)
}

/// Checks the ids of a message.
pub(crate) fn check_message(message: &Message) -> Result<(), SessionError> {
    check_id("message id", &message.id)?;
    message.task_id.as_deref().map_or(Ok(()), |task_id| check_id("task id", task_id))
}

/// Returns bytes in megabytes with one decimal, as Python rounds.
fn megabytes(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let megabytes = bytes as f64 / 1_048_576.0;
    format!("{megabytes:.1}")
}
