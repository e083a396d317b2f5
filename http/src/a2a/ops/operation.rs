//! The operations by name, and carrying them out.

use proto_events::json::JsonText;

use crate::a2a::asking::Asking;
use crate::a2a::events::Events;
use crate::a2a::failure::{Failure, Kind};
use crate::a2a::model::{Event, Task};
use crate::a2a::ops::{known, list, push, send, tasks};
use crate::a2a::wire::fields::Fields;
use crate::auth::caller::Scope;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
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
const METHODS: [(Operation, &str, &str); 11] = [
    (Operation::Send, "SendMessage", "message/send"),
    (Operation::SendStream, "SendStreamingMessage", "message/stream"),
    (Operation::Get, "GetTask", "tasks/get"),
    (Operation::List, "ListTasks", "tasks/list"),
    (Operation::Cancel, "CancelTask", "tasks/cancel"),
    (Operation::Subscribe, "SubscribeToTask", "tasks/resubscribe"),
    (Operation::ExtendedCard, "GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"),
    (Operation::CreatePush, "CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"),
    (Operation::GetPush, "GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get"),
    (Operation::ListPush, "ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list"),
    (Operation::DeletePush, "DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete"),
];

/// The result of an operation.
pub(crate) enum Outcome {
    /// A value.
    Json(JsonText),
    /// A task.
    Task(Box<Task>),
    /// The answer to a message: a task, or a message alone.
    Sent(Event),
    /// Events.
    Events(Box<Events>),
}

impl Operation {
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
/// [`Failure`] if it was not carried out.
pub(crate) async fn carry_out(
    asking: &Asking,
    operation: Operation,
    fields: &Fields,
) -> Result<Outcome, Failure> {
    asking.needs(operation.scope())?;
    // The card says which extensions are required: it is read without them.
    if operation != Operation::ExtendedCard
        && let Some(uri) = asking.settings.lacking(&asking.extensions)
    {
        let text = format!("the agent requires the extension {uri}; name it in A2A-Extensions");
        return Err(Failure::new(Kind::ExtensionSupportRequired, text).with("extension", uri));
    }
    Ok(match operation {
        Operation::Send => Outcome::Sent(send::send(asking, fields).await?),
        Operation::SendStream => Outcome::Events(Box::new(send::stream(asking, fields).await?)),
        Operation::Get => Outcome::Task(Box::new(tasks::get(asking, fields).await?)),
        Operation::List => Outcome::Json(list::list(asking, fields).await?),
        Operation::Cancel => Outcome::Task(Box::new(tasks::cancel(asking, fields).await?)),
        Operation::Subscribe => Outcome::Events(Box::new(tasks::subscribe(asking, fields).await?)),
        Operation::ExtendedCard => Outcome::Json(known::extended(asking)?),
        Operation::CreatePush => Outcome::Json(push::create(asking, fields).await?),
        Operation::GetPush => Outcome::Json(push::get(asking, fields).await?),
        Operation::ListPush => Outcome::Json(push::list(asking, fields).await?),
        Operation::DeletePush => Outcome::Json(push::delete(asking, fields).await?),
    })
}
