//! Canceling a task.

use proto_events::envelope::Principal;
use proto_events::id::Version;
use proto_events::json::JsonText;
use proto_events::model::TaskCancellationRequest;
use proto_events::task::TaskEvent;
use taskreel::{Error, System, TaskHandle};
use taskreel_log::api::{Page, ReadError};
use taskreel_log::read::decode_record;

use crate::auth::caller::{Caller, Scope};
use crate::error::Problem;
use crate::protolink::asked::Asked;

/// Cancels a task and returns it.
pub(crate) async fn cancel(system: &System, asked: Asked) -> Result<JsonText, Problem> {
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

/// Returns who submitted a task, from its first record.
async fn submitter(system: &System, task: &TaskHandle) -> Result<Option<Principal>, Problem> {
    let (log, stream) = (system.log(), task.stream().clone());
    let read = move || -> Result<_, ReadError> {
        let page = log.page_stream(&stream, Version(1), Page::of(1))?;
        let first = page.first().map(decode_record::<TaskEvent>).transpose()?;
        Ok(first.and_then(|events| Some(events.first()?.metadata.principal.clone())))
    };
    let read = tokio::task::spawn_blocking(read).await.map_err(|error| Error::Internal(error.to_string()))?;
    Ok(read.map_err(Error::from)?)
}
