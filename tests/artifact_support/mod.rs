//! The fixture runner for artifacts: the areas, and the comparison and report that all fixture tests share.

#[path = "../fixtures_support/case.rs"]
mod case;
#[path = "../fixtures_support/compare.rs"]
mod compare;
mod for_llm;
#[path = "../fixtures_support/report.rs"]
mod report;
pub(crate) mod stores;
mod views;

pub(crate) use case::{Area, Case, Failure, load};
use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::indented_characters;
pub(crate) use report::run;
use taskreel_log::artifacts::ArtifactError;

/// The supported areas: the name in the fixture files, and the function that answers a case.
pub(crate) const AREAS: &[(&str, Area)] = &[
    ("data_minimize", views::data_minimize),
    ("data_view", views::data_view),
    ("json_task_store", stores::json_task_store),
    ("local_file_store", stores::local_file_store),
    ("minimize_artifacts", for_llm::minimize_artifacts),
    ("summarize_table", views::summarize_table),
    ("summarize_values", views::summarize_values),
    ("task_for_llm", for_llm::task_for_llm),
    ("text_minimize", views::text_minimize),
    ("text_view", views::text_view),
];

/// The areas that are not supported yet; they move to [`AREAS`] when they are built.
pub(crate) const NOT_BUILT: &[&str] = &[];

/// Whether an area's cases are those of the test of context strategies, or of the toolkit's, which asks agents
/// (`crates/http/tests/a2a_client/toolkit_cases`).
pub(crate) fn is_of_another_test(area: &str) -> bool {
    area.starts_with("context_") || matches!(area, "agents_for_llm" | "session_monitor" | "tools")
}

impl From<ArtifactError> for Failure {
    fn from(error: ArtifactError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl Case {
    /// Returns an integer of the input; absent if it is null.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<i64>, Failure> {
        let wrong = || Failure::Unanswerable(format!("input.{key} is no integer"));
        match &self.input()[key] {
            Value::Null => Ok(None),
            value => value.as_i64().ok_or_else(wrong).map(Some),
        }
    }

    /// Returns a number of characters of the input; a number below zero, which no type of ours can hold, is refused as
    /// one that is too small.
    pub(crate) fn characters(&self, key: &str, default: usize) -> Result<usize, Failure> {
        let Some(given) = self.integer(key)? else { return Ok(default) };
        usize::try_from(given).map_err(|_| Failure::Refused(format!("{key} must be >= 2 (got {given})")))
    }
}

/// Returns an answer in which every minimized value that must only stay below a size, does, and says what it is of, is what
/// is expected.
pub(crate) fn within_caps(expected: &Value, answer: Value) -> Value {
    match (expected.get("characters_at_most").and_then(Value::as_u64), answer) {
        (Some(most), answer) => {
            let is_short = answer.to_string().chars().count() as u64 <= most
                && answer.get("data").is_none_or(|shown| indented_characters(shown) as u64 <= most);
            if is_short && is_form_of(&expected["of"], &answer) { expected.clone() } else { answer }
        }
        (None, Value::Object(fields)) => {
            let member =
                |(key, value): (String, Value)| (key.clone(), within_caps(&expected[key.as_str()], value));
            Value::from(fields.into_iter().map(member).collect::<JsonMap>())
        }
        (None, Value::Array(items)) => {
            let items = items.into_iter().enumerate();
            items.map(|(at, item)| within_caps(&expected[at], item)).collect()
        }
        (None, other) => other,
    }
}

/// Whether a short form says of what it is: it counts all items, has all keys, or is the head and the tail of the whole text.
fn is_form_of(theirs: &Value, answer: &Value) -> bool {
    if let Some(text) = answer["text"].as_str() {
        let total = answer["_total_characters"].as_u64().unwrap_or_default();
        let (head, tail) =
            (text.split("\n\n[... ").next(), text.rsplit(" characters omitted ...]\n\n").next());
        let shown = [head, tail].into_iter().flatten().map(|end| end.chars().count() as u64).sum::<u64>();
        return head.is_some_and(|head| head.starts_with(['{', '['])) && 0 < shown && shown < total;
    }
    let counted = |value: &Value| value["_total_rows"].as_u64().or(value["_total_items"].as_u64());
    match theirs {
        Value::Array(items) => counted(&answer["data"]) == Some(items.len() as u64),
        Value::Object(_) if counted(theirs).is_some() => counted(&answer["data"]) == counted(theirs),
        Value::Object(fields) => fields.keys().all(|key| answer["data"].get(key).is_some()),
        _ => false,
    }
}
