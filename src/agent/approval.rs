//! Approval of calls whose policy requires it: by no one, by the embedder's code, or by a person, who may
//! take days.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use proto_events::envelope::Principal;
use proto_events::json::{JsonObject, JsonText};
use proto_events::task::{ApprovalRequested, Task};

use crate::tools::future::BoxFuture;

/// A request to approve a call of a tool or of another agent that has no intent yet. It is on disk before
/// anyone is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The approval's id.
    pub approval_id: String,
    /// The task that wants to make the call.
    pub task_id: String,
    /// The id that the call will have.
    pub call_id: String,
    /// The name of the tool or of the other agent.
    pub tool: String,
    /// The description of the tool or of the other agent.
    pub description: String,
    /// The checked arguments, or the model's action if another agent is called. The approval holds for these
    /// alone.
    pub args: JsonText,
    /// The capabilities that require approval.
    pub capabilities: Vec<String>,
    /// The conversation of the task.
    pub session_id: String,
    /// The metadata of the task.
    pub metadata: JsonObject,
    /// The principal that submitted the task.
    pub principal: Principal,
    /// The number of the task's run, from 1.
    pub run: u32,
}

impl ApprovalRequest {
    /// Creates the request from what a task recorded.
    pub(crate) fn of(task: &Task, session_id: String, description: &str, asked: &ApprovalRequested) -> Self {
        let ApprovalRequested { approval_id, call_id, tool, args, capabilities, .. } = asked.clone();
        let (task_id, description) = (task.id().to_owned(), description.to_owned());
        let (metadata, principal, run) = (task.metadata().clone(), task.principal().clone(), task.runs());
        Self {
            approval_id,
            task_id,
            call_id,
            tool,
            description,
            args,
            capabilities,
            session_id,
            metadata,
            principal,
            run,
        }
    }
}

/// A handler's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalVerdict {
    /// The call may be made.
    Approved,
    /// The call may not be made: the task fails with this reason, or with the capabilities that the call
    /// needs.
    Denied {
        /// The reason, if the handler gave one.
        reason: Option<String>,
    },
    /// A person must decide: the task waits for input, and its session is free in the meantime.
    AskPerson,
}

/// Code that decides about approvals. Every `async fn(ApprovalRequest) -> ApprovalVerdict` implements it.
pub trait Approver: Send + Sync + 'static {
    /// Decides, or hands the decision to a person.
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'static, ApprovalVerdict>;
}

impl<F, Fut> Approver for F
where
    F: Fn(ApprovalRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ApprovalVerdict> + Send + 'static,
{
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'static, ApprovalVerdict> {
        Box::pin(self(request))
    }
}

/// The host's own text for the question to a person.
pub(crate) type ApprovalQuestion = Arc<dyn Fn(&ApprovalRequest) -> String + Send + Sync>;

/// The party that decides about an agent's approvals.
#[derive(Clone, Default)]
pub(crate) enum Approvals {
    /// No one: the task fails, as Protolink's does without a handler.
    #[default]
    Nobody,
    /// The embedder's code, which may hand the decision to a person.
    Handler(Arc<dyn Approver>),
    /// A person, without a time limit.
    Person,
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Handler(_) => "Handler",
            Self::Person => "Person",
        })
    }
}
