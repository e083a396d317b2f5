//! A stream whole: its events as lines, its calls as groups.

use std::collections::HashMap;

use proto_events::call::{Call, CallKind, CallStatus};
use proto_events::id::StreamId;
use proto_events::json::JsonText;
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::audit::json::one_line;
use taskreel_log::views::{Course, CourseAsked, Filter, RunRow};

use crate::print::show_task::answered;
use crate::tui::data::{RunData, is_task};
use crate::tui::marks::Sign;
use crate::tui::read::lines::beginning;
use crate::tui::read::reading_cache::ReadingCache;

/// The longest answer of a model that is looked into for its action, in bytes.
const ACTION_BYTES_MAX: usize = 64 << 10;

/// Reads a stream, as far as it can be read.
///
/// # Errors
/// [`ReadError`] if nothing of it can be read.
pub(super) fn run(
    log: &dyn EventReader,
    kept: &ReadingCache,
    stream: &StreamId,
    filter: &Filter,
) -> Result<RunData, ReadError> {
    // Both read the stream from its beginning on, where it was not read before: at the same time, since somebody waits.
    let asked = CourseAsked { window: 1, ..CourseAsked::default() };
    let (lines, course) = std::thread::scope(|scope| {
        let course = scope.spawn(|| is_task(stream).then(|| kept.courses.course(log, stream, asked)));
        (kept.lines(log, stream, filter), course.join())
    });
    let mut data = lines?.data;
    match course.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        // An event that does not fit the others: the lines are shown all the same.
        Some(Err(error @ ReadError::Corrupt { .. })) if data.end > 0 => {
            data.damage =
                data.damage.take().or_else(|| Some(format!("what came of its calls is not known: {error}")));
        }
        Some(course) => outcomes(log, stream, &course?, &mut data),
        None => {}
    }
    Ok(data)
}

/// Adds the row of a task, and what came of its calls.
fn outcomes(log: &dyn EventReader, stream: &StreamId, course: &Course, data: &mut RunData) {
    data.row = RunRow::new(log, stream, &course.newest).ok().map(Box::new);
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
