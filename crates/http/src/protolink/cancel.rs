//! Canceling a task.

use proto_events::json::JsonText;
use proto_events::model::TaskCancellationRequest;
use taskreel::{Error, System, TaskHandle};

use crate::auth::caller::{Caller, Scope};
use crate::auth::owner::submitter;
use crate::error::Problem;
use crate::protolink::operation_input::OperationInput;

/// Cancels a task and returns it.
pub(crate) async fn cancel(system: &System, asked: OperationInput) -> Result<JsonText, Problem> {
    let request = TaskCancellationRequest::from_json(asked.needed()?).map_err(Error::from)?;
    let task = system.task(&request.id)?;
    if let Some(caller) = &asked.caller {
        check_owner(system, &task, caller).await?;
    }
    task.cancel(request.reason.as_deref()).await?;
    Ok(task.snapshot().await?.to_json())
}

/// Refuses to cancel a task of somebody else for a caller that may only run tasks of its own. Such a task is not found,
/// so that its id is not confirmed.
async fn check_owner(system: &System, task: &TaskHandle, caller: &Caller) -> Result<(), Problem> {
    if caller.scopes.has(Scope::Control) || submitter(system, task).await?.as_ref() == Some(&caller.principal)
    {
        return Ok(());
    }
    Err(Error::TaskNotFound(task.id().to_owned()).into())
}
