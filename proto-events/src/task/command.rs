//! Commands to a task, and the reasons to reject them.

use crate::call::command::{CallCommand, CallRejection};
use crate::json::{JsonObject, JsonText};
use crate::model::artifact::Artifact;
use crate::model::message::Message;
use crate::model::part::Part;
use crate::model::posted_task::PostedTask;
use crate::model::run_budget::LimitUse;
use crate::model::task_state::TaskState;
use crate::task::approval::{ApprovalDecided, ApprovalRejection, ApprovalRequested};
use crate::task::content::fields;
use crate::task::posted_again::PostedDifference;
use crate::task::webhook_rules::{WebhookCommand, WebhookRejection};
use crate::turn::{IllFormed, TurnMessage};

/// A command to a task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskCommand {
    /// Accept the task or, if its id is known, append its new items.
    Submit(Box<PostedTask>),
    /// Start the work on the last item.
    Begin,
    /// Complete the task, optionally with a last message.
    Complete(Option<Message>),
    /// Fail the task.
    Fail {
        /// The error text; becomes `metadata.error`.
        error: String,
    },
    /// Finish badly, because the run used more than its budget allows. What it used becomes `metadata.error`.
    ExceedBudget(LimitUse),
    /// Wait for a person, optionally with a question.
    RequireInput(Option<Message>),
    /// Cancel the task: close every open call, then the task.
    Cancel {
        /// The reason, as given by the caller.
        reason: Option<String>,
        /// Further entries for the metadata.
        metadata: JsonObject,
    },
    /// Wait for a person's answer to the open question of a call: the run ends, and this call alone stays open.
    AwaitAnswer {
        /// The id of the call.
        call_id: String,
        /// The question, as a message of the agent.
        question: Message,
    },
    /// Add a message.
    AppendMessage(Message),
    /// Add an artifact.
    AppendArtifact {
        /// The artifact.
        artifact: Artifact,
        /// The part of the current run that produced the artifact.
        part: Option<u32>,
    },
    /// Add a piece of an artifact: parts, and with the first piece all that describes the artifact.
    AppendArtifactPart {
        /// The piece: the artifact's id and the new parts.
        artifact: Artifact,
        /// Whether the artifact is complete.
        is_last: bool,
    },
    /// Add what an attempt of a handler says while it is under way.
    OfHandler {
        /// The id of the handler's call.
        call_id: String,
        /// The attempt.
        attempt: u32,
        /// The message or artifact that it adds.
        says: Box<HandlerSays>,
    },
    /// Set keys of the metadata.
    MergeMetadata(JsonObject),
    /// Add a message to or from the model.
    AppendInferMessage(TurnMessage),
    /// Request approval of a call.
    RequestApproval(Box<ApprovalRequested>),
    /// Decide an approval. The same decision again adds nothing.
    DecideApproval(ApprovalDecided),
    /// Apply a command to the task's webhooks.
    Webhook(Box<WebhookCommand>),
    /// Apply a command to a call.
    Call(CallCommand),
}

/// A message or artifact that an attempt of a handler adds to its task; an attempt of a tool adds whole artifacts alone.
#[derive(Debug, Clone, PartialEq)]
pub enum HandlerSays {
    /// A message.
    Message(Message),
    /// A whole artifact.
    Artifact(Artifact),
    /// A piece of an artifact.
    ArtifactPart {
        /// The piece: the artifact's id and the new parts.
        artifact: Artifact,
        /// Whether the artifact is complete.
        is_last: bool,
    },
}

impl HandlerSays {
    /// Returns the parts of the message or the artifact.
    pub fn parts(&self) -> &[Part] {
        match self {
            Self::Message(message) => &message.parts,
            Self::Artifact(artifact) | Self::ArtifactPart { artifact, .. } => &artifact.parts,
        }
    }
}

impl TaskCommand {
    /// Returns the command's content, which distinguishes a repeated command from another one under the same
    /// id: a word and fields, each after its length. Equal in every release, because the log keeps its digest.
    pub fn content(&self) -> Vec<u8> {
        let message = |message: &Option<Message>| message.as_ref().map(Message::to_json);
        let text = |json: &Option<JsonText>| json.as_ref().map_or("", JsonText::as_str).to_owned();
        match self {
            Self::Submit(posted) => fields("submit", &[posted.to_json().as_str()]),
            Self::Begin => fields("begin", &[]),
            Self::Complete(last) => fields("complete", &[&text(&message(last))]),
            Self::Fail { error } => fields("fail", &[error]),
            Self::ExceedBudget(over) => fields("exceed-budget", &[&over.to_string()]),
            Self::RequireInput(question) => fields("require-input", &[&text(&message(question))]),
            Self::Cancel { reason, metadata } => {
                let reason = reason.as_deref().unwrap_or_default();
                fields("cancel", &[reason, metadata.to_text().as_str()])
            }
            Self::AppendMessage(added) => fields("append-message", &[added.to_json().as_str()]),
            Self::AppendArtifact { artifact, part } => {
                let part = part.map_or_else(|| "-".to_owned(), |part| part.to_string());
                fields("append-artifact", &[artifact.to_json().as_str(), &part])
            }
            Self::MergeMetadata(entries) => fields("merge-metadata", &[entries.to_text().as_str()]),
            Self::DecideApproval(ApprovalDecided { approval_id, approved, reason, decided_by }) => {
                let verdict = if *approved { "approved" } else { "denied" };
                let reason = reason.as_deref().unwrap_or_default();
                fields("decide-approval", &[approval_id, verdict, reason, &decided_by.name])
            }
            Self::AppendArtifactPart { artifact, is_last } => {
                let end = if *is_last { "last" } else { "more" };
                fields("append-artifact-part", &[artifact.to_json().as_str(), end])
            }
            Self::Webhook(command) => command.content(),
            // The system itself issues these, with command ids made of call, attempt and kind.
            Self::AwaitAnswer { call_id, .. } => fields("await-answer", &[call_id]),
            Self::OfHandler { call_id, .. } => fields("of-handler", &[call_id]),
            Self::RequestApproval(asked) => fields("request-approval", &[&asked.approval_id]),
            Self::AppendInferMessage(said) => fields("append-infer-message", &[&said.message.content]),
            Self::Call(command) => fields("call", &[command.call_id()]),
        }
    }
}

