//! Errors that an embedder meets: one enum, because every operation of a [`crate::system::handle::System`]
//! can use the store. Domain refusals are separate from failures. Texts say what failed and why; the docs of
//! each variant say what to do.

use proto_events::codec::CodecError;
use proto_events::codec::record::RecordError;
use proto_events::definition::DefinitionRejection;
use proto_events::flow::FlowRejection;
use proto_events::id::{IdError, Version};
use proto_events::model::ModelError;
use proto_events::registry::RegistryRejection;
use proto_events::session::SessionRejection;
use proto_events::system::SystemRejection;
use proto_events::task::TaskRejection;
use proto_events::tool_store::ToolStoreRejection;
use taskreel_log::api::{AppendError, OpenError, ReadError};

/// An error or refusal that an operation can return instead of a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log could not be opened. Its own text says what to do.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The append failed: nothing was written, or the outcome is unknown (`Ambiguous`). As the answer to a command it
    /// is the source of [`Error::InDoubt`].
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An event could not be encoded: make it smaller.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A record could not be encoded: make it smaller.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A file that is to stand beside the log could not be written there, so that its artifact is not in the log either. Give
    /// the store room and rights, or plain ids, and send the artifact again.
    #[error(
        "the artifact `{artifact}` was not recorded: a file of it could not be kept beside the log: {why}"
    )]
    FileNotKept {
        /// The artifact's id.
        artifact: String,
        /// The reason, as the file store gives it.
        why: String,
    },
    /// The command was refused by the task. Nothing has changed.
    #[error(transparent)]
    Task(#[from] TaskRejection),
    /// The command was refused by the session. Nothing has changed.
    #[error(transparent)]
    Session(#[from] SessionRejection),
    /// The change was refused by the state of a tool. A call reports this as its failure; nothing has
    /// changed.
    #[error(transparent)]
    ToolState(#[from] ToolStoreRejection),
    /// The registry refused the command. Nothing has changed.
    #[error(transparent)]
    Registry(#[from] RegistryRejection),
    /// The value given is not a valid task, message or part.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The value given is not a valid id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// No task has this id.
    #[error("Active task '{0}' was not found")]
    TaskNotFound(String),
    /// The task has ended. The text is Protolink's.
    #[error("Task '{id}' cannot be canceled from terminal state '{state}'")]
    TaskNotCancelable {
        /// The task's id.
        id: String,
        /// The state it ended in.
        state: proto_events::model::TaskState,
    },
    /// The task that was to bring an answer failed or was canceled. It can be looked at under its id.
    #[error("task `{id}` is {state}: {why}")]
    NotCompleted {
        /// The task's id.
        id: String,
        /// The state it ended in.
        state: proto_events::model::TaskState,
        /// The error of the task.
        why: String,
    },
    /// The stream does not have this version yet.
    #[error("{id} has {actual} events; version {asked} does not exist")]
    NoSuchVersion {
        /// The task's id.
        id: String,
        /// The version asked for.
        asked: Version,
        /// The last version of the stream.
        actual: Version,
    },
    /// The command is not open to callers: the outcome of a call, the reply of a model and the output of a
    /// part are recorded by the system, and a task cannot be submitted under another task's id. Nothing has
    /// changed.
    #[error(
        "this command is reserved for the system: it records calls, model replies and outputs, each under the id of its own task"
    )]
    NotForCallers,
    /// A call that blocks its thread was made on a thread of an async runtime. Await the async method, or make the call on a
    /// thread of its own.
    #[error(
        "this call blocks its thread until the answer is there, and was made within an async runtime: await the async \
         method instead, or make the call on a thread outside the runtime"
    )]
    WithinRuntime,
    /// The id was used for another command. Use a new id for a new command.
    #[error("command id `{command_id}` was already used for a different command; use a new id")]
    CommandIdReused {
        /// The id.
        command_id: String,
    },
    /// The id begins with `~`, as the ids of the system's own commands do. Use another id.
    #[error(
        "command id `{command_id}` begins with `~`, which is reserved for the system's own commands; use another id"
    )]
    ReservedCommandId {
        /// The id.
        command_id: String,
    },
    /// The actor's mailbox is full, and nothing was done. Retry after a moment.
    #[error("overloaded: {waiting} commands are already queued; retry later{}", under(.command_id))]
    Overloaded {
        /// The mailbox's bound.
        waiting: usize,
        /// The id under which the command was sent, and may be sent again; empty for a query.
        command_id: String,
    },
    /// The command was sent, and whether it took effect is not known: a write failed, or its actor ended. Once the cause
    /// is removed, send the same command again under this id, with [`once`](crate::System::once): it then takes effect
    /// exactly once. The id is the caller's own, or the one that the command was given.
    #[error(
        "{source}; whether the command took effect is not known: send it again under its id `{command_id}`"
    )]
    InDoubt {
        /// The id under which the command was sent.
        command_id: String,
        /// The failure that left the doubt.
        source: Box<Error>,
    },
    /// The actor stopped before it replied.
    #[error("the actor of {stream} stopped before it replied")]
    Interrupted {
        /// The stream of the actor.
        stream: String,
    },
    /// A write that the task waits for failed, so the task cannot end by itself. Remove the cause and reopen
    /// or restart the system: the task continues from what is on disk.
    #[error("{stream} cannot continue: {why}")]
    Stalled {
        /// The task's stream.
        stream: String,
        /// The operation that failed, and why.
        why: String,
    },
    /// The task names another conversation than the one through which it was sent. Send it through that one, or leave it
    /// out of the task.
    #[error(
        "task `{id}` names the session `{named}`, but was sent to the session `{asked}`; send it to the one it names, or remove `session_id` from it"
    )]
    OtherSession {
        /// The task's id.
        id: String,
        /// The session through which it was sent.
        asked: String,
        /// The session that it names.
        named: String,
    },
    /// A budget or a run context has a key that means nothing, so that what it should limit would have no limit.
    #[error("`{within}` has the unknown key `{key}`; the known ones are {known}")]
    UnknownKey {
        /// The object with the key.
        within: String,
        /// The key.
        key: String,
        /// The known keys.
        known: String,
    },
    /// The task has a deadline, and the card of the agent says that it keeps none (`timeout_support` is false). Leave
    /// `deadline` out of the task's budget, or let the card say that deadlines are kept.
    #[error(
        "agent `{agent}` takes no task with a deadline: its card says `timeout_support: false`; leave `deadline` out of the budget"
    )]
    NoTimeoutSupport {
        /// The agent.
        agent: String,
    },
    /// The run request contradicts itself or names what a caller may not set.
    #[error("the run cannot be requested: {0}")]
    RunRequest(String),
    /// The code of a call waits for a task that cannot begin, or end, before that call ends. Wait for it outside the
    /// call, or give the task another session.
    #[error(
        "the call `{call_id}` waits for task `{id}`, which waits for the turn of session `{session}` that this call's own task holds; send it to another session, or wait for it after the call"
    )]
    WaitsForItself {
        /// The task that is waited for.
        id: String,
        /// The session whose turn the call's own task holds.
        session: String,
        /// The call that waits.
        call_id: String,
    },
    /// The task has no answer, or one of another type than was asked for.
    #[error("there is no answer that can be read as {wanted}: {why}")]
    Answer {
        /// The name of the type.
        wanted: &'static str,
        /// The reason.
        why: String,
    },
    /// The agent's policy does not allow the operation. The text is Protolink's. Nothing has changed.
    #[error("Action '{action}' denied: {reason}")]
    ActionDenied {
        /// The operation.
        action: String,
        /// The reason.
        reason: String,
    },
    /// The agent's policy asks for an approval of an operation of the control plane, and the agent has no approval handler.
    /// The text is Protolink's. Nothing has changed. Set [`Builder::approval_handler`](crate::Builder::approval_handler),
    /// or let the policy allow the operation's capability (`state.describe`, `state.reset`, `state.compact`,
    /// `llm.history.compact`).
    #[error("Action '{action}' requires approval")]
    ApprovalRequired {
        /// The operation.
        action: String,
    },
    /// The approval handler did not decide about an operation of the control plane. Nothing has changed.
    #[error(
        "Action '{action}' requires approval, and the approval handler gave no decision: {why}; such an operation does not wait for a person, so let the handler decide it, or allow its capability in the policy"
    )]
    ApprovalUndecided {
        /// The operation.
        action: String,
        /// The reason why no decision exists.
        why: String,
    },
    /// The operation needs a model, and the agent has none. The text is Protolink's.
    #[error("Agent has no LLM but received a history compaction request")]
    NoModel,
    /// The summary of a history was not put in place: the history stays as it is.
    #[error("the history was not summed up: {0}")]
    Summary(String),
    /// The change was refused by the flow state of a run. Nothing has changed.
    #[error(transparent)]
    Flow(#[from] FlowRejection),
    /// The module of the agent's state is not enabled.
    #[error("the agent's state has no module `{0}`; enable it where the agent is built")]
    NoStateModule(&'static str),
    /// The system has been shut down.
    #[error("the system is shut down; start it again")]
    Stopped,
    /// The builder was given a setting that cannot work.
    #[error("{0}")]
    Builder(String),
    /// The folder of secret values cannot be read or written, so nothing that names one is written.
    #[error("secret values cannot be kept: {0}")]
    Secrets(String),
    /// A bug in taskreel.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Whether the store returned this error, so that the same operation may succeed later.
    pub(crate) fn is_of_the_store(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Append(_) | Self::Read(_))
    }

    /// Returns the limit in bytes of an event or record, if the error is that it was exceeded.
    pub(crate) fn too_large(&self) -> Option<usize> {
        match self {
            Self::Append(AppendError::TooLarge { limit, .. })
            | Self::Codec(CodecError::TooLarge { limit, .. }) => Some(*limit),
            _ => None,
        }
    }

    /// Returns the id under which the command may be sent again, if the error leaves it open whether it took effect, or
    /// says that it did not for a reason that passes.
    pub fn command_id(&self) -> Option<&str> {
        match self {
            Self::InDoubt { command_id, .. } | Self::Overloaded { command_id, .. } => {
                Some(command_id.as_str()).filter(|id| !id.is_empty())
            }
            _ => None,
        }
    }

    /// Returns the answer to a command of this id that was sent. A command may make several appends, so that after a
    /// failure of the log, of its actor or of a decision that panicked some of them may be on disk.
    pub(crate) fn of_sent(self, command_id: &str) -> Self {
        match self {
            Self::Append(AppendError::TooLarge { .. } | AppendError::Invalid { .. }) => self,
            Self::Append(_) | Self::Read(_) | Self::Interrupted { .. } | Self::Internal(_) => {
                Self::InDoubt { command_id: command_id.to_owned(), source: Box::new(self) }
            }
            other => other,
        }
    }
}

/// Returns the words about the id of a command, if it has one.
fn under(command_id: &str) -> String {
    if command_id.is_empty() { String::new() } else { format!(", under the command id `{command_id}`") }
}

impl From<SystemRejection> for Error {
    fn from(rejection: SystemRejection) -> Self {
        Self::Internal(rejection.to_string())
    }
}

impl From<DefinitionRejection> for Error {
    fn from(never: DefinitionRejection) -> Self {
        match never {}
    }
}
