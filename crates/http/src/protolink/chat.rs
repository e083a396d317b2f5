//! A message of a conversation, and the agent's answer.

use proto_events::json::{JsonObject, JsonText};
use taskreel::{Error, Part, System};

use crate::error::Problem;
use crate::protolink::operation_input::OperationInput;

/// The conversation of a message that names none, under Protolink's name.
const CHAT_SESSION: &str = "chat_default";

/// Returns the agent's answer to a message, or the error of a run that failed, both as an answer.
pub(crate) async fn chat(system: &System, asked: OperationInput) -> Result<JsonText, Problem> {
    let fields: JsonObject = match &asked.body {
        None => JsonObject::new(),
        Some(body) => body.read().map_err(|_| Problem::malformed("the body must be a JSON object"))?,
    };
    let text = |key: &str| match fields.get(key).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => value.to_str().map(Some).ok_or_else(|| not_text(key)),
    };
    let message = text("message")?.unwrap_or_default();
    let session = text("session_id")?.unwrap_or_else(|| CHAT_SESSION.to_owned());
    if message.trim().is_empty() {
        return Ok(answer("error", JsonText::string("Empty message")));
    }
    let (system, input) = (system.clone(), Part::infer(message));
    // A client that goes away leaves the turn to end.
    let said = tokio::spawn(async move { system.session(&session).invoke(input).await }).await;
    match said.map_err(|error| Error::Internal(error.to_string()))? {
        Ok(said) => Ok(answer("response", said)),
        Err(Error::NotCompleted { why, .. }) => Ok(answer("error", JsonText::string(&why))),
        Err(error) => Err(error.into()),
    }
}

fn not_text(key: &str) -> Problem {
    Problem::malformed(format!("`{key}` must be a string"))
}

fn answer(key: &str, value: JsonText) -> JsonText {
    let mut fields = JsonObject::new();
    fields.set(key, value);
    fields.to_text()
}
