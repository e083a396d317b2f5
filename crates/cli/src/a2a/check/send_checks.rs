//! The checks of what happens to a message, which the caller has asked to send.

use proto_events::id::Mint as _;
use taskreel::Ports;
use taskreel_http::a2a::{
    A2aError, ErrorKind, Event, ListQuery, Message, Part, SendRequest, State, StreamItem, Task, Version,
};

use crate::a2a::check::checked_interface::CheckedInterface;
use crate::a2a::check::read_checks::refused;
use crate::a2a::check::table::Table;
use crate::a2a::failure::Failure;

/// The most events of a stream that are waited for.
const EVENTS_MAX: usize = 10_000;

fn message(text: &str) -> Message {
    Message::user(&Ports::default().uuid(), vec![Part::text(text)])
}

/// Sends a message over an interface, and checks its task.
///
/// # Errors
/// [`Failure`] if the results cannot be written.
pub(crate) async fn checked(
    checked: &CheckedInterface<'_>,
    text: &str,
    table: &mut Table<'_>,
) -> Result<(), Failure> {
    let at = checked.name.as_str();
    let task = match checked.client.send(&SendRequest::new(message(text))).await {
        Ok(Event::Task(task)) => task,
        Ok(Event::Message(_)) => {
            table.pass("send", at, "answered with a message; there is no task to check")?;
            return streamed(checked, text, table).await;
        }
        Ok(_) => return table.fail("send", at, "answered with neither a task nor a message"),
        Err(error) => return table.fail("send", at, error.to_string()),
    };
    let state = task.status.state;
    let is_end = state.is_terminal() || state.is_interrupted();
    let fault =
        (!is_end).then(|| format!("answered in {}, before the task was over or waited", state.word()));
    table.unless("send", at, &format!("{} in {}", task.id, state.word()), fault)?;
    got(checked, &task, table).await?;
    listed(checked, &task, table).await?;
    if state.is_terminal() {
        over(checked, &task, table).await?;
    } else {
        table.skip("after-the-end", at, format!("the task is {}", state.word()))?;
        canceled(checked, &task, table).await?;
    }
    streamed(checked, text, table).await
}

