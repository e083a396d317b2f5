//! What actors say to each other. Every operation on a task carries the channel on which it is answered, so
//! that a caller can wait on any runtime and going away cancels nothing.

use std::sync::Arc;

use actix::{Message, Recipient};
use proto_events::call::{
    CallCommand, CallFailure, CallRequested, FailureClass, TokenUsage, Verdict, VerdictBy,
};
use proto_events::envelope::{Committed, Metadata, Principal};
use proto_events::id::{Digest, Position, StreamId, Version};
use proto_events::json::JsonText;
use proto_events::model::PostedTask;
use proto_events::session::{Session, SessionEvent};
use proto_events::task::{ApprovalDecided, Task, TaskCommand};
use proto_events::tool_store::ToolWrite;
use tokio::sync::oneshot;

use crate::actors::places::Place;
use crate::actors::spans::Within;
use crate::agent::approval::ApprovalVerdict;
use crate::agent::infer::InferRequest;
use crate::error::Error;

/// Who sends a command, and why; the time is added when it is accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause {
    pub(crate) command_id: String,
    /// The id is the caller's own, so the same command may have come before, however long ago.
    pub(crate) may_repeat: bool,
    pub(crate) causation_id: String,
    pub(crate) correlation_id: String,
    pub(crate) principal: Principal,
    /// The span of the caller.
    pub(crate) caller: Within,
    /// The span of the call of which this is the outcome.
    pub(crate) within: Within,
}

impl Cause {
    /// What the system sends itself takes its id from what it is about.
    pub(crate) fn own(command_id: String, about: &str) -> Self {
        Self { command_id, causation_id: about.to_owned(), ..Self::default() }
    }

    pub(crate) fn metadata(&self, at: proto_events::envelope::Timestamp, digest: Digest) -> Metadata {
        Metadata {
            at,
            command_id: self.command_id.clone(),
            command_digest: digest,
            causation_id: self.causation_id.clone(),
            correlation_id: self.correlation_id.clone(),
            principal: self.principal.clone(),
        }
    }
}

/// How an attempt of a call ended.
#[derive(Debug, Clone)]
pub(crate) enum AttemptEnd {
    Succeeded {
        result: JsonText,
        usage: Option<TokenUsage>,
        /// What it leaves in its tool's state, written with it or not at all.
        writes: Vec<ToolWrite>,
    },
    /// `passing` says that the target asked to be tried again, after `delay_ms`.
    Failed {
        failure: CallFailure,
        passing: bool,
        delay_ms: u64,
    },
    TimedOut {
        after_ms: u64,
    },
    /// It was cut off after it had begun, without an answer.
    Lost {
        why: String,
    },
}

impl AttemptEnd {
    /// A result that the log cannot hold is a failure after the effect: it happened, its answer is lost.
    pub(crate) fn too_large(bytes: usize, limit: usize) -> Self {
        let message = format!("the result has {bytes} bytes; an event of the log holds at most {limit}");
        let class = FailureClass::AfterEffect;
        let failure = CallFailure { class, error_type: "TooLarge".to_owned(), message };
        Self::Failed { failure, passing: false, delay_ms: 0 }
    }
}

/// What a person decides about a call whose outcome is unknown.
#[derive(Debug, Clone)]
pub(crate) enum Settlement {
    /// This was found out.
    Verdict(Verdict),
    /// Nobody looks any further, and why.
    Abandon(String),
}

impl Settlement {
    /// As a command about the call.
    pub(crate) fn command(&self, call_id: String, by: String) -> CallCommand {
        match self.clone() {
            Self::Verdict(verdict) => {
                CallCommand::Reconcile { call_id, verdict, by: VerdictBy::Operator(by) }
            }
            Self::Abandon(reason) => CallCommand::Abandon { call_id, reason, by },
        }
    }
}

/// What may be asked of a task's actor.
#[derive(Debug, Clone)]
pub(crate) enum TaskOp {
    /// Take in a posted task and work on it.
    Submit(Box<PostedTask>),
    /// Give up.
    Cancel { reason: Option<String> },
    /// An attempt ended.
    Outcome { call_id: String, attempt: u32, end: AttemptEnd },
    /// A tool was asked whether an attempt took effect.
    Probed { call_id: String, attempt: u32, verdict: Verdict },
    /// A place among the calls that may be under way at once.
    PlaceGranted { call_id: String, place: Place },
    /// A person says what became of an unknown call, or that nobody looks any further.
    Settle { call_id: String, settlement: Settlement, by: String },
    /// The approval handler answered.
    Answered { approval_id: String, verdict: ApprovalVerdict },
    /// A person decides about an approval.
    Decide(ApprovalDecided),
    /// The session's turn is ours.
    TurnGranted { asked: String, grant: Box<TurnGrant> },
    /// The session's turn is not to be had: why, or that it is to be asked for again.
    TurnRefused { asked: String, why: Option<String> },
    /// One command of the caller's own.
    Command(Box<TaskCommand>),
    /// Go on with what the log says is open.
    Resume,
    /// Show the state.
    Look,
    /// Answer when nothing more happens without a person.
    AwaitEnd,
}

impl TaskOp {
    /// Whether it only asks.
    pub(crate) fn is_query(&self) -> bool {
        matches!(self, Self::Look | Self::AwaitEnd)
    }

