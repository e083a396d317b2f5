//! The fixture runner: a file for each area, registered in [`AREAS`]; the comparison with its placeholders;
//! the report.

mod agent_grammar;
mod compare;
mod conversation_history;
mod execute_task;
mod finalize_state;
mod from_dict;
mod part_constructors;
mod report;
mod task_fold;
mod task_stream_events;
mod token_estimate;

use std::path::Path;

use proto_events::json::JsonValue as Value;
use proto_events::model::ModelError;
pub(crate) use report::run;

/// The supported areas: the name in the fixture files, and the function that answers a case.
pub(crate) const AREAS: &[(&str, Area)] = &[
    ("conversation_history", conversation_history::answer),
    ("execute_task", execute_task::answer),
    ("extract_summary", agent_grammar::extract),
    ("finalize_state", finalize_state::answer),
    ("from_dict_rejects", from_dict::answer),
    ("lifecycle_transitions", task_fold::lifecycle_transitions),
    ("llm_action_parse", agent_grammar::llm_action_parse),
    ("part_constructors", part_constructors::answer),
    ("round_trip", from_dict::answer),
    ("task_helpers", task_fold::task_helpers),
    ("task_stream_events", task_stream_events::answer),
    ("token_estimate", token_estimate::answer),
    ("tool_args", agent_grammar::tool_args),
];

/// The areas that are not supported yet; they move to [`AREAS`] when they are built.
pub(crate) const NOT_BUILT: &[&str] = &[
    // protolink
    "agent_card",
    "history_compaction",
    "http_api",
    "state_control_plane",
    // a2a-utils
    "agents_for_llm",
    "context_fit_window",
    "context_split",
    "context_token_count",
    "context_trim_rounds",
    "context_truncate_tool_outputs",
    "data_minimize",
    "data_view",
    "json_task_store",
    "local_file_store",
    "minimize_artifacts",
    "session_monitor",
    "summarize_table",
    "summarize_values",
    "task_for_llm",
    "text_minimize",
    "text_view",
    "tools",
];

/// A function that answers a case with the value to compare with `expected`, or with a failure.
pub(crate) type Area = fn(&Case) -> Result<Value, Failure>;

/// The reason why a case has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The code under test refuses the input, with this text; compared with the recorded error.
    Refused(String),
    /// The case needs this part, which is not built yet.
    #[allow(dead_code, reason = "an area that is being built says so case by case")]
    NotBuilt(&'static str),
    /// The area's runner cannot do what the case asks for; the case fails.
    Unanswerable(String),
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// A recorded case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The case as written in the file.
    pub(crate) whole: Value,
}

impl Case {
    /// Returns the case's name.
    pub(crate) fn name(&self) -> &str {
        self.whole["name"].as_str().unwrap_or("(no name)")
    }

    /// Returns the case's input.
    pub(crate) fn input(&self) -> &Value {
        &self.whole["input"]
    }

    /// Returns a text of the input.
    pub(crate) fn text(&self, key: &str) -> Result<&str, Failure> {
        self.input()[key].as_str().ok_or_else(|| Failure::Unanswerable(format!("input.{key} is no string")))
    }
}

/// Returns an error in the form that the fixtures use inside a result.
pub(crate) fn python_error(error: &ModelError) -> Value {
    let kind = match error {
        ModelError::Missing { .. } => "KeyError",
        ModelError::Expected { .. } => "TypeError",
        ModelError::Json(_) | ModelError::Invalid(_) => "ValueError",
    };
    proto_events::json!({"type": kind, "message": error.to_string()})
}

/// Loads every area's cases, by the names in the files.
///
/// # Errors
/// A text that names the folder or file that cannot be read.
pub(crate) fn load(folder: &Path) -> Result<Vec<(String, Vec<Case>)>, String> {
    let mut areas = Vec::new();
    for part in ["protolink", "a2a-utils"] {
        let folder = folder.join(part);
        let listed = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut paths: Vec<_> = listed
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        paths.sort();
        for path in paths {
            areas.push(load_file(&path).map_err(|why| format!("{}: {why}", path.display()))?);
        }
    }
    Ok(areas)
}

fn load_file(path: &Path) -> Result<(String, Vec<Case>), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let area = file["area"].as_str().ok_or("the file names no area")?;
    let cases = file["cases"].as_array().ok_or("the file holds no cases")?;
    let cases = cases.iter().map(|whole| Case { whole: whole.clone() });
    Ok((area.to_owned(), cases.collect()))
}
