//! The parts of an operation under way: what a step of it needs from outside and gets, how the operation is had again after
//! a conflict, and what follows the answer that is awaited.

use std::collections::VecDeque;

use proto_events::envelope::{Committed, Metadata};
use proto_events::id::{Digest, StreamId, Version};
use proto_events::session::Session;
use proto_events::task::{Task, TaskCommand, TaskEvent};
use taskreel_log::api::{Append, AppendError, Appended};

use crate::actors::entity::Entity;
use crate::actors::shared::messages::TaskOp;
use crate::actors::shared::tool_stores::HeldStore;
use crate::actors::shared::turns::TurnGrant;
use crate::actors::task::effect::Effect;
use crate::error::Error;
use crate::run::question::Act;
use crate::run::secrets::ReplacedSecret;

/// The end of a step.
pub(crate) enum Output {
    /// Append this.
    Append(Append),
    /// Get this first.
    Need(Need),
    /// The operation is over.
    Done(Result<(), Error>),
}

/// The rare needs of a step, beside an append.
pub(crate) enum Need {
    /// Read these streams again: the task's, the session's.
    Read { task: Option<StreamId>, session: Option<StreamId> },
    /// Take the store of a tool's state.
    Hold { tool: String },
    /// Keep these secret values, durably.
    Keep(Vec<ReplacedSecret>),
    /// Ask for the session's turn, if it is free.
    Turn { session: StreamId, turn_id: String },
    /// Look in the log for the first answer to a command.
    Search { command_id: String, content: Vec<u8> },
}

/// The answer to what a step needed.
pub(crate) enum Input {
    /// To [`Output::Append`].
    Appended(Result<Appended, AppendError>),
    /// To [`Need::Read`].
    Read(Result<Box<ReadAgain>, Error>),
    /// To [`Need::Hold`].
    Held(Result<HeldStore, Error>),
    /// To [`Need::Keep`].
    Kept(std::io::Result<()>),
    /// To [`Need::Turn`]; none if it is not free.
    Turn(Option<Box<TurnGrant>>),
    /// To [`Need::Search`].
    Found(Result<Option<Committed>, Error>),
}

/// Streams that were read again.
pub(crate) struct ReadAgain {
    pub(crate) task: Option<Entity<Task>>,
    pub(crate) session: Option<Entity<Session>>,
}

/// An operation under way.
pub(crate) struct StepWork {
    /// The operation, until it is decided.
    pub(super) op: Option<TaskOp>,
    /// The source of the operation for another try after a conflict.
    pub(super) again: Again,
    pub(super) metadata: Metadata,
    /// The content of the command, where its caller chose its id.
    pub(super) content: Option<Vec<u8>>,
    /// Whether the caller chose the command's id.
    pub(super) may_repeat: bool,
    pub(super) tries: usize,
    /// The version before this try.
    pub(super) before: Version,
    /// Whether this try has written anything of the operation when it failed.
    pub(super) written: bool,
    /// Whether the next steps are being planned.
    pub(super) planning: bool,
    /// The request for a turn, sent once all is on disk.
    pub(super) acquire: Option<Effect>,
    /// The append that is awaited.
    pub(super) writing: PendingWrite,
    pub(super) then: Then,
}

/// The step that follows the answer that is awaited.
#[derive(Default)]
pub(super) enum Then {
    #[default]
    Nothing,
    Begin,
    LookUp,
    Decide,
    DecideHeld,
    Plan(Rest),
    /// Plan on with the turn, or ask for it once all is on disk.
    Turn {
        session: StreamId,
        turn_id: String,
    },
    Finish,
    Retry(Error),
    /// Give the run up for this reason, once the operation is decided with the tool's store.
    GiveUpHeld(String),
    GaveUp,
}

/// The rest of a step of the planner, which follows an append.
pub(super) enum Rest {
    Nothing,
    Acts(VecDeque<Act>),
    Approver(String),
}

/// The source of an operation for another try. The two that bring large contents are read from the event that they became.
pub(super) enum Again {
    Copy(Box<TaskOp>),
    Message,
    Submit,
    CommandedSubmit,
}

impl Again {
    pub(super) fn new(op: &TaskOp, task: &Task) -> Self {
        match op {
            TaskOp::Submit(_) if !task.exists() => Self::Submit,
            TaskOp::Command(command) => match **command {
                TaskCommand::AppendMessage(_) => Self::Message,
                TaskCommand::Submit(_) if !task.exists() => Self::CommandedSubmit,
                _ => Self::Copy(Box::new(op.clone())),
            },
            _ => Self::Copy(Box::new(op.clone())),
        }
    }

    /// Returns the operation, from its first event that was not written if it is not kept.
    pub(super) fn op(self, first: Option<TaskEvent>) -> Option<TaskOp> {
        match (self, first) {
            (Self::Copy(op), _) => Some(*op),
            (Self::Message, Some(TaskEvent::MessageAppended(message))) => {
                Some(TaskOp::Command(Box::new(TaskCommand::AppendMessage(message))))
            }
            (Self::Submit, Some(TaskEvent::Submitted(posted))) => Some(TaskOp::Submit(posted)),
            (Self::CommandedSubmit, Some(TaskEvent::Submitted(posted))) => {
                Some(TaskOp::Command(Box::new(TaskCommand::Submit(posted))))
            }
            _ => None,
        }
    }
}

/// The append that is awaited: what follows once it is durable.
#[derive(Default)]
pub(crate) struct PendingWrite {
    pub(super) effects: Vec<Effect>,
    /// The hash of each record: the session's, the tool's, the task's.
    pub(super) session: Option<Digest>,
    pub(super) tool: Option<Digest>,
    pub(super) own: Option<Digest>,
    /// The metadata of the append, if it is not the command's.
    pub(super) other: Option<Box<Metadata>>,
}