    /// SHA-256 of what a caller sent: tells a repeated command from another under the same id.
    pub(crate) fn digest(&self) -> Digest {
        match self {
            Self::Submit(posted) => Digest::of_parts(&[b"work\0", posted.to_json().as_str().as_bytes()]),
            Self::Cancel { reason } => {
                Digest::of_parts(&[b"cancel", reason.as_deref().unwrap_or_default().as_bytes()])
            }
            Self::Outcome { call_id, attempt, .. } => {
                Digest::of_parts(&[b"outcome", call_id.as_bytes(), &attempt.to_be_bytes()])
            }
            Self::Probed { call_id, attempt, .. } => {
                Digest::of_parts(&[b"probed", call_id.as_bytes(), &attempt.to_be_bytes()])
            }
            Self::PlaceGranted { call_id, .. } => Digest::of_parts(&[b"place", call_id.as_bytes()]),
            Self::Settle { call_id, settlement, .. } => {
                let (word, says) = match settlement {
                    Settlement::Verdict(Verdict::Landed(result)) => ("landed", result.as_str()),
                    Settlement::Verdict(verdict) => (verdict.as_str(), ""),
                    Settlement::Abandon(reason) => ("abandon", reason.as_str()),
                };
                Digest::of_parts(&[b"settle", call_id.as_bytes(), word.as_bytes(), says.as_bytes()])
            }
            Self::Answered { approval_id, .. } => Digest::of_parts(&[b"answered", approval_id.as_bytes()]),
            Self::Decide(decided) => TaskCommand::DecideApproval(decided.clone()).digest(),
            Self::TurnGranted { asked, .. } => Digest::of_parts(&[b"turn", asked.as_bytes()]),
            Self::TurnRefused { .. } => Digest::of(b"refused"),
            Self::Command(command) => command.digest(),
            Self::Resume => Digest::of(b"resume"),
            Self::Look | Self::AwaitEnd => Digest::default(),
        }
    }
}

/// A task as it stands on disk.
#[derive(Debug, Clone)]
pub(crate) struct TaskView {
    pub(crate) task: Arc<Task>,
    pub(crate) committed: Committed,
}

/// An operation on its way to a task's actor.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ToTask {
    pub(crate) stream: StreamId,
    pub(crate) op: TaskOp,
    pub(crate) cause: Cause,
    pub(crate) reply: Option<oneshot::Sender<Result<TaskView, Error>>>,
}

/// The turn of a session, handed to a task.
#[derive(Debug, Clone)]
pub(crate) struct TurnGrant {
    pub(crate) stream: StreamId,
    pub(crate) turn_id: String,
    /// The session as it stands on disk; its history is shared, not copied.
    pub(crate) session: Session,
    pub(crate) version: Version,
    pub(crate) position: Position,
    pub(crate) last_hash: Digest,
    /// Gives the turn back when nobody holds it any more.
    pub(crate) lease: Arc<Lease>,
}

/// Where the session's actor is reached; gives the reserved turn back when it is dropped.
pub(crate) struct Lease {
    pub(crate) turn_id: String,
    pub(crate) release: Recipient<Release>,
    pub(crate) settled: Recipient<Settled>,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("turn_id", &self.turn_id).finish_non_exhaustive()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A session that is gone has no reservation to give back; a full mailbox cannot refuse this one.
        self.release.do_send(Release { turn_id: std::mem::take(&mut self.turn_id) });
    }
}

/// A task asks for a session's turn. The answer may take as long as other turns take.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AcquireTurn {
    pub(crate) session: StreamId,
    pub(crate) task: StreamId,
    pub(crate) turn_id: String,
    pub(crate) reply: oneshot::Sender<Result<TurnGrant, Error>>,
}

/// A reservation is given back.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Release {
    pub(crate) turn_id: String,
}

/// A task has appended these events to the session's stream, in one append with its own.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Settled {
    pub(crate) after: Version,
    pub(crate) committed: Committed,
    pub(crate) hash: Digest,
    pub(crate) events: Vec<SessionEvent>,
    pub(crate) metadata: Metadata,
}

/// Show the session.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct LookAtSession {
    pub(crate) stream: StreamId,
    pub(crate) reply: oneshot::Sender<Result<(Session, Committed), Error>>,
}

/// One attempt to send.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) struct Order {
    pub(crate) stream: StreamId,
    pub(crate) task_id: String,
    pub(crate) request: CallRequested,
    pub(crate) attempt: u32,
    pub(crate) delay_ms: u64,
    /// Its place among the calls that may be under way at once: kept as long as its work runs.
    pub(crate) place: Option<Place>,
    /// What an inference is sent; none for a tool.
    pub(crate) infer: Option<InferRequest>,
    /// The span in which it is carried out.
    pub(crate) within: Within,
}

/// Ask a tool whether an attempt took effect.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) struct ProbeOrder {
    pub(crate) stream: StreamId,
    pub(crate) task_id: String,
    pub(crate) request: CallRequested,
    pub(crate) attempt: u32,
    /// It was interrupted just now.
    pub(crate) interrupted: bool,
}

/// Interrupt a call: its outcome is on disk already.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Abort {
    pub(crate) stream: StreamId,
    pub(crate) call_id: String,
}

/// Give up the task that another agent was sent: the call that sent it has its outcome.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) struct Recall {
    pub(crate) peer: String,
    pub(crate) task_id: String,
    pub(crate) reason: String,
}

/// A task's actor has stopped.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Stopped {
    pub(crate) stream: StreamId,
    /// Which actor of the stream: another may have taken its place.
    pub(crate) number: u64,
    pub(crate) orderly: bool,
}

/// An actor has come to rest while more are awake than should be.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Rested {
    pub(crate) stream: StreamId,
}
