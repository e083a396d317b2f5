//! Canceling a task.

use proto_events::envelope::Principal;
use proto_events::id::Version;
use proto_events::json::{JsonObject, JsonText};
use proto_events::task::TaskEvent;
use taskreel::{Error, System, TaskHandle};
use taskreel_log::api::{Page, ReadError};
use taskreel_log::read::decode_record;

use crate::auth::caller::{Caller, Scope};
use crate::error::Problem;
use crate::protolink::asked::Asked;

/// Cancels a task and returns it.
pub(crate) async fn cancel(system: &System, asked: Asked) -> Result<JsonText, Problem> {
    let (id, reason) = request(asked.needed()?)?;
    let task = system.task(&id)?;
    if let Some(caller) = &asked.caller {
        check_owner(system, &task, caller).await?;
    }
    task.cancel(reason.as_deref()).await?;
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

/// Returns the id of the task and the reason.
fn request(body: &JsonText) -> Result<(String, Option<String>), Problem> {
    let fields: JsonObject =
        body.read().map_err(|_| Problem::malformed("the body must be a JSON object with an `id`"))?;
    let text = |fields: &JsonObject, key: &str| -> Result<Option<String>, Problem> {
        match fields.get(key).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => match value.to_str() {
                Some(text) => Ok(Some(text)),
                None => Err(Problem::malformed(format!("`{key}` must be a string"))),
            },
        }
    };
    let id = text(&fields, "id")?.or(text(&fields, "task_id")?).unwrap_or_default();
    if id.trim().is_empty() {
        return Err(Problem::malformed("TaskCancellationRequest.id must not be empty"));
    }
    let metadata: JsonObject = fields.get("metadata").and_then(|value| value.read().ok()).unwrap_or_default();
    Ok((id, text(&fields, "reason")?.or(text(&metadata, "reason")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<(String, Option<String>)> {
        request(&JsonText::parse(body).unwrap()).ok()
    }

    #[test]
    fn the_reason_of_a_cancel_stands_beside_the_id_or_in_the_metadata() {
        let reason = |text: &str| Some(text.to_owned());
        assert_eq!(read(r#"{"id":"t","reason":"r"}"#), Some(("t".to_owned(), reason("r"))));
        assert_eq!(read(r#"{"task_id":"t","metadata":{"reason":"m"}}"#), Some(("t".to_owned(), reason("m"))));
        assert_eq!(read(r#"{"id":"t","reason":null}"#), Some(("t".to_owned(), None)));
    }

    #[test]
    fn a_cancel_without_a_task_is_malformed() {
        for body in [r#"{"id":" "}"#, "{}", "[]", r#"{"id":7}"#, r#"{"id":"t","reason":7}"#] {
            assert_eq!(read(body), None, "{body}");
        }
    }
}
