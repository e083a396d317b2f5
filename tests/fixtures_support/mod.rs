//! The fixture runner: a file for each area, registered in [`AREAS`]; the comparison with its placeholders;
//! the report.

mod agent_card;
mod agent_grammar;
mod case;
mod compare;
mod conversation_history;
mod execute_task;
mod finalize_state;
mod from_dict;
mod history_compaction;
mod part_constructors;
mod report;
mod state_control_plane;
mod task_fold;
mod task_stream_events;
mod token_estimate;

pub(crate) use case::{Area, Case, Failure, load};
use proto_events::json::JsonValue as Value;
use proto_events::model::ModelError;
pub(crate) use report::run;

/// The supported areas: the name in the fixture files, and the function that answers a case.
pub(crate) const AREAS: &[(&str, Area)] = &[
    ("agent_card", agent_card::answer),
    ("conversation_history", conversation_history::answer),
    ("execute_task", execute_task::answer),
    ("extract_summary", agent_grammar::extract),
    ("finalize_state", finalize_state::answer),
    ("from_dict_rejects", from_dict::answer),
    ("history_compaction", history_compaction::answer),
    ("lifecycle_transitions", task_fold::lifecycle_transitions),
    ("llm_action_parse", agent_grammar::llm_action_parse),
    ("part_constructors", part_constructors::answer),
    ("round_trip", from_dict::answer),
    ("state_control_plane", state_control_plane::answer),
    ("task_helpers", task_fold::task_helpers),
    ("task_stream_events", task_stream_events::answer),
    ("token_estimate", token_estimate::answer),
    ("tool_args", agent_grammar::tool_args),
];

/// The areas that are answered elsewhere: `crates/http/tests/protolink_fixtures.rs` has what goes over a socket.
pub(crate) const NOT_BUILT: &[&str] = &["http_api"];

/// Returns an error in the form that the fixtures use inside a result.
pub(crate) fn python_error(error: &ModelError) -> Value {
    let kind = match error {
        ModelError::Missing { .. } => "KeyError",
        ModelError::Expected { .. } => "TypeError",
        ModelError::Json(_) | ModelError::Invalid(_) => "ValueError",
    };
    proto_events::json!({"type": kind, "message": error.to_string()})
}
