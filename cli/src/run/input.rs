//! Reads tasks from a text, all of them before the first is executed: one task, an array, or one task per
//! line.

use std::collections::HashMap;

use proto_events::id::check_id;
use proto_events::json::JsonText;
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
        // What a task leaves out is filled in anew at each reading; it does not count when posts are compared.
        let read = PostedTask::from_json(&json, &mut Ports::default());
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
    fn the_same_text_is_the_same_post_again_and_ids_that_it_leaves_out_tell_nothing_of_it() {
        let text = r#"{"id":"a","messages":[{"parts":[{"type":"tool_call","content":{"tool_name":"t"}}]}]}"#;
        let read = |text: &str| read_tasks(text, "f").unwrap().remove(0);
        let (one, two) = (read(text), read(&format!("\u{feff}{text}")));
        assert_eq!(one.source(), two.source());
        assert!(one.messages.first().unwrap().id != two.messages.first().unwrap().id);
        assert_ne!(one.source(), read(&text.replace("\"t\"", "\"u\"")).source());
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
