//! Area `conversation_history`: a history is made, changed by operations, and printed.

use proto_events::json;
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use proto_events::model::{ConversationHistory, LlmMessage, ModelError};
use taskreel_log::ports::Ports;

use super::{Case, Failure, python_error};

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    let mut mint = Ports::default();
    let mut history = match &case.input()["start"] {
        Value::Null => ConversationHistory::new(),
        Value::String(prompt) => ConversationHistory::with_system(prompt, &mut mint),
        messages => ConversationHistory::from_json(&messages.clone().into(), &mut mint)?,
    };
    let mut log = Vec::new();
    for op in case.input()["ops"].as_array().into_iter().flatten() {
        log.push(match perform(&mut history, op, &mut mint)? {
            Ok(()) => Value::from("ok"),
            Err(error) => python_error(&error),
        });
    }
    Ok(json!({
        "log": log,
        "len": history.len(),
        "messages": history.messages(),
        "list": history.to_json().tree(),
    }))
}

fn perform(
    history: &mut ConversationHistory,
    op: &Value,
    mint: &mut Ports,
) -> Result<Result<(), ModelError>, Failure> {
    let text = |n: usize| op["args"][n].as_str().unwrap_or_default();
    let metadata: JsonObject = op["kwargs"].read().unwrap_or_default();
    match op["op"].as_str().unwrap_or_default() {
        "add_user" => history.add_user(text(0), metadata, mint),
        "add_assistant" => history.add_assistant(text(0), metadata, mint),
        "add_system" => history.add_system(text(0), mint),
        "add_tool" => history.add_tool(text(0), text(1), metadata, mint),
        "set_system" => history.set_system(text(0), mint),
        "reset_to_system" => history.reset_to_system(text(0), mint),
        "add_raw" => return Ok(history.add_raw(&op["args"][0].clone().into(), mint)),
        "truncate" => return Ok(history.truncate(op["args"][0].as_i64().unwrap_or_default())),
        "replace" => return Ok(replace(history, &op["args"][0], mint)),
        other => return Err(Failure::Unanswerable(format!("no operation `{other}`"))),
    }
    Ok(Ok(()))
}

fn replace(history: &mut ConversationHistory, messages: &Value, mint: &mut Ports) -> Result<(), ModelError> {
    let messages: Result<Vec<LlmMessage>, ModelError> = messages
        .as_array()
        .into_iter()
        .flatten()
        .map(|message| LlmMessage::from_json(&JsonText::from(message.clone()), mint))
        .collect();
    history.replace(messages?);
    Ok(())
}