/// The reason why a task rejects a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskRejection {
    /// The lifecycle has no such edge. The text is Protolink's.
    #[error("Invalid task state transition: {from} -> {to}")]
    InvalidTransition {
        /// The current state.
        from: TaskState,
        /// The requested state.
        to: TaskState,
    },
    /// The task does not exist.
    #[error("the task does not exist")]
    NotFound,
    /// The task was posted again while it runs.
    #[error("Task '{0}' is already running")]
    AlreadyRunning(String),
    /// The posted task is not the stored one with items appended.
    #[error("task `{id}` already exists with different content: {difference}")]
    Differs {
        /// The task's id.
        id: String,
        /// The first difference.
        difference: PostedDifference,
    },
    /// A message or artifact has more parts than one run carries out.
    #[error(
        "a message or artifact of {parts} parts; at most {limit} are carried out: post several messages or tasks"
    )]
    TooManyParts {
        /// The number of its parts.
        parts: usize,
        /// The most parts, [`PARTS_MAX`](crate::limits::PARTS_MAX).
        limit: usize,
    },
    /// A user's message came while the task was working, and no inference follows that could show it to the model.
    #[error(
        "task `{0}` is working, and no inference follows that could show the message to a model; send it when the task is over or waits"
    )]
    NoInferenceFollows(String),
    /// A message to a running task holds a part that only a run of its own would carry out.
    #[error(
        "the task is working: a part `{kind}` of a message to it would not be carried out; send it when the task is over or waits"
    )]
    NotCarriedOut {
        /// The kind of the part.
        kind: String,
    },
    /// A call is requested outside a run.
    #[error("call `{call_id}` cannot be requested: the task is {state}, and only a run makes calls")]
    NotRunning {
        /// The id of the call.
        call_id: String,
        /// The current state.
        state: TaskState,
    },
    /// The task is over and takes only evidence, metadata and messages.
    #[error("the task is {0}; only messages and metadata can be added")]
    Over(TaskState),
    /// The call does not wait for an answer.
    #[error("call `{0}` has no open question for which the task could wait")]
    NotAsked(String),
    /// The question of a call stands for an approval: the decision about the approval is its answer.
    #[error(
        "the question of call `{call_id}` is whether a person approves `{approval_id}`: approve or deny that; a text is no decision"
    )]
    AwaitsApproval {
        /// The id of the call.
        call_id: String,
        /// The id of the approval.
        approval_id: String,
    },
    /// The call waits for a task of another agent, which itself waits for a person: that one is decided about, and a text
    /// is not a decision.
    #[error(
        "call `{call_id}` waits for the task {task} of another agent: decide there, and this task goes on"
    )]
    AwaitsTask {
        /// The id of the call.
        call_id: String,
        /// The stream of the other agent's task.
        task: String,
    },
    /// A message came to a task with several open questions: it does not say which of them it answers.
    #[error(
        "the task has {} open questions, and a message does not say which it answers: answer each under its name ({})",
        .questions.len(),
        .questions.join(", ")
    )]
    WhichQuestion {
        /// The names of the questions, see [`Call::question_id`](crate::call::Call::question_id).
        questions: Vec<String>,
    },
    /// The attempt of a handler is over, or is not the call's last one: it adds nothing more.
    #[error("attempt {attempt} of handler call `{call_id}` is over; it adds nothing more to the task")]
    HandlerOver {
        /// The id of the call.
        call_id: String,
        /// The attempt.
        attempt: u32,
    },
    /// The artifact takes no further piece.
    #[error("artifact `{0}` takes no further piece: it is complete, or was added as a whole")]
    ArtifactComplete(String),
    /// A piece of an artifact names no artifact.
    #[error("a piece of an artifact must have the artifact's id")]
    ArtifactWithoutId,
    /// The rejection of a command about a call.
    #[error(transparent)]
    Call(#[from] CallRejection),
    /// The rejection of a command about an approval.
    #[error(transparent)]
    Approval(#[from] ApprovalRejection),
    /// The rejection of a command about a webhook.
    #[error(transparent)]
    Webhook(#[from] WebhookRejection),
    /// A message came between a tool call and its result.
    #[error(transparent)]
    IllFormed(#[from] IllFormed),
}
