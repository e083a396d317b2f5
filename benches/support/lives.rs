//! Lifecycles of tasks: five events of about 600 bytes each, as five commands or as two.

use std::sync::LazyLock;

use proto_events::codec::Storable as _;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::task::{TaskCommand, TaskEvent};
use taskreel::System;

use super::Failure;

/// The length of an event's body in bytes, to within a tenth.
pub(crate) const BODY_BYTES: usize = 600;
/// The number of events in one lifecycle.
pub(crate) const EVENTS: u64 = 5;

/// Makes a task in five commands.
pub(crate) async fn in_five(system: &System, id: &str) -> Result<(), Failure> {
    let task = system.task(id)?;
    task.command(TaskCommand::Submit(Box::new(posted(id)))).await?;
    for n in 1..EVENTS {
        let end = task.command(TaskCommand::AppendMessage(message(id, n))).await?;
        check_end(id, end.version.0, n + 1)?;
    }
    Ok(())
}

/// Makes a task in two commands.
pub(crate) async fn in_two(system: &System, id: &str) -> Result<(), Failure> {
    let task = system.task(id)?;
    task.command(TaskCommand::Submit(Box::new(posted(id)))).await?;
    let mut longer = posted(id);
    longer.messages.extend((1..EVENTS).map(|n| message(id, n)));
    let end = task.command(TaskCommand::Submit(Box::new(longer))).await?;
    check_end(id, end.version.0, EVENTS)
}

fn check_end(id: &str, found: u64, expected: u64) -> Result<(), Failure> {
    if found == expected { Ok(()) } else { Err(format!("{id} has {found} events, not {expected}").into()) }
}

/// A text that fills an event to its length. Made once, since the system is measured, not its caller.
static TEXT: LazyLock<Part> = LazyLock::new(|| Part::text("durable ".repeat(61).trim_end()));

/// A text that fills the first event, which holds more besides the text.
static FIRST: LazyLock<Part> = LazyLock::new(|| Part::text("durable ".repeat(52).trim_end()));

/// Returns a task's message of this number.
pub(crate) fn message(id: &str, n: u64) -> Message {
    said(id, n, &TEXT)
}

fn said(id: &str, n: u64, text: &Part) -> Message {
    Message {
        id: Some(format!("msg_{id}_{n}")),
        role: Some("user".to_owned()),
        parts: vec![text.clone()],
        timestamp: Some("2026-11-21T10:00:00.000000+00:00".to_owned()),
    }
}

/// Returns a task with its first message.
pub(crate) fn posted(id: &str) -> PostedTask {
    PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: id.to_owned(),
        state: TaskState::Submitted,
        messages: vec![said(id, 0, &FIRST)],
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: Some("2026-11-21T10:00:00.000000+00:00".to_owned()),
    }
}

/// Checks that the events have the stated length, without which the figures mean nothing.
pub(crate) fn check_sizes() -> Result<(), Failure> {
    let id = "run_000000000001";
    let events = [TaskEvent::Submitted(Box::new(posted(id))), TaskEvent::MessageAppended(message(id, 1))];
    for event in events {
        let bytes = event.encode()?.body.len();
        if bytes.abs_diff(BODY_BYTES) > BODY_BYTES / 10 {
            return Err(format!("an event's body has {bytes} bytes, not about {BODY_BYTES}").into());
        }
    }
    Ok(())
}
