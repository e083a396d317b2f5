//! The planner's input ([`Question`]) and its answers ([`Step`], [`Act`], [`Progress`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto_events::call::Call;
use proto_events::envelope::Timestamp;
use proto_events::id::{Digest, Mint, StreamId, Version};
use proto_events::model::{LimitUse, Part};
use proto_events::session::{Session, SessionCommand};
use proto_events::task::{Approval, Task, TaskCommand};

use crate::agent::card::Agent;
use crate::run::delegation_request::{Refusal, WantedCall};
use crate::run::reply_reading::ReadReplies;

/// The answer to the question for the next step.
#[derive(Debug)]
pub(crate) enum Step {
    /// Decide these commands, then ask again.
    Do(Vec<Act>),
    /// A turn of this session is needed first.
    AwaitTurn {
        /// The caller's id of the session.
        session_id: String,
    },
    /// The tool must be asked whether the last attempt of this call took effect.
    Probe {
        /// The call.
        call_id: String,
    },
    /// The embedder's code must decide about this approval.
    AskApprover {
        /// The approval.
        approval_id: String,
    },
    /// A permit for a concurrent call, or a turn at the rate limit of its target, is needed first.
    AwaitPermit {
        /// The call.
        call_id: String,
    },
    /// The request of a call in flight to another agent is not made.
    Refuse {
        /// The id of the request.
        id: String,
        /// The reason.
        why: Refusal,
    },
    /// The back-off of this call must end first.
    AwaitRetry {
        /// The call.
        call_id: String,
        /// The attempt that failed.
        attempt: u32,
        /// The rest of the back-off.
        wait: Duration,
    },
    /// Wait until a call ends or a command arrives.
    Wait,
}

/// A command of a step.
#[derive(Debug)]
pub(crate) enum Act {
    /// A command for the task itself.
    Task(TaskCommand),
    /// A command for the session whose turn the task holds.
    Session(SessionCommand),
}

/// The session's turn that a run holds, and what is known of the session.
#[derive(Clone, Copy)]
pub(crate) struct TurnView<'a> {
    /// The turn's id.
    pub turn_id: &'a str,
    /// The session's stream.
    pub stream: &'a StreamId,
    /// The session, including what this run has added.
    pub session: &'a Session,
    /// The session's stream as it was read.
    pub read: &'a dyn ReadStream,
}

/// The end of what was read of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadThrough {
    /// The version of the last event, whether it is on disk or written with the decision.
    pub version: Version,
    /// The [`read_digest`](proto_events::call::read_digest) up to this event.
    pub digest: Digest,
}

/// A stream that is read for a decision.
pub(crate) trait ReadStream {
    /// Returns the end of what was read. It costs a hash for each event that is not on disk yet.
    fn read_through(&self) -> ReadThrough;
}

/// The input of the planner.
pub(crate) struct Question<'a> {
    /// Tools, model, settings.
    pub agent: &'a Agent,
    /// The task's stream.
    pub stream: &'a StreamId,
    /// The task's stream as it was read.
    pub read: &'a dyn ReadStream,
    /// The task.
    pub task: &'a Task,
    /// The session's turn, if the run holds one.
    pub turn_view: Option<TurnView<'a>>,
    /// The log's epoch, noted with every attempt.
    pub epoch: u64,
    /// The moment of the decision.
    pub now: Timestamp,
    /// The moment by a clock that was not set back since the run began in this process: deadlines are set and judged
    /// by it.
    pub steady: Timestamp,
    /// The deadline of the run, if its task has one.
    pub run_until: Option<Timestamp>,
    /// Whether the run's time is over, as a timer told that no step of the clock moves.
    pub is_time_up: bool,
    /// Work outside the log for the task's open calls.
    pub outside: &'a OutsideWork,
    /// The replies of the current part as they were read.
    pub replies: &'a ReadReplies,
    /// The source of new ids and times.
    pub mint: &'a mut dyn Mint,
}

/// Work outside the log for a task's open calls, by call id. Its actor knows it; it is lost with the process.
#[derive(Debug, Default)]
pub(crate) struct OutsideWork {
    /// Calls whose tools are being asked whether they took effect.
    pub probing: BTreeSet<String>,
    /// Calls that hold a permit.
    pub permits: BTreeSet<String>,
    /// Calls whose next attempt has its turn at the rate limit of its target.
    pub turns: BTreeSet<String>,
    /// Calls that wait for a permit or a turn.
    pub awaiting_permit: BTreeSet<String>,
    /// Calls whose back-off is waited for.
    pub awaiting_retry: BTreeSet<String>,
    /// Calls whose back-off has ended, each with the attempt after which it waited, until the next one is sent.
    pub retry_due: BTreeMap<String, u32>,
    /// Approvals about which the embedder's code is being asked, by their own ids.
    pub with_handler: BTreeSet<String>,
    /// Approvals that this code passed on to a person.
    pub with_person: BTreeSet<String>,
    /// The requests of calls in flight to other agents, until they are answered.
    pub wanted: Vec<WantedCall>,
}

/// The work of a task that has none.
static NO_WORK: OutsideWork = OutsideWork {
    probing: BTreeSet::new(),
    permits: BTreeSet::new(),
    turns: BTreeSet::new(),
    awaiting_permit: BTreeSet::new(),
    awaiting_retry: BTreeSet::new(),
    retry_due: BTreeMap::new(),
    with_handler: BTreeSet::new(),
    with_person: BTreeSet::new(),
    wanted: Vec::new(),
};

impl OutsideWork {
    /// Returns the work of a task that has none.
    pub(crate) fn none() -> &'static Self {
        &NO_WORK
    }

    /// Whether no work is left.
    pub(crate) fn is_none(&self) -> bool {
        let Self {
            probing,
            permits,
            turns,
            awaiting_permit,
            awaiting_retry,
            retry_due,
            with_handler,
            with_person,
            wanted,
        } = self;
        let sets = [probing, permits, turns, awaiting_permit, awaiting_retry, with_handler, with_person];
        sets.iter().all(|set| set.is_empty()) && retry_due.is_empty() && wanted.is_empty()
    }
}

/// The index of a part in the run's item.
pub(crate) type At = u32;

/// The progress of a part.
pub(crate) enum Progress {
    /// The part has its output.
    Output(Part),
    /// The next step of the part.
    Next(Step),
    /// Neither the part nor the run can be carried out.
    Fatal(String),
    /// The part would exceed the run's budget: the run ends.
    OverBudget(LimitUse),
    /// The outcome of this call is unknown: the messages left to add, the call and the reason.
    Unknown { say: Vec<Act>, call: Box<Call>, why: String },
    /// A person must answer the question of this call: the messages left to add, and the call.
    Asked { say: Vec<Act>, call: Box<Call> },
    /// The embedder's code must decide about this approval first.
    Approver(String),
    /// A person must decide first: the messages left to add, and the approval.
    Approval { say: Vec<Act>, approval: Box<Approval> },
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question").field("stream", self.stream).finish_non_exhaustive()
    }
}
