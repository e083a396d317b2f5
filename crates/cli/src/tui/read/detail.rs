//! The details of an event: its payload, its call, the prompt as the model was shown it, the state behind it, what it changed.

use proto_events::call::{Answer, Call, CallKind, CallStatus, Verdict};
use proto_events::codec::AnyEvent;
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;
use proto_events::task::{Task, TaskEvent};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::audit::words::{call_name, reduction, status_text};
use taskreel_log::audit::{Change, Explanation, event_json, explain_with, first_changes};
use taskreel_log::documents::state_json;
use taskreel_log::jsonl::hex;
use taskreel_log::shown::{prompt_digest, prompt_of};
use taskreel_log::views::{CausedEvent, Courses, WholeEvent, causes_between, whole_event};

use crate::print::compare::compare;
use crate::print::prompt::{head_of, tool_text, with_calls};
use crate::print::whole_event::facts;
use crate::tui::data::{Body, Content, EventRef, Section, Tab, is_task};
use crate::tui::line::ScreenLine;
use crate::tui::marks::Tone;

/// The most links of a chain of causes.
const CAUSES_MAX: usize = 64;

/// The events before one in which its causes are looked for first.
const CAUSES_WINDOW: u64 = 2_000;

/// The most changes that are shown: two versions of a long task have tens of thousands.
const CHANGES_MAX: usize = 1_000;

/// Reads what a tab shows of an event.
///
/// # Errors
/// [`ReadError`] if the log cannot be read there.
pub(super) fn detail(
    (log, courses): (&dyn EventReader, &Courses),
    place: &EventRef,
    tab: Tab,
    marked: Option<Version>,
) -> Result<Content, ReadError> {
    let EventRef { stream, at } = place;
    Ok(match tab {
        Tab::Payload => payload(&event_at(log, place)?),
        Tab::Raw => raw(&event_at(log, place)?),
        Tab::Call | Tab::Prompt if !is_task(stream) => Content::single_line("only a task makes calls"),
        Tab::Call => call((log, courses), place)?,
        Tab::Prompt => prompt((log, courses), place)?,
        Tab::State => state((log, courses), stream, *at)?,
        Tab::Diff => diff((log, courses), stream, *at, marked)?,
        Tab::Cause => cause(log, place)?,
        Tab::Recovery => recovery((log, courses), place)?,
    })
}

fn event_at(log: &dyn EventReader, place: &EventRef) -> Result<WholeEvent, ReadError> {
    let found = whole_event(log, &place.stream, place.at)?;
    found.ok_or_else(|| ReadError::Io(format!("{} has no version {}", place.stream, place.at)))
}

fn payload(found: &WholeEvent) -> Content {
    let row = &found.row;
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let mut content = Content::default();
    content.fact("event", format!("{} v{} @{}", row.kind, row.version, row.position));
    content.fact("by", format!("{} ({})", or_dash(&row.principal), row.principal_basis));
    content.fact("caused by", or_dash(&row.causation_id));
    match &row.event {
        Ok(event) => content.json("payload", &event_json(event)),
        Err(why) => content.head.push(ScreenLine::new(format!("its body cannot be read: {why}"), Tone::Bad)),
    }
    content
}

fn raw(found: &WholeEvent) -> Content {
    let mut content = Content::default();
    if found.is_intact() {
        content.head.push(ScreenLine::new("the body has the digest that its record holds", Tone::Good));
    } else {
        let wrong = "the body does NOT have the digest that its record holds, or is missing from the log";
        content.head.push(ScreenLine::new(wrong, Tone::Bad));
    }
    for (name, what) in facts(found) {
        content.fact(name, what);
    }
    content.text("body, as stored", &found.event.body().map(hex).unwrap_or_default());
    content.text("record, as hashed", &hex(&found.record.bytes));
    content
}

/// Returns the task as it was behind an event, and the id of the call that the event tells of.
fn task_at(
    (log, courses): (&dyn EventReader, &Courses),
    place: &EventRef,
) -> Result<(Task, Option<String>), ReadError> {
    let task = courses.state(log, &place.stream, place.at)?;
    let id = match event_at(log, place)?.row.event {
        Ok(AnyEvent::Task(TaskEvent::Call(event))) => Some(event.call_id().to_owned()),
        _ => None,
    };
    Ok((task, id))
}

/// Returns the call of an event that is wanted; else the last one before it.
fn call_at<'a>(task: &'a Task, own: Option<&str>, is_wanted: impl Fn(&Call) -> bool) -> Option<&'a Call> {
    let own = own.and_then(|id| task.calls().get(id)).filter(|call| is_wanted(call));
    own.or_else(|| task.calls().iter().filter(|call| is_wanted(call)).last())
}

