//! The operations by name, and carrying them out.

use proto_events::json::JsonText;

use crate::a2a::a2a_request::A2aRequest;
use crate::a2a::events::Events;
use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::model::{Event, Task};
use crate::a2a::ops::{extended_card, list, push, send, tasks};
use crate::a2a::wire::fields::WireFields;
use crate::auth::caller::Scope;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum A2aOperation {
    /// A message is sent, and the task it makes is the answer.
    Send,
    /// A message is sent, and the events that follow are the answer.
    SendStream,
    /// A task is read.
    Get,
    /// Tasks are listed.
    List,
    /// A task is canceled.
    Cancel,
    /// The events of a task are followed.
    Subscribe,
    /// The card for callers that are known.
    ExtendedCard,
    /// A webhook is registered.
    CreatePush,
    /// A webhook is read.
    GetPush,
    /// The webhooks of a task are listed.
    ListPush,
    /// A webhook is removed.
    DeletePush,
}

/// The methods of JSON-RPC, in 1.0 and in 0.3.
const METHODS: [(A2aOperation, &str, &str); 11] = [
    (A2aOperation::Send, "SendMessage", "message/send"),
    (A2aOperation::SendStream, "SendStreamingMessage", "message/stream"),
    (A2aOperation::Get, "GetTask", "tasks/get"),
    (A2aOperation::List, "ListTasks", "tasks/list"),
    (A2aOperation::Cancel, "CancelTask", "tasks/cancel"),
    (A2aOperation::Subscribe, "SubscribeToTask", "tasks/resubscribe"),
    (A2aOperation::ExtendedCard, "GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"),
    (A2aOperation::CreatePush, "CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"),
    (A2aOperation::GetPush, "GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get"),
    (A2aOperation::ListPush, "ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list"),
    (A2aOperation::DeletePush, "DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete"),
];

/// The result of an operation.
pub(crate) enum OperationOutcome {
    /// A value.
    Json(JsonText),
    /// A task.
    Task(Box<Task>),
    /// The answer to a message: a task, or a message alone.
    Sent(Event),
    /// Events.
    Events(Box<Events>),
}

impl A2aOperation {
    /// Returns the operation of a method of JSON-RPC, in 1.0 or in 0.3.
    pub(crate) fn of_method(method: &str, is_1: bool) -> Option<Self> {
        let found = METHODS.iter().find(|(_, new, old)| method == if is_1 { *new } else { *old });
        found.map(|(operation, ..)| *operation)
    }

    /// Returns the method of JSON-RPC for the operation, in 1.0 or in 0.3; of several the first.
    #[cfg(feature = "client")]
    pub(crate) fn method(self, is_1: bool) -> &'static str {
        let found = METHODS.iter().find(|(operation, ..)| *operation == self);
        found.map_or("", |(_, new, old)| if is_1 { new } else { old })
    }

    /// Whether the operation is about a webhook, whose path has a task and an id of its own.
    pub(crate) const fn is_of_webhooks(self) -> bool {
        matches!(self, Self::CreatePush | Self::GetPush | Self::ListPush | Self::DeletePush)
    }

    /// Returns the scope that the operation needs.
    const fn scope(self) -> Scope {
        match self {
            Self::Send | Self::SendStream | Self::Cancel | Self::CreatePush | Self::DeletePush => Scope::Run,
            Self::Get
            | Self::List
            | Self::Subscribe
            | Self::ExtendedCard
            | Self::GetPush
            | Self::ListPush => Scope::Read,
        }
    }
}

/// Carries out an operation with its parameters.
///
/// # Errors
/// [`A2aFailure`] if it was not carried out.
pub(crate) async fn carry_out(
    asking: &A2aRequest,
    operation: A2aOperation,
    fields: &WireFields,
) -> Result<OperationOutcome, A2aFailure> {
    asking.needs(operation.scope())?;
    // The card says which extensions are required: it is read without them.
    if operation != A2aOperation::ExtendedCard
        && let Some(uri) = asking.settings.lacking(&asking.extensions)
    {
        let text = format!("the agent requires the extension {uri}; name it in A2A-Extensions");
        return Err(A2aFailure::new(FailureKind::ExtensionSupportRequired, text).with("extension", uri));
    }
    Ok(match operation {
        A2aOperation::Send => OperationOutcome::Sent(send::send(asking, fields).await?),
        A2aOperation::SendStream => OperationOutcome::Events(Box::new(send::stream(asking, fields).await?)),
        A2aOperation::Get => OperationOutcome::Task(Box::new(tasks::get(asking, fields).await?)),
        A2aOperation::List => OperationOutcome::Json(list::list(asking, fields).await?),
        A2aOperation::Cancel => OperationOutcome::Task(Box::new(tasks::cancel(asking, fields).await?)),
        A2aOperation::Subscribe => {
            OperationOutcome::Events(Box::new(tasks::subscribe(asking, fields).await?))
        }
        A2aOperation::ExtendedCard => OperationOutcome::Json(extended_card::extended(asking)?),
        A2aOperation::CreatePush => OperationOutcome::Json(push::create(asking, fields).await?),
        A2aOperation::GetPush => OperationOutcome::Json(push::get(asking, fields).await?),
        A2aOperation::ListPush => OperationOutcome::Json(push::list(asking, fields).await?),
        A2aOperation::DeletePush => OperationOutcome::Json(push::delete(asking, fields).await?),
    })
}
