//! The submitters of tasks, and whose tasks a caller may send to.

use http::StatusCode;
use proto_events::envelope::Principal;
use proto_events::id::Version;
use taskreel::{Error, System, TaskHandle};
use taskreel_log::api::{Page, ReadError};

use crate::auth::caller::Caller;
use crate::error::Problem;

/// The refusal to send to a task of somebody else: the same words for every such task and for whatever is sent.
const TAKEN: &str = "the id is that of a task of another caller; to send to it takes the scope `read`";

/// Returns who submitted a task, from its first record; `None` if the task does not exist.
pub(crate) async fn submitter(system: &System, task: &TaskHandle) -> Result<Option<Principal>, Problem> {
    let (log, stream) = (system.log(), task.stream().clone());
    let read = move || -> Result<_, ReadError> {
        let page = log.page_stream(&stream, Version(1), Page::with_limit(1))?;
        Ok(page.first().map(|stored| stored.record.metadata.principal.clone()))
    };
    let read = tokio::task::spawn_blocking(read).await.map_err(|error| Error::Internal(error.to_string()))?;
    Ok(read.map_err(Error::from)?)
}

/// Refuses to send to the task with this id for a caller that may not read it: the answer would show the task, and the refusal of
/// another text than the one that was posted would tell where they differ.
///
/// # Errors
/// [`Problem`] with the code `conflict` if the task is one of somebody else.
pub(crate) async fn check_sender(system: &System, id: &str, caller: Option<&Caller>) -> Result<(), Problem> {
    let Some(caller) = caller.filter(|caller| caller.sees_own_tasks_alone()) else { return Ok(()) };
    // What cannot be an id is refused with the submission.
    let Ok(task) = system.task(id) else { return Ok(()) };
    match submitter(system, &task).await? {
        Some(by) if by != caller.principal => Err(Problem::new(StatusCode::CONFLICT, "conflict", TAKEN)),
        _ => Ok(()),
    }
}
