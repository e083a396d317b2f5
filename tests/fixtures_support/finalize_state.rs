//! Area `finalize_state`: the task state that follows from a handler's outputs.

use proto_events::id::Mint;
use proto_events::json;
use proto_events::json::JsonValue as Value;
use proto_events::model::{FinalState, Part, TaskState, final_state};
use taskreel_log::ports::Ports;

use super::{Case, Failure};

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    let mint = &mut Ports::default();
    let from = TaskState::from_json(&case.input()["state"].clone().into())
        .map_err(|unknown| Failure::Unanswerable(unknown.to_string()))?;
    if from.is_terminal() {
        return Ok(json!({"state": from, "error": null, "messages": 0, "history": null}));
    }
    let mut parts = Vec::new();
    for output in case.input()["outputs"].as_array().into_iter().flatten() {
        // Outputs that are whole messages are not examined.
        if output.get("parts").is_none() {
            parts.push(Part::from_json(&output.clone().into(), mint)?);
        }
    }
    let outcome = final_state(&parts);
    let to = outcome.task_state();
    if !from.can_become(to) {
        let text = format!("Invalid task state transition: {from} -> {to}");
        return Err(Failure::Refused(text));
    }
    let error = match outcome {
        FinalState::Failed { error } => Some(error),
        FinalState::Completed | FinalState::InputRequired => None,
    };
    let change = json!({"previous_state": from, "new_state": to, "timestamp": mint.timestamp()});
    Ok(json!({"state": to, "error": error, "messages": 0, "history": [change]}))
}
