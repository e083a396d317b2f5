//! The summary of a task at the end of a command: its ids and its state, the command that goes on from there, and a warning
//! where it went wrong.

use taskreel_http::a2a::{State, Task};
use taskreel_log::views::shell_word;

use crate::a2a::agent::Agent;
use crate::a2a::out::Out;
use crate::a2a::text;
use crate::print::problem::Problem;
use crate::print::screen::note;

/// Tells of a task that goes on, so that it can be found whatever happens.
pub(crate) fn note_ids(task: &Task) {
    note(&format!("task {} context {}", task.id, task.context_id));
}

/// Prints the command that goes on from a task; with `again` its ids and its state before.
pub(crate) fn print_continuation(
    out: &mut Out,
    agent: &Agent,
    (id, context, state): (&str, &str, State),
    again: bool,
) -> Result<(), Problem> {
    let short = state.word().trim_start_matches("TASK_STATE_");
    match state {
        State::Failed | State::Rejected | State::Canceled => {
            note(&format!("warning: the task ended as {short}"));
        }
        State::InputRequired | State::AuthRequired => {
            note(&format!("warning: the task waits for you: {short}"));
        }
        _ => {}
    }
    if out.json {
        return Ok(());
    }
    if again {
        text::named(out, id, context, state.word())?;
    }
    let (label, command) = if state.is_interrupted() {
        ("Resume", agent.typed("send", &format!("--task-id {} \"<reply>\"", shell_word(id))))
    } else if state.is_terminal() {
        if context.is_empty() {
            return Ok(());
        }
        ("Continue", agent.typed("send", &format!("--context-id {} \"<message>\"", shell_word(context))))
    } else {
        ("Wait", agent.typed("task get --wait", &shell_word(id)))
    };
    out.field(label, &command)
}
