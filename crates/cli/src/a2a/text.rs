//! Tasks, messages, results and cards as text: one field per line under the same labels each time, content as blocks.

use proto_events::json::{JsonText, JsonValue};
use taskreel_http::a2a::{Artifact, Content, Event, Message, Part, Role, Task};

use crate::a2a::out::Out;
use crate::print::plain::indented;
use crate::print::problem::Problem;

type Written = Result<(), Problem>;

/// Prints the ids and the state of a task.
pub(crate) fn named(out: &mut Out, task: &str, context: &str, state: &str) -> Written {
    out.field("Task", task)?;
    out.field("Context", context)?;
    out.field("State", state)
}

/// Prints a task with its results; with `--verbose` its history and metadata too.
pub(crate) fn task(out: &mut Out, task: &Task) -> Written {
    named(out, &task.id, &task.context_id, task.status.state.word())?;
    if out.verbose {
        out.optional("Updated", task.status.timestamp.as_deref())?;
        if !task.metadata.is_empty() {
            out.block("Task metadata", &indented(&task.metadata.to_text()))?;
        }
        task.history.iter().try_for_each(|message| print_message(out, "History", message))?;
    }
    if let Some(message) = &task.status.message {
        print_message(out, "Status", message)?;
    }
    task.artifacts.iter().flatten().try_for_each(|one| artifact(out, one))
}

/// Prints a message under a label.
pub(crate) fn print_message(out: &mut Out, label: &str, message: &Message) -> Written {
    if out.verbose {
        let role = if message.role == Role::User { "user" } else { "agent" };
        out.field(&format!("{label} role"), role)?;
        out.field(&format!("{label} message"), &message.id)?;
        if !message.metadata.is_empty() {
            out.block(&format!("{label} metadata"), &indented(&message.metadata.to_text()))?;
        }
    }
    print_parts(out, label, &message.parts)
}

/// Prints a result.
pub(crate) fn artifact(out: &mut Out, artifact: &Artifact) -> Written {
    out.field("Artifact", &artifact.id)?;
    out.optional("Artifact name", artifact.name.as_deref())?;
    out.optional("Artifact description", artifact.description.as_deref())?;
    if out.verbose && !artifact.metadata.is_empty() {
        out.block("Artifact metadata", &indented(&artifact.metadata.to_text()))?;
    }
    print_parts(out, "Artifact", &artifact.parts)
}

fn print_parts(out: &mut Out, label: &str, parts: &[Part]) -> Written {
    parts.iter().try_for_each(|one| part(out, label, one))
}

/// Prints a part: a text as a text, data as JSON, and of a file its name, its media type and its size.
fn part(out: &mut Out, label: &str, part: &Part) -> Written {
    let (name, kind) = (part.filename.as_deref(), part.media_type.as_deref());
    match &part.content {
        Content::Text(text) => {
            if out.verbose {
                out.optional(&format!("{label} media type"), kind)?;
            }
            out.block(&format!("{label} text"), text)?;
        }
        Content::Data(data) => {
            if out.verbose {
                out.optional(&format!("{label} media type"), kind)?;
            }
            out.block(&format!("{label} data"), &indented(data))?;
        }
        Content::Raw(raw) => {
            out.field(&format!("{label} file"), name.unwrap_or("(no name)"))?;
            out.field(&format!("{label} media type"), kind.unwrap_or("(none)"))?;
            let size = part.bytes().map(|bytes| format!("{} bytes", bytes.len()));
            let size = size.unwrap_or_else(|| format!("{} characters that are no base64", raw.len()));
            out.field(&format!("{label} size"), &size)?;
        }
        Content::Url(url) => {
            out.field(&format!("{label} file"), name.unwrap_or("(no name)"))?;
            out.field(&format!("{label} media type"), kind.unwrap_or("(none)"))?;
            out.field(&format!("{label} address"), url)?;
        }
        _ => out.field(&format!("{label} part"), "(of a kind that this release does not know)")?,
    }
    if out.verbose && !part.metadata.is_empty() {
        out.block(&format!("{label} part metadata"), &indented(&part.metadata.to_text()))?;
    }
    Ok(())
}

/// Prints an event of a stream.
pub(crate) fn event(out: &mut Out, event: &Event) -> Written {
    match event {
        Event::Task(one) => task(out, one)?,
        Event::Message(message) => print_message(out, "Message", message)?,
        Event::Status(update) => {
            named(out, &update.task_id, &update.context_id, update.status.state.word())?;
            if let Some(message) = &update.status.message {
                print_message(out, "Status", message)?;
            }
        }
        Event::Artifact(update) => {
            if update.append {
                out.field("Appended to", &update.artifact.id)?;
                print_parts(out, "Artifact", &update.artifact.parts)?;
            } else {
                artifact(out, &update.artifact)?;
            }
        }
        _ => out.field("Event", "(of a kind that this release does not know)")?,
    }
    out.flush()
}

/// Prints a message that is the whole answer: no task was made.
pub(crate) fn answer(out: &mut Out, message: &Message) -> Written {
    out.field("Message", &message.id)?;
    out.optional("Context", message.context_id.as_deref())?;
    out.optional("Task", message.task_id.as_deref())?;
    print_message(out, "Message", message)
}

/// Prints a card, and what is known of its signatures.
pub(crate) fn card(out: &mut Out, card: &JsonText, signatures: &str) -> Written {
    let tree = card.tree();
    let texts = |name: &str| tree.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    for (label, name) in [("Name", "name"), ("Description", "description"), ("Version", "version")] {
        out.optional(label, texts(name).as_deref())?;
    }
    let at = |pointer: &str| tree.pointer(pointer).and_then(|value| value.as_str()).map(str::to_owned);
    out.optional("Provider", at("/provider/organization").as_deref())?;
    out.optional("Documentation", texts("documentationUrl").as_deref())?;
    for (label, name) in [
        ("Streaming", "streaming"),
        ("Push notifications", "pushNotifications"),
        ("Extended card", "extendedAgentCard"),
    ] {
        let is_on = tree
            .pointer(&format!("/capabilities/{name}"))
            .is_some_and(|value| *value == JsonValue::Bool(true));
        out.field(label, if is_on { "yes" } else { "no" })?;
    }
    let lists = crate::a2a::credentials::lists(card);
    for (label, lines) in [
        ("Interface", lists.interfaces),
        ("Extension", lists.extensions),
        ("Security scheme", lists.schemes),
        ("Security requirement", lists.requirements),
        ("Input", lists.inputs),
        ("Output", lists.outputs),
        ("Skill", lists.skills),
    ] {
        lines.iter().try_for_each(|line| out.field(label, line))?;
    }
    out.field("Signatures", signatures)?;
    if out.verbose {
        out.block("Card", &indented(card))?;
    }
    out.flush()
}