fn call(of: (&dyn EventReader, &Courses), place: &EventRef) -> Result<Content, ReadError> {
    let (task, own) = task_at(of, place)?;
    let Some(call) = call_at(&task, own.as_deref(), |_| true) else {
        return Ok(Content::single_line("up to this event the task has made no call"));
    };
    let request = &call.request;
    let mut content = Content::default();
    content.fact("call", format!("{} {}", call_name(request), request.call_id));
    content.fact("status", status_text(call));
    content.fact("attempts", format!("{} of {}", call.attempts, request.max_attempts));
    content.fact("recovery", format!("{} ({})", request.recovery.as_str(), request.recovery_source));
    content.fact("key", request.idempotency_key.clone());
    if let Some(usage) = call.usage {
        content.fact("tokens", format!("{} + {}", usage.input_tokens, usage.output_tokens));
    }
    if let Some(approval) = &request.approval {
        content.fact("approval", approval.clone());
    }
    if let Some(reduced) = reduction(request) {
        content.fact("reduced", reduced);
    }
    content.json("arguments", &request.args);
    for asked in &call.questions {
        content.text("question", &asked.question);
        match &asked.answer {
            Some(Answer::Given(given)) => content.text("answer", given),
            Some(Answer::Declined(why)) => content.text("declined", why),
            None => {}
        }
    }
    match &call.status {
        CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)) => {
            content.json("result", result);
        }
        CallStatus::Failed(failure) => {
            content.text("failure", &format!("{}: {}", failure.error_type, failure.message));
        }
        CallStatus::Unknown(why) | CallStatus::Abandoned(why) => content.text("outcome", why),
        _ => content.head.push(ScreenLine::new("behind this event the call has no outcome yet", Tone::Dim)),
    }
    Ok(content)
}

/// Returns the prompt of the last inference up to an event, rendered again from the log and compared with its digest.
fn prompt(of: (&dyn EventReader, &Courses), place: &EventRef) -> Result<Content, ReadError> {
    let (log, (task, own)) = (of.0, task_at(of, place)?);
    let infers = |call: &Call| call.request.kind == CallKind::Infer;
    let Some(call) = call_at(&task, own.as_deref(), infers) else {
        return Ok(Content::single_line("up to this event no model was asked"));
    };
    let (id, stream) = (&call.request.call_id, &place.stream);
    let shown = match prompt_of(log, stream, id) {
        Ok(shown) => shown,
        Err(why) => return Ok(Content::single_line(format!("the prompt of {id} cannot be shown: {why}"))),
    };
    let mut content = Content::default();
    content.fact("inference", format!("{} {id}", call.request.target));
    content.head.push(match prompt_digest(log, stream, id) {
        Ok(digest) if digest.is_equal() => {
            let told = format!("digest computed again: the one in the intent, {}", digest.named);
            ScreenLine::new(told, Tone::Good)
        }
        Ok(digest) => {
            let (named, computed) = (digest.named, digest.computed);
            let told = format!("the intent names the digest {named}, but what the log holds has {computed}");
            ScreenLine::new(told, Tone::Bad)
        }
        Err(why) => ScreenLine::new(format!("its digest cannot be computed: {why}"), Tone::Bad),
    });
    // Of the messages, those stand last that the inference before was not shown.
    let calls = task.calls();
    let before =
        calls.iter().filter(|call| infers(call)).take_while(|call| call.request.call_id != *id).last();
    let before = before.and_then(|before| prompt_of(log, stream, &before.request.call_id).ok());
    let known = before.map_or(usize::MAX, |before| {
        let same = before.messages.iter().zip(&shown.messages).take_while(|(one, other)| one == other);
        same.count()
    });
    content.text("[system]", &shown.system);
    if shown.left_out > 0 {
        let told = format!("[{} messages of the history are left out]", shown.left_out);
        content.sections.push(Section { title: told, tone: Tone::Dim, body: Body::Empty });
    }
    for (at, (said, omitted, images)) in shown.sent().enumerate() {
        let new = if at >= known { "  new since the inference before" } else { "" };
        content.text(format!("[{}]{new}", head_of(said, omitted, images)), &with_calls(said));
    }
    for tool in &shown.offer.tools {
        content.text(format!("[tool {}]", tool.name), &tool_text(tool));
    }
    Ok(content)
}

fn state(
    (log, courses): (&dyn EventReader, &Courses),
    stream: &StreamId,
    at: Version,
) -> Result<Content, ReadError> {
    let state = if is_task(stream) {
        courses.state(log, stream, at)?.to_json()
    } else {
        match state_json(log, stream, Some(at)) {
            Ok(state) => state,
            Err(why) => return Ok(Content::single_line(why.to_string())),
        }
    };
    let mut content = Content::default();
    content.json(format!("state behind v{at}"), &state);
    Ok(content)
}

