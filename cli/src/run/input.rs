//! Reads tasks from a text, all of them before the first is executed: one task, an array, or one task per
//! line.

use std::collections::HashMap;

use proto_events::id::{Digest, Mint, check_id};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::PostedTask;
use serde_json::value::RawValue;
use taskreel_log::ports::Ports;

use crate::print::problem::{EXIT_USAGE, Problem};

/// Returns all tasks in a text.
///
/// # Errors
/// [`Problem`] with line and column if the text is not JSON, otherwise with the number of the task, its line
/// and its fault.
pub(crate) fn read_tasks(text: &str, name: &str) -> Result<Vec<PostedTask>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut inputs: Vec<PostedTask> = Vec::new();
    let mut lines: HashMap<String, usize> = HashMap::new();
    for (raw, line) in values(text, name)? {
        let number = inputs.len() + 1;
        let wrong = |why: String| {
            Problem::new(
                EXIT_USAGE,
                format!("task {number} of {name}, at line {line}, cannot be used; nothing was executed"),
                why,
                "correct it and run the file again; `taskreel run --help` describes the format of the file",
            )
        };
        let json = JsonText::parse(raw).map_err(|error| wrong(error.to_string()))?;
        let named = json.read::<JsonObject>().is_ok_and(|task| task.get("id").is_some());
        // Reading a file again must give the same tasks: the fields a named task leaves out are derived from
        // its text.
        let read = if named {
            PostedTask::from_json(&json, &mut FromText { text: Digest::of(raw.as_bytes()), made: 0 })
        } else {
            PostedTask::from_json(&json, &mut Ports::default())
        };
        let task = read.map_err(|error| wrong(error.to_string()))?;
        check_id(&task.id).map_err(|error| wrong(error.to_string()))?;
        if let Some(session) = task.metadata.get("session_id").and_then(JsonText::to_str) {
            let named = if session.is_empty() { Ok(()) } else { check_id(&session) };
            named.map_err(|error| wrong(format!("metadata.session_id: {error}")))?;
        }
        if let Some(before) = lines.insert(task.id.clone(), line) {
            let why = format!("its id `{}` is also the id of the task at line {before}", task.id);
            return Err(wrong(why));
        }
        inputs.push(task);
    }
    if inputs.is_empty() {
        return Err(Problem::new(
            EXIT_USAGE,
            format!("{name} has no task"),
            "it is empty",
            "give one task as JSON, an array of tasks, or one task a line",
        ));
    }
    Ok(inputs)
}

/// Derives ids from a task's own text, in order: the same text gets the same ids.
struct FromText {
    /// The digest of the text, taken once: a task may need thousands of ids.
    text: Digest,
    made: u64,
}

impl FromText {
    fn hex(&mut self) -> String {
        self.made += 1;
        Digest::of_parts(&[&self.text.0, &self.made.to_be_bytes()]).to_string()
    }
}

impl Mint for FromText {
    fn id(&mut self, prefix: &str) -> String {
        let hex = self.hex();
        format!("{prefix}19700101000000_{}", hex.get(..8).unwrap_or_default())
    }

    fn uuid(&mut self) -> String {
        let hex = self.hex();
        let piece = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
        [piece(0, 8), piece(8, 12), piece(12, 16), piece(16, 20), piece(20, 32)].join("-")
    }

    /// Returns the current time: times do not count when posts are compared.
    fn timestamp(&mut self) -> String {
        Ports::default().timestamp()
    }
}

/// Returns the values in a text, each with the line where it begins; arrays are split into their items.
fn values<'a>(text: &'a str, name: &str) -> Result<Vec<(&'a str, usize)>, Problem> {
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.map_err(|error| no_json(&error, name))?.get();
        if value.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(value).map_err(|error| no_json(&error, name))?;
            found.extend(items.into_iter().map(|item| (item.get(), line_of(text, item.get()))));
        } else {
            found.push((value, line_of(text, value)));
        }
    }
    Ok(found)
}

/// Returns the line where a piece of the text begins.
fn line_of(text: &str, piece: &str) -> usize {
    let offset = (piece.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    1 + text.get(..offset).unwrap_or_default().matches('\n').count()
}

fn no_json(error: &serde_json::Error, name: &str) -> Problem {
    let full = error.to_string();
    let said = full.split(" at line ").next().unwrap_or(&full);
    Problem::new(
        EXIT_USAGE,
        format!("{name} is not JSON; nothing was executed"),
        format!("line {}, column {}: {said}", error.line(), error.column()),
        "correct that place and run the file again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_an_array_and_a_task_a_line_are_all_read() {
        let ids = |text: &str| -> Vec<String> {
            read_tasks(text, "f").unwrap().into_iter().map(|task| task.id).collect()
        };
        assert_eq!(ids(r#"{"id":"a"}"#), ["a"]);
        assert_eq!(ids("[{\"id\":\"a\"},\n {\"id\":\"b\"}]"), ["a", "b"]);
        assert_eq!(ids("{\"id\":\"a\"}\n\n{\"id\":\"b\"}\n"), ["a", "b"]);
    }

    #[test]
    fn the_same_text_is_the_same_task_again_ids_that_it_leaves_out_included() {
        let text = r#"{"id":"a","messages":[{"parts":[{"type":"tool_call","content":{"tool_name":"t"}}]}]}"#;
        let ids = |text: &str| {
            let tasks = read_tasks(text, "f").unwrap();
            tasks.iter().flat_map(|task| &task.messages).map(|message| message.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(ids(text), ids(&format!("\u{feff}{text}")));
        assert_ne!(ids(text), ids(&text.replace("\"t\"", "\"u\"")));
    }

    #[test]
    fn a_place_that_is_no_json_is_named_by_line_and_column() {
        let problem = read_tasks("{\"id\":\"a\"}\n{\"id\": }\n", "f").unwrap_err();
        assert!(problem.why.starts_with("line 2, column 8: expected value"), "{problem}");
        let problem = read_tasks("[{\"id\":\"a\"},\n", "f").unwrap_err();
        assert!(problem.why.starts_with("line 2, column 0: EOF"), "{problem}");
    }

    #[test]
    fn a_task_that_cannot_be_used_is_named_by_number_and_line() {
        let problem = read_tasks("{\"id\":\"a\"}\n{\"id\":\"b\",\"state\":\"gone\"}", "f").unwrap_err();
        assert!(problem.what.contains("task 2") && problem.what.contains("line 2"), "{problem}");
        let problem = read_tasks("{\"id\":\"a\"}\n{\"id\":\"a\"}", "f").unwrap_err();
        assert!(problem.why.contains("line 1"), "{problem}");
        assert!(read_tasks(" \n", "f").unwrap_err().why.contains("empty"));
    }
}
