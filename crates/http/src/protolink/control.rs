//! The control plane of an agent's state.

use proto_events::json::JsonText;
use proto_events::model::{HistoryCompactionRequest, StateOperationRequest};
use taskreel::{Error, System};

use crate::error::Problem;
use crate::protolink::operation_input::OperationInput;

/// Describes the state. An empty body is a request for all of it.
pub(crate) async fn describe(system: &System, asked: &OperationInput) -> Result<JsonText, Problem> {
    let request = match &asked.body {
        None => StateOperationRequest::default(),
        Some(_) => request(asked)?,
    };
    Ok(system.state().describe(&request).await?.to_json())
}

/// Resets one conversation or the whole state. An empty body resets nothing: Protolink's wipes all.
pub(crate) async fn reset(system: &System, asked: &OperationInput) -> Result<JsonText, Problem> {
    Ok(system.state().reset(&request(asked)?).await?.to_json())
}

/// Compacts a conversation.
pub(crate) async fn compact(system: &System, asked: &OperationInput) -> Result<JsonText, Problem> {
    let (system, request) = (system.clone(), request(asked)?);
    // A client that goes away leaves it to end.
    let compacted = tokio::spawn(async move { system.state().compact(&request).await }).await;
    Ok(compacted.map_err(|error| Error::Internal(error.to_string()))??.to_json())
}

/// Compacts the history of a conversation.
pub(crate) async fn compact_history(system: &System, asked: &OperationInput) -> Result<JsonText, Problem> {
    let request = HistoryCompactionRequest::from_json(object(asked)?).map_err(Error::from)?;
    let system = system.clone();
    let compacted = tokio::spawn(async move { system.compact_history(&request).await }).await;
    Ok(compacted.map_err(|error| Error::Internal(error.to_string()))??.to_json())
}

fn request(asked: &OperationInput) -> Result<StateOperationRequest, Problem> {
    Ok(StateOperationRequest::from_json(object(asked)?).map_err(Error::from)?)
}

fn object(asked: &OperationInput) -> Result<&JsonText, Problem> {
    let body = asked.needed()?;
    if body.is_object() { Ok(body) } else { Err(Problem::malformed("the body must be a JSON object")) }
}