fn diff(
    (log, courses): (&dyn EventReader, &Courses),
    stream: &StreamId,
    at: Version,
    marked: Option<Version>,
) -> Result<Content, ReadError> {
    let from = marked.filter(|marked| *marked != at).unwrap_or(Version(at.0.saturating_sub(1)));
    let (changes, count) = if is_task(stream) {
        let (before, after) = (courses.state(log, stream, from)?, courses.state(log, stream, at)?);
        let found = first_changes(&before, &after, CHANGES_MAX);
        (found.changes, found.count)
    } else {
        match compare(log, log, stream, (from, at)) {
            Ok(found) => (found.changes.clone(), found.changes.len()),
            Err(problem) => return Ok(Content::single_line(problem.why)),
        }
    };
    let mut content = Content::default();
    let since = if marked.is_some_and(|marked| marked != at) { " (the mark)" } else { "" };
    let title = format!("v{from}{since} to v{at}: {count} changes");
    content.head.push(ScreenLine::new(title, Tone::Bold));
    if marked.is_none() {
        content.head.push(ScreenLine::new("m marks a version to compare others with", Tone::Dim));
    }
    for change in &changes {
        put_change(&mut content, change);
    }
    if count > changes.len() {
        let left = format!("{} further changes are not shown", count - changes.len());
        content.sections.push(Section { title: left, tone: Tone::Dim, body: Body::Empty });
    }
    Ok(content)
}

fn put_change(content: &mut Content, change: &Change) {
    let (mark, tone) = match change.kind.as_str() {
        "added" | "opened" => ("+", Tone::Added),
        "gone" => ("-", Tone::Gone),
        _ => ("~", Tone::Busy),
    };
    let title = format!(
        "{mark} {} {} {}: {}",
        change.kind.as_str(),
        change.area.as_str(),
        change.which,
        change.words
    );
    let body = match (&change.before, &change.after) {
        (None, None) => Body::Empty,
        (Some(one), None) | (None, Some(one)) => Body::Json(std::sync::Arc::new(one.tree())),
        (Some(before), Some(after)) => {
            let pair =
                taskreel_log::audit::json::object([("before", before.clone()), ("after", after.clone())]);
            Body::Json(std::sync::Arc::new(JsonText::tree(&pair)))
        }
    };
    content.sections.push(Section { title, tone, body });
}

/// Returns an event and its causes in the stream, each behind the event that it caused, at most so many.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub(super) fn causes_of(
    log: &dyn EventReader,
    place: &EventRef,
    events_max: usize,
) -> Result<Vec<CausedEvent>, ReadError> {
    let (mut chain, mut next) = (Vec::new(), Some(place.at));
    while let Some(at) = next.take().filter(|_| chain.len() < events_max) {
        // Most causes stand near what they caused: those before are not put into words.
        let first = Version(at.0.saturating_sub(CAUSES_WINDOW).max(1));
        let events = causes_between(log, &place.stream, (first, at))?;
        let mut found = events.iter().position(|event| event.version == at);
        while let Some(event) = found.and_then(|at| events.get(at)).filter(|_| chain.len() < events_max) {
            chain.push(event.clone());
            found = event.cause;
            let before = event.outside.strip_prefix('v').and_then(|version| version.parse().ok());
            next = before.filter(|before| *before < first.0 && found.is_none()).map(Version);
        }
    }
    Ok(chain)
}

fn cause(log: &dyn EventReader, place: &EventRef) -> Result<Content, ReadError> {
    let chain = causes_of(log, place, CAUSES_MAX + 1)?;
    let mut content = Content::default();
    for (number, event) in chain.iter().take(CAUSES_MAX).enumerate() {
        let tone = if event.is_failed { Tone::Bad } else { Tone::Plain };
        let head = format!("v{:<5} {:<20} ", event.version.0, event.kind);
        content.head.push(ScreenLine::new(head, tone).and(event.text.clone(), Tone::Plain));
        if number + 1 == chain.len() {
            let outside = if event.outside.is_empty() {
                "a caller caused it".to_owned()
            } else {
                format!("`{}` caused it, which stands outside of the stream", event.outside)
            };
            content.head.push(ScreenLine::new(outside, Tone::Dim));
        }
    }
    if chain.len() > CAUSES_MAX {
        content.head.push(ScreenLine::new("further causes are not followed", Tone::Dim));
    }
    content.head.push(ScreenLine::new("c goes to the cause, t shows all as a tree", Tone::Dim));
    Ok(content)
}

fn recovery((log, courses): (&dyn EventReader, &Courses), place: &EventRef) -> Result<Content, ReadError> {
    let task_at = |at| courses.state(log, &place.stream, at);
    let explained = explain_with(log, &place.stream, place.at, &task_at)?;
    let (first, last) = explained.append;
    let mut content = Content::default();
    content.head.push(ScreenLine::new(format!("if the program had died behind version {last}"), Tone::Bold));
    if first < last {
        let told = format!("versions {first} to {last} are one append, on disk as a whole or not at all");
        content.head.push(ScreenLine::new(told, Tone::Dim));
    }
    match &explained.explanation {
        Explanation::Task { state, calls } => {
            content.fact("state", state.to_string());
            for recovered in calls {
                let request = &recovered.call.request;
                let title = format!("{} ({})", call_name(request), recovered.call.status.as_str());
                content.text(title, &recovered.words);
            }
            if calls.is_empty() {
                content
                    .head
                    .push(ScreenLine::new("no call was open: recovery has nothing to do for one", Tone::Dim));
            }
        }
        Explanation::Session { turn_of: Some(task) } => {
            content.head.push(ScreenLine::plain(format!("its open turn belongs to {task}, which ends it")));
        }
        _ => content.head.push(ScreenLine::plain("nothing of it is open")),
    }
    Ok(content)
}
