//! Messages between the actors. Each operation on a task carries its reply channel, so that a caller can wait
//! on any runtime and a caller that goes away cancels nothing.

use std::sync::Arc;

use actix::Message;
use proto_events::call::recovery::RetryWish;
use proto_events::call::{Answer, CallFailure, CallQuestion, CallRequested, TimeLimit, TokenUsage, Verdict};
use proto_events::envelope::{Committed, Metadata, OWN_COMMAND, Principal, Timestamp};
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Part, PostedTask, RunBudget};
use proto_events::task::{ApprovalDecided, HandlerSays, Task, TaskCommand, command_content};
use proto_events::tool_store::ToolWrite;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::actors::shared::delegation_update::DelegationUpdate;
use crate::actors::shared::permits::{AttemptPermit, CallPermit};
use crate::actors::shared::resolution::CallResolution;
use crate::actors::shared::secrets::KeptOnce;
use crate::actors::shared::session_op::ForSession;
use crate::actors::shared::turns::TurnGrant;
use crate::actors::shared::within::Within;
use crate::agent::approval::ApprovalVerdict;
use crate::agent::peer::RecalledTask;
use crate::error::Error;
use crate::models::backend::InferRequest;
use crate::run::call_of::CallOf;
use crate::run::delegation_request::WantedCall;
use crate::run::new_webhook::NewWebhook;

/// The sender of a command and the reason for it; the time is added when the command is accepted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause {
    pub(crate) command_id: String,
    /// Whether the id is the caller's own, so that the same command may have come before, however long ago.
    pub(crate) may_repeat: bool,
    /// The content of the request as the caller sent it, where the operation has another one: files stand beside the log.
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) causation_id: String,
    pub(crate) correlation_id: String,
    pub(crate) principal: Principal,
    /// Whether the sender waits for the end of the run that the operation begins: the reply is the task as it is then.
    pub(crate) awaits_end: bool,
    /// The span of the caller.
    pub(crate) caller: Within,
    /// The span of the call whose outcome this is.
    pub(crate) within: Within,
}

impl Cause {
    /// Returns the cause of a command of the system's own, which takes its id from its subject. Its id begins
    /// with [`OWN_COMMAND`], which no caller's id may.
    pub(crate) fn from_system(command_id: std::fmt::Arguments<'_>, about: &str) -> Self {
        let command_id = format!("{OWN_COMMAND}{command_id}");
        Self { command_id, causation_id: about.to_owned(), ..Self::default() }
    }

    /// Returns the metadata of the command's events, accepted at this moment.
    pub(crate) fn metadata(&self, at: Timestamp) -> Metadata {
        self.clone().into_metadata(at)
    }

    /// Turns the cause into the metadata of the command's events, accepted at this moment.
    pub(crate) fn into_metadata(self, at: Timestamp) -> Metadata {
        Metadata {
            at,
            command_id: self.command_id,
            command_digest: None,
            causation_id: self.causation_id,
            correlation_id: self.correlation_id,
            principal: self.principal,
        }
    }
}

/// The end of an attempt of a call.
#[derive(Debug, Clone)]
pub(crate) enum AttemptEnd {
    Succeeded {
        result: JsonText,
        usage: Option<TokenUsage>,
        /// The writes to its tool's state, appended with the success or not at all.
        writes: Vec<ToolWrite>,
        /// The last words of a handler or the artifacts of a tool, appended with the success.
        says: Vec<HandlerSays>,
    },
    Failed {
        failure: CallFailure,
        retry: RetryWish,
    },
    TimedOut {
        after_ms: u64,
        limit: TimeLimit,
    },
    /// The attempt was cut off after it had begun, without an answer.
    Lost {
        why: String,
    },
    /// The attempt ended with a question to a person.
    Asked {
        question: String,
    },
}

