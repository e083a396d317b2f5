//! Reads tasks one after another: one task, an array, or one task per line. No more of the input is read than the next
//! task takes.

use std::collections::HashMap;
use std::io::BufRead;

use proto_events::id::check_id;
use proto_events::json::JsonText;
use proto_events::model::PostedTask;
use serde_json::value::RawValue;
use taskreel_log::ports::Ports;
use tokio::sync::mpsc;

use crate::print::problem::{EXIT_USAGE, Problem};
use crate::run::pieces::{Piece, Pieces};

/// A place of the input that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadInput {
    /// The fault.
    pub(crate) what: String,
    /// The reason.
    pub(crate) why: String,
    /// The advice.
    pub(crate) hint: &'static str,
}

/// The tasks of an input, in order, as another thread reads them.
pub(crate) type Input = mpsc::Receiver<Result<PostedTask, BadInput>>;

impl BadInput {
    /// Returns the problem; `done` says what was executed.
    pub(crate) fn refused(self, done: &str) -> Problem {
        Problem::new(EXIT_USAGE, format!("{}; {done}", self.what), self.why, self.hint)
    }
}

/// The tasks of an input, read one after another.
pub(crate) struct Tasks<R> {
    pieces: Pieces<R>,
    name: String,
    number: usize,
}

impl<R: BufRead> Tasks<R> {
    /// Begins to read; `name` is the input's in errors.
    pub(crate) fn new(input: R, name: &str) -> Self {
        Self { pieces: Pieces::new(input), name: name.to_owned(), number: 0 }
    }

    /// Reads the next task, with the line where it begins; `None` at the end of the input.
    ///
    /// # Errors
    /// [`BadInput`] with line and column if the text is not JSON, otherwise with the number of the task, its line and
    /// its fault. Reading cannot go on then.
    pub(crate) fn next(&mut self) -> Result<Option<(PostedTask, usize)>, BadInput> {
        let read = self.pieces.next().map_err(|fault| BadInput {
            what: format!("{} cannot be read as JSON", self.name),
            why: fault,
            hint: "correct that place and run the file again",
        })?;
        let Some(piece) = read else { return Ok(None) };
        self.number += 1;
        self.syntax(&piece)?;
        let task = task_of(&piece.text).map_err(|why| self.unusable(piece.line, why))?;
        Ok(Some((task, piece.line)))
    }

    fn syntax(&self, piece: &Piece) -> Result<(), BadInput> {
        let Err(error) = serde_json::from_str::<&RawValue>(&piece.text) else { return Ok(()) };
        let full = error.to_string();
        let said = full.split(" at line ").next().unwrap_or(&full);
        let column = if error.line() == 1 { piece.column + error.column() } else { error.column() };
        let line = piece.line + error.line().saturating_sub(1);
        Err(BadInput {
            what: format!("{} is not JSON", self.name),
            why: format!("line {line}, column {column}: {said}"),
            hint: "correct that place and run the file again",
        })
    }

    fn unusable(&self, line: usize, why: String) -> BadInput {
        BadInput {
            what: format!("task {} of {}, at line {line}, cannot be used", self.number, self.name),
            why,
            hint: "correct it and run the file again; `taskreel run --help` describes the format of the file",
        }
    }
}

fn task_of(text: &str) -> Result<PostedTask, String> {
    let json = JsonText::parse(text).map_err(|error| error.to_string())?;
    // What a task leaves out is filled in anew at each reading; it does not count when posts are compared.
    let task = PostedTask::from_json(&json, &mut Ports::default()).map_err(|error| error.to_string())?;
    check_id(&task.id).map_err(|error| error.to_string())?;
    if let Some(session) = task.metadata.get("session_id").and_then(JsonText::to_str) {
        let named = if session.is_empty() { Ok(()) } else { check_id(&session) };
        named.map_err(|error| format!("metadata.session_id: {error}"))?;
    }
    Ok(task)
}

/// Returns all tasks of a text, each under an id of its own.
///
/// # Errors
/// [`BadInput`] as for [`Tasks::next`], and for the second task with an id.
pub(crate) fn read_all(input: impl BufRead, name: &str) -> Result<Vec<PostedTask>, BadInput> {
    let mut tasks = Tasks::new(input, name);
    let (mut all, mut lines) = (Vec::new(), HashMap::new());
    while let Some((task, line)) = tasks.next()? {
        if let Some(before) = lines.insert(task.id.clone(), line) {
            let why = format!("its id `{}` is also the id of the task at line {before}", task.id);
            return Err(tasks.unusable(line, why));
        }
        all.push(task);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_an_array_and_a_task_a_line_are_all_read() {
        let ids = |text: &str| -> Vec<String> {
            read_all(text.as_bytes(), "f").unwrap().into_iter().map(|task| task.id).collect()
        };
        assert_eq!(ids(r#"{"id":"a"}"#), ["a"]);
        assert_eq!(ids("[{\"id\":\"a\"},\n {\"id\":\"b\"}]"), ["a", "b"]);
        assert_eq!(ids("{\"id\":\"a\"}\n\n{\"id\":\"b\"}\n"), ["a", "b"]);
    }

    #[test]
    fn the_same_text_is_the_same_post_again_and_ids_that_it_leaves_out_tell_nothing_of_it() {
        let text = r#"{"id":"a","messages":[{"parts":[{"type":"tool_call","content":{"tool_name":"t"}}]}]}"#;
        let read = |text: &str| read_all(text.as_bytes(), "f").unwrap().remove(0);
        let (one, two) = (read(text), read(&format!("\u{feff}{text}")));
        assert_eq!(one.source(), two.source());
        assert!(one.messages.first().unwrap().id != two.messages.first().unwrap().id);
        assert_ne!(one.source(), read(&text.replace("\"t\"", "\"u\"")).source());
    }

    #[test]
    fn a_place_that_is_no_json_is_named_by_line_and_column() {
        let problem = read_all("{\"id\":\"a\"}\n{\"id\": }\n".as_bytes(), "f").unwrap_err();
        assert!(problem.why.starts_with("line 2, column 8: expected value"), "{problem:?}");
        let problem = read_all("[{\"id\":\"a\"},\n".as_bytes(), "f").unwrap_err();
        assert!(problem.why.starts_with("line 2, column 0: EOF"), "{problem:?}");
    }

    #[test]
    fn a_task_that_cannot_be_used_is_named_by_number_and_line() {
        let problem =
            read_all("{\"id\":\"a\"}\n{\"id\":\"b\",\"state\":\"gone\"}".as_bytes(), "f").unwrap_err();
        assert!(problem.what.contains("task 2") && problem.what.contains("line 2"), "{problem:?}");
        let problem = read_all("{\"id\":\"a\"}\n{\"id\":\"a\"}".as_bytes(), "f").unwrap_err();
        assert!(problem.why.contains("line 1"), "{problem:?}");
        assert!(read_all(" \n".as_bytes(), "f").unwrap().is_empty());
    }
}