async fn got(checked: &CheckedInterface<'_>, task: &Task, table: &mut Table<'_>) -> Result<(), Failure> {
    let at = checked.name.as_str();
    let fault = match checked.client.get(&task.id, None).await {
        Ok(again) if again.status.state != task.status.state => {
            Some(format!("it is {} now", again.status.state.word()))
        }
        Ok(again) if again.context_id != task.context_id => Some("its context is another one".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    table.unless("get", at, "the same task", fault)?;
    match checked.client.get(&task.id, Some(0)).await {
        Ok(short) if short.history.is_empty() => {
            table.pass("history-length", at, "none where none was asked for")
        }
        // In 0.3 no length and one of zero are the same to many.
        Ok(short) if checked.interface.version == Version::V03 => table.warn(
            "history-length",
            at,
            format!("{} messages where none was asked for", short.history.len()),
        ),
        Ok(short) => table.fail(
            "history-length",
            at,
            format!("{} messages where none was asked for", short.history.len()),
        ),
        Err(error) => table.fail("history-length", at, error.to_string()),
    }
}

async fn listed(checked: &CheckedInterface<'_>, task: &Task, table: &mut Table<'_>) -> Result<(), Failure> {
    let at = checked.name.as_str();
    if checked.interface.version == Version::V03 {
        return table.skip("list-sent", at, "0.3 has no such operation on every binding");
    }
    match checked.client.list(&ListQuery::new().context(&task.context_id)).await {
        Ok(page) if page.tasks.iter().any(|one| one.id == task.id) => {
            let strange = page.tasks.iter().filter(|one| one.context_id != task.context_id).count();
            let fault =
                (strange > 0).then(|| format!("{strange} tasks of other contexts are listed with it"));
            table.unless("list-sent", at, "found by its context", fault)
        }
        Ok(_) => table.fail("list-sent", at, "not found by its context"),
        Err(error) => table.fail("list-sent", at, error.to_string()),
    }
}

/// Checks a task that is over: it takes no message, is not canceled, and is not followed.
async fn over(checked: &CheckedInterface<'_>, task: &Task, table: &mut Table<'_>) -> Result<(), Failure> {
    let at = checked.name.as_str();
    if checked.interface.version == Version::V03 {
        return table.skip("after-the-end", at, "0.3 names no errors for it");
    }
    let again = SendRequest::new(message("once more").for_task(&task.id));
    let sent = checked.client.send(&again).await;
    refused(table, "send-to-ended", at, sent.as_ref().err(), ErrorKind::UnsupportedOperation)?;
    let canceled = checked.client.cancel(&task.id).await;
    match &canceled {
        Ok(same) if same.status.state == State::Canceled && task.status.state == State::Canceled => {
            table.pass("cancel-ended", at, "canceled once more")?;
        }
        other => refused(table, "cancel-ended", at, other.as_ref().err(), ErrorKind::TaskNotCancelable)?,
    }
    let followed = checked.client.subscribe(&task.id).await;
    match &followed {
        Ok(_) => table.fail("subscribe-ended", at, "it is followed though it is over"),
        Err(error) => refused(table, "subscribe-ended", at, Some(error), ErrorKind::UnsupportedOperation),
    }
}

async fn canceled(checked: &CheckedInterface<'_>, task: &Task, table: &mut Table<'_>) -> Result<(), Failure> {
    let at = checked.name.as_str();
    match checked.client.cancel(&task.id).await {
        Ok(task) => {
            let state = task.status.state;
            let fault = (state != State::Canceled).then(|| format!("it is {} after that", state.word()));
            table.unless("cancel", at, "canceled", fault)
        }
        Err(error) if error.kind() == Some(ErrorKind::TaskNotCancelable) => {
            table.warn("cancel", at, "the agent does not cancel it")
        }
        Err(error) => table.fail("cancel", at, error.to_string()),
    }
}

/// Checks a stream: its first event, its end, and what is answered where the card says that it has no streams.
async fn streamed(checked: &CheckedInterface<'_>, text: &str, table: &mut Table<'_>) -> Result<(), Failure> {
    let at = checked.name.as_str();
    let request = SendRequest::new(message(text));
    let opened = checked.client.stream(&request).await;
    if !checked.card.streaming {
        return refused(table, "stream", at, opened.as_ref().err(), ErrorKind::UnsupportedOperation);
    }
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(error) => return table.fail("stream", at, error.to_string()),
    };
    let (mut events, mut first, mut last) = (0, None, None);
    while let Some(item) = stream.next().await {
        let event = match item {
            Ok(StreamItem::Event(event)) => event,
            Ok(_) => return table.fail("stream", at, "the connection broke"),
            Err(error) => return table.fail("stream", at, describe_error(&error, events)),
        };
        events += 1;
        last = event.state().or(last);
        first.get_or_insert(matches!(event, Event::Task(_) | Event::Message(_)));
        if events >= EVENTS_MAX || last.is_some_and(State::is_interrupted) {
            break;
        }
    }
    let is_old = checked.interface.version == Version::V03;
    let fault = match (first, last) {
        (None, _) => Some("it ended without an event".to_owned()),
        (Some(false), _) if !is_old => Some("its first event is neither a task nor a message".to_owned()),
        (_, Some(state)) if !state.is_terminal() && !state.is_interrupted() => {
            Some(format!("it ended while the task was {}", state.word()))
        }
        _ => None,
    };
    let end = last.map_or("with a message", State::word);
    table.unless("stream", at, &format!("{events} events, the end {end}"), fault)
}

fn describe_error(error: &A2aError, events: usize) -> String {
    format!("after {events} events: {error}")
}
