//! The state that a step's outputs lead to: failed on an error, else waiting on a request for input, else
//! completed.

use crate::json::{JsonObject, JsonText};
use crate::model::part::Part;
use crate::model::python;
use crate::model::task_state::TaskState;

/// The state to which a step's outputs lead a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalState {
    /// The outputs contain neither an error nor a request for input.
    Completed,
    /// A status part requests input.
    InputRequired,
    /// An output is an error.
    Failed {
        /// The text of the first error.
        error: String,
    },
}

impl FinalState {
    /// Returns the lifecycle label.
    pub const fn task_state(&self) -> TaskState {
        match self {
            Self::Completed => TaskState::Completed,
            Self::InputRequired => TaskState::InputRequired,
            Self::Failed { .. } => TaskState::Failed,
        }
    }
}

/// Returns the state that `outputs` lead to. Messages among the outputs do not count and are not passed in.
///
/// An error is an `error` part whose content is an object, or a `tool_output` whose error is true in Python.
/// Its text is its `message`; without one, `unknown error` or the error object as Python prints it. Unlike in
/// Protolink, an error with an empty message counts too; its text is its `type`, else its `code`, else
/// `unknown error`.
pub fn final_state(outputs: &[Part]) -> FinalState {
    if let Some(error) = outputs.iter().find_map(error_text) {
        return FinalState::Failed { error };
    }
    if outputs.iter().any(asks_for_input) { FinalState::InputRequired } else { FinalState::Completed }
}

fn error_text(part: &Part) -> Option<String> {
    match part.kind() {
        "error" => {
            let error: JsonObject = part.content().read().ok()?;
            Some(message(&error).unwrap_or_else(|| "unknown error".to_owned()))
        }
        "tool_output" => {
            let content: JsonObject = part.content().read().ok()?;
            content.get("error").filter(|error| python::truthy(error)).map(tool_error_text)
        }
        _ => None,
    }
}

fn tool_error_text(error: &JsonText) -> String {
    error.read::<JsonObject>().ok().and_then(|object| message(&object)).unwrap_or_else(|| python::text(error))
}

/// Returns the error's message, or a substitute for an empty one; `None` if the key is absent.
fn message(error: &JsonObject) -> Option<String> {
    let said = python::text(error.get("message")?);
    if !said.is_empty() {
        return Some(said);
    }
    let named = ["type", "code"]
        .into_iter()
        .filter_map(|key| error.get(key).filter(|value| python::truthy(value)))
        .map(python::text)
        .next();
    Some(named.unwrap_or_else(|| "unknown error".to_owned()))
}

/// Whether an output is a status part that asks for input.
pub fn asks_for_input(part: &Part) -> bool {
    let state = |content: JsonObject| content.get("state").and_then(JsonText::to_str);
    part.kind() == "status"
        && part
            .content()
            .read()
            .ok()
            .and_then(state)
            .is_some_and(|state| state == "input-required" || state == "input_required")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_with_an_empty_message_fails_with_its_type_else_its_code() {
        let failed = |error: &str| FinalState::Failed { error: error.to_owned() };
        let tool = |error: &str| Part::tool_failure("c", JsonText::parse(error).unwrap());
        assert_eq!(
            final_state(&[tool(r#"{"message":"","type":"ValueError","code":"x"}"#)]),
            failed("ValueError")
        );
        assert_eq!(final_state(&[Part::error("rate", "", true)]), failed("rate"));
        assert_eq!(final_state(&[tool(r#"{"message":""}"#)]), failed("unknown error"));
        assert_eq!(final_state(&[tool("{}")]), FinalState::Completed);
    }
}
