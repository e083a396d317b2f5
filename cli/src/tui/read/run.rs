//! A stream whole: its events as lines, its calls as groups.

use std::collections::HashMap;
use std::ops::ControlFlow;

use proto_events::call::{Call, CallEvent, CallKind, CallStatus};
use proto_events::codec::AnyEvent;
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::audit::json::one_line;
use taskreel_log::read::for_each_page_of;
use taskreel_log::views::{
    CourseAsked, EventRow, Filter, RunRow, Selection, Summaries, event_rows, task_course,
};

use crate::print::show_task::answered;
use crate::tui::data::{CallGroup, EventLine, RunData, is_task};
use crate::tui::marks::Sign;

/// The most characters of an event in words: more never fits a screen, and a stream may have 100,000 events.
const WORDS_CHARACTERS: usize = 240;

/// The longest answer of a model that is looked into for its action, in bytes.
const ACTION_BYTES_MAX: usize = 64 << 10;

/// Reads a stream, as far as it can be read.
///
/// # Errors
/// [`ReadError`] if nothing of it can be read.
pub(super) fn run(log: &dyn EventReader, stream: &StreamId, filter: &Filter) -> Result<RunData, ReadError> {
    let mut data = RunData::default();
    let mut pass = Pass { summaries: Summaries::default(), selection: Selection::new(filter.clone()) };
    let mut places: HashMap<String, usize> = HashMap::new();
    let read = for_each_page_of(log, stream, Version(1), |page| {
        for row in page.iter().flat_map(event_rows) {
            if row.version.0 > data.end + 1 {
                data.events.push(missing(data.end + 1, &row));
            }
            let mut line = pass.line(&row);
            line.call = call_of(&row).map(|id| {
                *places.entry(id.to_owned()).or_insert_with(|| {
                    data.calls.push(CallGroup { id: id.to_owned(), ..CallGroup::default() });
                    data.calls.len() - 1
                })
            });
            if let Some(call) = line.call.and_then(|call| data.calls.get_mut(call)) {
                call.events.push(data.events.len());
            }
            data.end = line.version;
            data.events.push(line);
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    });
    match read {
        Err(error @ ReadError::Corrupt { .. }) if data.end > 0 => {
            data.damage = Some(format!("it ends here, behind v{}: {error}", data.end));
        }
        read => read?,
    }
    if is_task(stream) {
        course(log, stream, &mut data)?;
    }
    Ok(data)
}

/// Adds the row of a task, and what came of its calls.
fn course(log: &dyn EventReader, stream: &StreamId, data: &mut RunData) -> Result<(), ReadError> {
    let course = match task_course(log, stream, CourseAsked { window: 1, ..CourseAsked::default() }) {
        // An event that does not fit the others: the lines are shown all the same.
        Err(error @ ReadError::Corrupt { .. }) if data.end > 0 => {
            data.damage =
                data.damage.take().or_else(|| Some(format!("what came of its calls is not known: {error}")));
            return Ok(());
        }
        course => course?,
    };
    data.row = RunRow::of(log, stream, &course.newest).ok().map(Box::new);
    let known = |why: &ReadError| format!("state and calls are those behind v{}: {why}", course.end);
    data.damage = data.damage.take().or_else(|| course.damage.as_ref().map(known));
    let places: HashMap<&str, usize> =
        course.calls.iter().enumerate().map(|(at, call)| (call.call_id.as_str(), at)).collect();
    for group in &mut data.calls {
        let Some(call) = places.get(group.id.as_str()).and_then(|at| course.calls.get(*at)) else { continue };
        group.name = format!("{} {}", call.kind, call.target);
        group.sign = Sign::of_outcome(call.ended.map(|(word, ..)| word));
        group.usage = call.usage;
        let took = call.ended.map(|(.., at)| at.0.saturating_sub(call.since.0));
        group.took_us = took.and_then(|took| u64::try_from(took).ok());
        if let Some(call) = course.newest.state.calls().get(&group.id) {
            let args = if call.request.kind == CallKind::Infer {
                String::new()
            } else {
                beginning(&one_line(&call.request.args)) + " "
            };
            let outcome = action(call).unwrap_or_else(|| answered(call));
            let outcome =
                if outcome.is_empty() { call.status.as_str().to_owned() } else { beginning(&outcome) };
            group.words = format!("{args}→ {outcome}");
        }
    }
    Ok(())
}

/// Returns what a model's answer asks for, in short: a tool with its arguments, or the final answer.
fn action(call: &Call) -> Option<String> {
    let CallStatus::Succeeded(result) = &call.status else { return None };
    if call.request.kind != CallKind::Infer || result.as_str().len() > ACTION_BYTES_MAX {
        return None;
    }
    let reply = result.tree();
    // The action is a text in the reply of the model.
    let said = reply.get("content").unwrap_or(&reply);
    let tree = said
        .as_str()
        .and_then(|said| JsonText::parse(said).ok())
        .map_or_else(|| said.clone(), |it| it.tree());
    let text = |key: &str| tree.get(key).and_then(|value| value.as_str());
    match text("type")? {
        "tool_call" => {
            let args = tree.get("args").map(ToString::to_string).unwrap_or_default();
            Some(format!("{} {args}", text("tool")?))
        }
        "final" => Some(format!("final {}", tree.get("content")?)),
        _ => None,
    }
}

/// Returns the call that an event tells of.
fn call_of(row: &EventRow) -> Option<&str> {
    match &row.event {
        Ok(AnyEvent::Task(TaskEvent::Call(event))) => Some(event.call_id()),
        Ok(AnyEvent::Task(TaskEvent::ApprovalRequested(asked))) => Some(&asked.call_id),
        _ => None,
    }
}

/// Returns the line of versions that are missing before an event.
fn missing(first: u64, next: &EventRow) -> EventLine {
    EventLine {
        version: first,
        position: next.position.0,
        at: next.at,
        kind: "(damaged)",
        words: format!("v{first} to v{} cannot be read", next.version.0.saturating_sub(1)),
        sign: Sign::Failed,
        call: None,
        is_state: false,
        is_taken: true,
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(WORDS_CHARACTERS).collect()
}

struct Pass {
    summaries: Summaries,
    selection: Selection,
}

impl Pass {
    fn line(&mut self, row: &EventRow) -> EventLine {
        let is_failure = matches!(
            &row.event,
            Err(_)
                | Ok(AnyEvent::Task(TaskEvent::Call(
                    CallEvent::Failed { .. } | CallEvent::OutcomeUnknown { .. } | CallEvent::TimedOut { .. }
                )))
        );
        let sign = match &row.event {
            Err(_) => Sign::Failed,
            Ok(AnyEvent::Task(TaskEvent::StateChanged { to, .. })) => match to {
                TaskState::Completed => Sign::Done,
                TaskState::Failed => Sign::Failed,
                TaskState::InputRequired => Sign::Asks,
                TaskState::Canceled => Sign::Ended,
                _ => Sign::Plain,
            },
            Ok(_) if is_failure && row.kind != "CallOutcomeUnknown" => Sign::Failed,
            Ok(_) => Sign::of_event(row.kind),
        };
        let is_state = matches!(
            &row.event,
            Ok(AnyEvent::Task(TaskEvent::StateChanged { .. } | TaskEvent::Submitted(_)))
        );
        EventLine {
            version: row.version.0,
            position: row.position.0,
            at: row.at,
            kind: row.kind,
            words: beginning(&self.summaries.of(row)),
            sign,
            call: None,
            is_state,
            is_taken: self.selection.takes(row),
        }
    }
}
