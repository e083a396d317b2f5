//! Tasks that are posted: accepted, carried out, and answered with as they end.

use proto_events::json::JsonText;
use taskreel::{BudgetUsage, Error, Ports, PostedTask, System, TaskHandle};

use crate::auth::owner::check_sender;
use crate::error::Problem;
use crate::protolink::operation_input::OperationInput;

/// Accepts a task, carries it out, and returns it as it ends. A task that failed is an answer like any other.
/// What it used stands beside it.
pub(crate) async fn run(system: &System, asked: OperationInput) -> Result<(JsonText, BudgetUsage), Problem> {
    let posted = posted(&asked)?;
    check_sender(system, &posted.id, asked.caller.as_ref()).await?;
    let system = system.clone();
    // Whatever happens to the client meanwhile, as in `submit`.
    let ended = tokio::spawn(async move { system.try_run(posted).await }).await;
    let ended = ended.map_err(|error| Error::Internal(error.to_string()))??;
    Ok((ended.to_json(), ended.used()))
}

/// Returns the task of a request.
pub(crate) fn posted(asked: &OperationInput) -> Result<PostedTask, Problem> {
    let body = asked.needed()?;
    Ok(PostedTask::parse(body.as_str(), &mut Ports::default()).map_err(Error::from)?)
}

/// Accepts a task, whatever happens to the client meanwhile: a request that arrived whole is carried out, as it is in
/// Protolink.
pub(crate) async fn submit(system: &System, posted: PostedTask) -> Result<TaskHandle, Problem> {
    let system = system.clone();
    let accepted = tokio::spawn(async move { system.try_submit(posted).await }).await;
    let accepted = accepted.map_err(|error| Error::Internal(error.to_string()))?;
    Ok(accepted?)
}
