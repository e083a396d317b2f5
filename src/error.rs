//! What can go wrong for an embedder: one enum, because every operation of a [`crate::system::System`] can
//! meet the store. Domain refusals stand apart from failures. Texts say what failed and why; what to do
//! stands in the docs of each variant.

use proto_events::codec::CodecError;
use proto_events::codec::record::RecordError;
use proto_events::id::{IdError, Version};
use proto_events::model::ModelError;
use proto_events::session::SessionRejection;
use proto_events::task::TaskRejection;
use proto_events::tool_store::ToolStoreRejection;

use crate::store::{AppendError, OpenError, ReadError};

/// Anything that an operation can answer instead of a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log could not be opened. Its own text says what to do.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nothing was appended, or nobody can say (`Ambiguous`). Repeat the command under its id.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An event could not be turned into bytes: make it smaller.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A record could not be turned into bytes: make it smaller.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The task said no. Nothing has changed.
    #[error(transparent)]
    Task(#[from] TaskRejection),
    /// The session said no. Nothing has changed.
    #[error(transparent)]
    Session(#[from] SessionRejection),
    /// A tool's state said no. Calls are told as a failure of theirs; nothing has changed.
    #[error(transparent)]
    ToolState(#[from] ToolStoreRejection),
    /// What was given is not a task, message or part.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// What was given is not an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// There is no such task.
    #[error("Active task '{0}' was not found")]
    TaskNotFound(String),
    /// The task is over. Protolink's words.
    #[error("Task '{id}' cannot be canceled from terminal state '{state}'")]
    TaskNotCancelable {
        /// Its id.
        id: String,
        /// The state it ended in.
        state: proto_events::model::TaskState,
    },
    /// The stream has no such version yet.
    #[error("{id} has {actual} events; version {asked} does not exist")]
    NoSuchVersion {
        /// The task's id.
        id: String,
        /// The version asked for.
        asked: Version,
        /// The version that it has.
        actual: Version,
    },
    /// What became of a call, what a model said, what a part's output is: that is told by whoever made the
    /// call. Nor is a task submitted under another one's id. Nothing has changed.
    #[error(
        "calls, outputs and what models say are recorded by the system itself, each task under its own id"
    )]
    NotForCallers,
    /// The id was used for another command. Use a new id for a new command.
    #[error("command id `{command_id}` came before with another body; a command id names one command")]
    CommandIdReused {
        /// The id.
        command_id: String,
    },
    /// More commands wait than the actor's mailbox holds. Try again after a moment.
    #[error("overloaded: {waiting} commands wait already; send this one again after a moment")]
    Overloaded {
        /// The mailbox's bound.
        waiting: usize,
    },
    /// The actor stopped in the middle. Repeat the command under its id: it is then done exactly once.
    #[error("the actor of {stream} stopped before it answered; send the command again under the same id")]
    Interrupted {
        /// Whose actor.
        stream: String,
    },
    /// Something that the task waits for could not be written, so it will not come to an end by itself. Remove the
    /// cause and reopen the system, or start it again: the task goes on from what is on disk.
    #[error("{stream} cannot go on: {why}")]
    Stalled {
        /// The task's stream.
        stream: String,
        /// What failed.
        why: String,
    },
    /// The system has been shut down.
    #[error("the system has been shut down; start it again")]
    Stopped,
    /// The builder was given something that cannot work.
    #[error("{0}")]
    Builder(String),
    /// A bug of ours.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Whether the log itself answered, so that the same may work at another time.
    pub(crate) fn is_of_the_store(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Append(_) | Self::Read(_))
    }
}
