//! Approval of calls whose policy requires it: by no one, by the embedder's code, or by a person, who may
//! take days.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use proto_events::envelope::Principal;
use proto_events::json::{JsonObject, JsonText};
use proto_events::task::{ApprovalRequested, Task};

use crate::tools::future::BoxFuture;

/// A request to approve a call of a tool or of another agent that has no intent yet; it is on disk before anyone is asked. Or
/// a request to approve an operation of the agent's control plane (`describe_state`, `reset_state`, `compact_state`,
/// `compact_history`), which belongs to no task: its `task_id` and `call_id` are empty, its `tool` is the operation and
/// its `args` are the operation's request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The approval's id.
    pub approval_id: String,
    /// The task that wants to make the call; empty for an operation of the control plane.
    pub task_id: String,
    /// The id that the call will have; empty for an operation of the control plane.
    pub call_id: String,
    /// The name of the tool, of the other agent or of the operation.
    pub tool: String,
    /// The description of the tool or of the other agent.
    pub description: String,
    /// The checked arguments, or the model's action if another agent is called. The approval holds for these
    /// alone.
    pub args: JsonText,
    /// The capabilities that require approval.
    pub capabilities: Vec<String>,
    /// The conversation of the task or of the operation; empty if it is about none.
    pub session_id: String,
    /// The metadata of the task.
    pub metadata: JsonObject,
    /// The principal that submitted the task or asks for the operation.
    pub principal: Principal,
    /// The number of the task's run, from 1; 0 for an operation of the control plane.
    pub run: u32,
}

impl ApprovalRequest {
    /// Creates the request from what a task recorded.
    pub(crate) fn from_task(
        task: &Task,
        session_id: String,
        description: &str,
        asked: &ApprovalRequested,
    ) -> Self {
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

    /// Creates the request for an operation of the control plane, which no task makes.
    pub(crate) fn of_operation(
        approval_id: String,
        action: &str,
        args: JsonText,
        principal: Principal,
    ) -> Self {
        Self {
            approval_id,
            task_id: String::new(),
            call_id: String::new(),
            tool: action.to_owned(),
            description: OF_CONTROL_PLANE.to_owned(),
            args,
            capabilities: Vec::new(),
            session_id: String::new(),
            metadata: JsonObject::new(),
            principal,
            run: 0,
        }
    }
}

/// The description of an operation of the control plane, for an approval handler.
const OF_CONTROL_PLANE: &str = "An operation of the agent's control plane";

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