/// An operation of a task's actor.
#[derive(Debug, Clone)]
pub(crate) enum TaskOp {
    /// Accept a posted task and work on it.
    Submit(Box<PostedTask>),
    /// Cancel the task.
    Cancel { reason: Option<String> },
    /// Note the end of an attempt.
    Outcome { call_id: String, attempt: u32, end: AttemptEnd },
    /// Note a probe's verdict on whether an attempt took effect.
    Probed { call_id: String, attempt: u32, verdict: Verdict },
    /// Note that another agent has the task of a call, under this id. `is_found` for a lost attempt whose task was asked
    /// after: the next attempt takes it up.
    Accepted { call_id: String, attempt: u32, handle: String, is_found: bool },
    /// Send the next attempt of a call, whose back-off after this attempt is over.
    RetryDue { call_id: String, attempt: u32 },
    /// Take a permit for a concurrent call, if it had none, and a turn at the rate limit of its target.
    PermitGranted { call_id: String, permit: Option<CallPermit> },
    /// Stop waiting for a permit: the call's deadline has come.
    PermitLate { call_id: String },
    /// Apply a person's decision about a call whose outcome is unknown.
    ResolveCall { call_id: String, resolution: CallResolution, by: Principal },
    /// Apply a person's answer to the question of a call.
    AnswerCall { question: String, answer: Answer },
    /// Make the request of an attempt in flight to another agent, and tell it what happens to it.
    Delegate { wanted: Box<WantedCall>, tell: UnboundedSender<DelegationUpdate> },
    /// Go on with a call that waits for a task of another agent: that task is over.
    ChildOver { call_id: String, child: StreamId },
    /// Add what an attempt of a handler says.
    OfHandler { call_id: String, attempt: u32, says: Box<HandlerSays> },
    /// Note the approval handler's verdict.
    Answered { approval_id: String, verdict: ApprovalVerdict },
    /// Apply a person's decision about an approval.
    Decide(ApprovalDecided),
    /// Replace the task's budget, and let it go on if it waits for that.
    RaiseBudget { budget: Box<RunBudget>, by: Principal },
    /// Decide an operation on the history of the session whose turn the task holds.
    OfSession(Box<ForSession>),
    /// Take the session's turn.
    TurnGranted { asked: String, grant: Box<TurnGrant> },
    /// Note that the session's turn was refused: for this reason, or so that it is asked for again.
    TurnRefused { asked: String, why: Option<String> },
    /// Register a webhook.
    SetWebhook { webhook: Box<NewWebhook>, most: usize },
    /// Decide one command of the caller's own.
    Command(Box<TaskCommand>),
    /// Go on with the task's open work according to the log.
    Resume,
    /// Note that the time of a run is over.
    TimeUp { run: u32, until: Timestamp },
    /// Return the state.
    Look,
    /// Reply when nothing more happens without a person.
    AwaitEnd,
}

impl TaskOp {
    /// Whether the operation only reads.
    pub(crate) fn is_query(&self) -> bool {
        matches!(self, Self::Look | Self::AwaitEnd)
    }

