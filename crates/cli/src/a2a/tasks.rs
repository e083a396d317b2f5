//! `task get`, `cancel`, `list` and `subscribe`.

use taskreel_http::a2a::{ErrorKind, Event, ListQuery, State, Task};
use taskreel_log::views::shell_word;

use crate::a2a::failure::Failure;
use crate::a2a::follow::Turn;
use crate::a2a::out::Out;
use crate::a2a::task_summary::print_continuation;
use crate::a2a::text;
use crate::a2a::wait::{is_end, polled};
use crate::args::a2a::TaskListArgs;
use crate::print::problem::EXIT_NO;
use crate::print::screen::note;

/// Prints a task; with `--wait` once it is over or waits for its client.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn get(id: &str, turn: &Turn<'_>, out: &mut Out) -> Result<(), Failure> {
    let history = turn.settings.number("history");
    if !turn.settings.flag("wait") {
        let task = turn.wait_answer(turn.agent.client.get(id, history)).await?;
        return print(&task, turn, out);
    }
    turn.known.replace(Some(id.to_owned()));
    let mut is_told = false;
    let told = |task: &Task| {
        if !std::mem::replace(&mut is_told, true) && !is_end(task.status.state) {
            note(&format!("task {} is {}; waiting", task.id, task.status.state.word()));
        }
        Ok(())
    };
    let task = polled(turn.agent, id, history, &turn.bounds, told).await?;
    print(&task, turn, out)
}

/// Prints a task as it is, and its last words.
fn print(task: &Task, turn: &Turn<'_>, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        out.value(&task.to_json())?;
    } else {
        text::task(out, task)?;
    }
    print_continuation(out, turn.agent, (&task.id, &task.context_id, task.status.state), false)?;
    Ok(out.flush()?)
}

/// Cancels a task, and prints it. One that was canceled before is printed too.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn cancel(id: &str, turn: &Turn<'_>, out: &mut Out) -> Result<(), Failure> {
    let failure = match turn.wait_answer(turn.agent.client.cancel(id)).await {
        Ok(task) => return print(&task, turn, out),
        Err(failure) => failure,
    };
    if !failure.is(ErrorKind::TaskNotCancelable) {
        return Err(failure);
    }
    let Ok(task) = turn.wait_answer(turn.agent.client.get(id, None)).await else { return Err(failure) };
    if task.status.state == State::Canceled {
        note("note: the task was canceled before");
        return print(&task, turn, out);
    }
    let message = format!("{}; the task is {}", failure.message, task.status.state.word());
    Err(Failure { message, ..failure }.hint(turn.agent.typed("task get", &shell_word(id))))
}

/// Lists tasks.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn list(args: &TaskListArgs, turn: &Turn<'_>, out: &mut Out) -> Result<(), Failure> {
    let settings = turn.settings;
    let mut query = ListQuery::new();
    if let Some(context) = settings.text("context-id") {
        query = query.context(context);
    }
    if let Some(word) = &args.status {
        query = query.state(state_of(word)?);
    }
    if let Some(tasks) = args.page_size {
        query = query.page_size(tasks);
    }
    if let Some(messages) = settings.number("history") {
        query = query.history_length(messages);
    }
    if args.artifacts {
        query = query.with_artifacts();
    }
    let mut token = args.page_token.clone();
    let mut whole = None;
    loop {
        let asked = token.iter().fold(query.clone(), |query, token| query.page_token(token));
        let mut page = turn.wait_answer(turn.agent.client.list(&asked)).await?;
        let next = page.next.clone().filter(|next| args.all && Some(next) != token.as_ref());
        if settings.streams || !out.json {
            for task in &page.tasks {
                row(out, task)?;
            }
        }
        match &mut whole {
            None => whole = Some(page),
            Some(whole) => {
                whole.tasks.append(&mut page.tasks);
                (whole.next, whole.size) = (page.next, Some(whole.tasks.len() as u64));
            }
        }
        let Some(next) = next else { break };
        token = Some(next);
    }
    let Some(whole) = whole else { return Ok(()) };
    if out.json {
        if !settings.streams {
            out.value(&whole.to_json())?;
        }
        return Ok(());
    }
    if whole.tasks.is_empty() {
        note("no task");
    }
    let total = whole.total.map(|total| total.to_string());
    out.optional("Total", total.as_deref())?;
    if let Some(next) = whole.next.as_deref().filter(|next| !next.is_empty()) {
        out.field("Next page token", next)?;
    }
    Ok(out.flush()?)
}

/// Prints a task of a list, on a line of JSON or as fields and a blank line.
fn row(out: &mut Out, task: &Task) -> Result<(), Failure> {
    if out.json {
        return Ok(out.value(&task.to_json())?);
    }
    if out.verbose || task.artifacts.as_ref().is_some_and(|all| !all.is_empty()) {
        text::task(out, task)?;
    } else {
        text::named(out, &task.id, &task.context_id, task.status.state.word())?;
        out.optional("Updated", task.status.timestamp.as_deref())?;
    }
    Ok(out.table_line("")?)
}

fn state_of(word: &str) -> Result<State, Failure> {
    let plain = word.trim().to_ascii_uppercase().replace(['-', ' '], "_");
    let whole = if plain.starts_with("TASK_STATE_") { plain } else { format!("TASK_STATE_{plain}") };
    let known = State::of_word(&whole).filter(|state| *state != State::Unspecified);
    known.ok_or_else(|| {
        let hint =
            "use submitted, working, input_required, auth_required, completed, failed, canceled or rejected";
        Failure::usage(format!("`{word}` is no state of a task"), hint)
    })
}

/// Follows a task.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn subscribe(id: &str, turn: &Turn<'_>, out: &mut Out) -> Result<(), Failure> {
    let agent = turn.agent;
    if !agent.streams() {
        let hint =
            format!("look at the task again and again: {}", agent.typed("task get --wait", &shell_word(id)));
        let message = "the agent's card says that it does not stream";
        return Err(Failure::new("UnsupportedOperationError", EXIT_NO, message, hint));
    }
    turn.known.replace(Some(id.to_owned()));
    let failure = match turn.wait_answer(agent.client.subscribe(id)).await {
        Ok(stream) => return turn.followed(stream, out).await,
        Err(failure) => failure,
    };
    if !failure.is(ErrorKind::UnsupportedOperation) {
        return Err(failure);
    }
    // An agent does not let a task be followed that is over: the task tells the rest.
    match turn.wait_answer(agent.client.get(id, turn.settings.number("history"))).await {
        Ok(task) if task.status.state.is_terminal() => {
            note("note: the task is over; there is nothing to follow");
            turn.print_answer(&Event::Task(Box::new(task)), out)
        }
        _ => Err(failure),
    }
}
