//! `send`: a message, and the wait for what happens to it.

use proto_events::id::Mint as _;
use proto_events::json::JsonText;
use taskreel::Ports;
use taskreel_http::a2a::{ErrorKind, Event, Message, SendRequest};

use crate::a2a::failure::Failure;
use crate::a2a::follow::Turn;
use crate::a2a::out::Out;
use crate::a2a::parts;
use crate::a2a::settings::Settings;
use crate::a2a::task_summary::note_ids;
use crate::a2a::wait::is_end;
use crate::args::a2a::SendArgs;
use crate::print::problem::EXIT_NO;
use crate::print::screen::note;

/// Returns the message and how it is sent.
///
/// # Errors
/// [`Failure`] if the arguments make none.
pub(crate) fn request(args: &SendArgs, settings: &Settings) -> Result<SendRequest, Failure> {
    let parts = parts::build_parts(&args.parts.0)?;
    let mut message = Message::user(&Ports::default().uuid(), parts);
    if let Some(task) = settings.text("task-id") {
        message = message.for_task(task);
    }
    if let Some(context) = settings.text("context-id") {
        message = message.in_context(context);
    }
    let mut request = SendRequest::new(message);
    if let Some(metadata) = settings.text("metadata") {
        let wrong = || Failure::usage("--metadata is no JSON object", "use one such as '{\"k\":\"v\"}'");
        let metadata = JsonText::parse(metadata).map_err(|_| wrong())?;
        request = request.metadata(metadata.read().map_err(|_| wrong())?);
    }
    if let Some(messages) = settings.number("history") {
        request = request.history_length(messages);
    }
    Ok(request)
}

/// Sends the message, and prints what happens to it.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn send(request: SendRequest, turn: &Turn<'_>, out: &mut Out) -> Result<(), Failure> {
    let (agent, settings) = (turn.agent, turn.settings);
    let given = settings.text("task-id");
    if settings.flag("async") && !settings.is_flag("wait") {
        let event = turn.wait_answer(agent.client.send(&request.returning_immediately())).await;
        return turn.print_answer(&event.map_err(|failure| refused(failure, given))?, out);
    }
    if settings.streams && !agent.streams() {
        note("note: the agent does not stream; the task is looked at again and again");
    }
    if agent.streams() {
        match turn.wait_answer(agent.client.stream(&request)).await {
            Ok(stream) => return turn.followed(stream, out).await,
            // A task that takes no message refuses in the same words as an agent that does not stream.
            Err(failure) if given.is_some() || !is_without_streams(&failure) => {
                return Err(refused(failure, given));
            }
            Err(_) => note("note: the agent refuses to stream; the task is looked at again and again"),
        }
    }
    let event = turn.wait_answer(agent.client.send(&request.returning_immediately())).await;
    match event.map_err(|failure| refused(failure, given))? {
        Event::Task(task) if !is_end(task.status.state) => {
            note_ids(&task);
            turn.looked(&task, out).await
        }
        event => turn.print_answer(&event, out),
    }
}

fn is_without_streams(failure: &Failure) -> bool {
    failure.is(ErrorKind::UnsupportedOperation) || failure.is(ErrorKind::MethodNotFound)
}

/// Says of the refusal of a message to a task that no other task took its place.
fn refused(failure: Failure, given: Option<&str>) -> Failure {
    let Some(task) = given.filter(|_| failure.exit == EXIT_NO) else { return failure };
    let before = failure.hint.clone().map(|hint| format!("{hint}; ")).unwrap_or_default();
    failure.hint(format!("{before}no task was made in the place of {task}; --debug shows the exchange"))
}