    /// Whether the operation brings a text from outside of which this holds.
    pub(crate) fn brings(&self, is_it: impl Fn(&JsonText) -> bool + Copy) -> bool {
        let in_parts = |parts: &[Part]| parts.iter().map(Part::content).any(is_it);
        let in_values = |object: &JsonObject| object.iter().any(|(_, value)| is_it(value));
        match self {
            Self::Outcome { end: AttemptEnd::Succeeded { result, says, .. }, .. } => {
                is_it(result) || says.iter().any(|said| in_parts(said.parts()))
            }
            Self::Probed { verdict: Verdict::Landed(result), .. }
            | Self::ResolveCall { resolution: CallResolution::Verdict(Verdict::Landed(result)), .. } => {
                is_it(result)
            }
            Self::Submit(posted) => {
                in_values(&posted.metadata)
                    || posted.messages.iter().any(|message| in_parts(&message.parts))
                    || posted.artifacts.iter().any(|artifact| in_parts(&artifact.parts))
            }
            Self::Command(command) => match &**command {
                TaskCommand::AppendMessage(message) => in_parts(&message.parts),
                TaskCommand::AppendArtifact { artifact, .. }
                | TaskCommand::AppendArtifactPart { artifact, .. } => in_parts(&artifact.parts),
                TaskCommand::MergeMetadata(entries) => in_values(entries),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns the content of the caller's request: it distinguishes a repeated command from another one under
    /// the same id.
    pub(crate) fn content(&self) -> Vec<u8> {
        match self {
            Self::Submit(posted) => match posted.source() {
                Some(source) => command_content("work", &[&source.to_string()]),
                None => command_content("work", &[posted.to_json().as_str()]),
            },
            Self::Cancel { reason } => command_content("cancel", &[reason.as_deref().unwrap_or_default()]),
            Self::ResolveCall { call_id, resolution, .. } => {
                let (word, says) = match resolution {
                    CallResolution::Verdict(Verdict::Landed(result)) => ("landed", result.as_str()),
                    CallResolution::Verdict(verdict) => (verdict.as_str(), ""),
                    CallResolution::Abandon(reason) => ("abandon", reason.as_str()),
                };
                command_content("settle", &[call_id, word, says])
            }
            Self::Decide(decided) => TaskCommand::DecideApproval(decided.clone()).content(),
            Self::RaiseBudget { budget, .. } => command_content("raise-budget", &[budget.to_json().as_str()]),
            Self::AnswerCall { question, answer } => {
                let (word, says) = match answer {
                    Answer::Given(text) => ("given", text),
                    Answer::Declined(why) => ("declined", why),
                };
                command_content("answer", &[question, word, says])
            }
            Self::SetWebhook { webhook, .. } => {
                command_content("set-webhook", &[&webhook.id, &webhook.url, &webhook.format])
            }
            Self::Command(command) => command.content(),
            // The system's own, whose ids say what they are about, and questions, which append nothing.
            Self::Outcome { .. }
            | Self::Probed { .. }
            | Self::Accepted { .. }
            | Self::RetryDue { .. }
            | Self::PermitGranted { .. }
            | Self::PermitLate { .. }
            | Self::Delegate { .. }
            | Self::ChildOver { .. }
            | Self::OfHandler { .. }
            | Self::Answered { .. }
            | Self::OfSession(_)
            | Self::TurnGranted { .. }
            | Self::TurnRefused { .. }
            | Self::Resume
            | Self::TimeUp { .. }
            | Self::Look
            | Self::AwaitEnd => Vec::new(),
        }
    }
}

/// The answer of a task's actor.
#[derive(Debug, Clone)]
pub(crate) struct TaskView {
    /// The task as it is on disk, where a query asked for it. A command is answered without it: who keeps the answer
    /// would keep the state from changing in place.
    pub(crate) task: Option<Arc<Task>>,
    pub(crate) committed: Committed,
}

/// The reply to an operation.
pub(crate) type TaskReply = Result<TaskView, NotDone>;

/// The reason why an operation was not carried out.
pub(crate) struct NotDone {
    pub(crate) error: Error,
    /// The operation, where a mailbox had no room for it: nothing was done.
    pub(crate) unsent: Option<Box<ToTask>>,
}

impl From<Error> for NotDone {
    fn from(error: Error) -> Self {
        Self { error, unsent: None }
    }
}

/// An operation sent to a task's actor. It is put into a box where it is made, since it passes through several mailboxes.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ToTask {
    pub(crate) stream: StreamId,
    pub(crate) op: TaskOp,
    pub(crate) cause: Cause,
    pub(crate) reply: Option<oneshot::Sender<TaskReply>>,
}

impl ToTask {
    /// Returns a caller's operation, without its cause.
    pub(crate) fn of_caller(stream: StreamId, op: TaskOp) -> Box<Self> {
        Box::new(Self { stream, op, cause: Cause::default(), reply: None })
    }
}

/// An attempt to be sent.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) struct Order {
    pub(crate) stream: StreamId,
    pub(crate) task_id: String,
    pub(crate) request: CallRequested,
    pub(crate) attempt: u32,
    /// The permit of the call, held as long as its work continues.
    pub(crate) permit: Option<AttemptPermit>,
    /// The request of an inference; `None` for a tool.
    pub(crate) infer: Option<InferRequest>,
    /// The questions that earlier attempts asked a person, with their answers.
    pub(crate) questions: Vec<CallQuestion>,
    /// The id that another agent gave the task of the call.
    pub(crate) handle: Option<String>,
    /// The task of the call, as its code is shown it.
    pub(crate) whose: CallOf,
    /// The task as it is now, for a handler.
    pub(crate) task: Option<Arc<Task>>,
    /// The span in which the attempt is carried out.
    pub(crate) within: Within,
}

/// An order to ask a tool whether an attempt took effect.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) struct ProbeOrder {
    pub(crate) stream: StreamId,
    pub(crate) task_id: String,
    pub(crate) request: CallRequested,
    pub(crate) attempt: u32,
    /// Whether the attempt was interrupted just now.
    pub(crate) interrupted: bool,
}

/// An order to interrupt a call whose outcome is on disk already.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Abort {
    pub(crate) stream: StreamId,
    pub(crate) call_id: String,
}

/// A request to report the attempts that are not in flight as lost.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub(crate) struct FindLost {
    pub(crate) stream: StreamId,
    /// The calls, each with the number of its attempt.
    pub(crate) calls: Vec<(String, u32)>,
}

/// An order to stop the work elsewhere of a call that has its outcome.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) enum Recall {
    /// The task that another agent was sent.
    Peer { peer: String, recalled: RecalledTask },
    /// The work that a tool has begun, whose policy says how to stop it.
    Tool(Box<ProbeOrder>),
}

/// An order to remove secret values that no call needs any more. It follows the orders that still use them.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Forget {
    pub(crate) stream: StreamId,
    pub(crate) kept: Vec<KeptOnce>,
}

/// Notice that a task's actor has stopped without having been asked to.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TaskActorStopped {
    pub(crate) stream: StreamId,
    /// The number of the actor, since another may have taken its place.
    pub(crate) number: u64,
}

#[cfg(test)]
mod tests {
    use proto_events::model::Artifact;
    use taskreel_log::ports::Ports;

    use super::*;

    #[test]
    fn a_long_text_is_found_in_an_artifact_and_in_a_piece_of_one() {
        let artifact = || Artifact::new(vec![Part::text("x".repeat(100))], &mut Ports::default());
        for command in [
            TaskCommand::AppendArtifact { artifact: artifact(), part: None },
            TaskCommand::AppendArtifactPart { artifact: artifact(), is_last: false },
        ] {
            let op = TaskOp::Command(Box::new(command));
            assert!(
                op.brings(|text| text.as_str().len() > 100) && !op.brings(|text| text.as_str().len() > 200)
            );
        }
    }
}
