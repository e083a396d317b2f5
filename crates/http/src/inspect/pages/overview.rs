//! The overview of a task, as its page and a report show it: figures, states, calls as a waterfall and as a table.

use std::collections::BTreeMap;

use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::views::{CallCourse, Course, RunRow, SpanKind, StateTime};

use crate::inspect::draw::waterfall::{Waterfall, waterfall};
use crate::inspect::pages::task_place::Here;
use crate::inspect::words::{self, At, Mark};

/// The most calls that are drawn; of more, the calls in the window of events are.
const CALLS_MAX: usize = 100;

/// The overview of a task.
#[derive(Debug)]
pub(crate) struct Overview {
    /// The beginning of the names of its places.
    pub(crate) anchor: String,
    pub(crate) id: String,
    pub(crate) agent: String,
    pub(crate) mark: Mark,
    pub(crate) waits: Option<String>,
    pub(crate) until: Option<At>,
    pub(crate) error: Option<String>,
    pub(crate) session: Option<(String, String)>,
    pub(crate) began: At,
    pub(crate) took: String,
    pub(crate) events: String,
    pub(crate) calls: String,
    pub(crate) tokens: String,
    pub(crate) costs: String,
    pub(crate) states: Vec<StateView>,
    pub(crate) falls: Waterfall,
    pub(crate) call_rows: Vec<CallView>,
    pub(crate) calls_note: Option<String>,
    /// The last version that can be read, and the reason why it is the last one.
    pub(crate) damage: Option<(u64, String)>,
}

#[derive(Debug)]
pub(crate) struct StateView {
    pub(crate) mark: Mark,
    pub(crate) at: At,
    pub(crate) took: String,
    pub(crate) url: String,
    pub(crate) is_now: bool,
}

#[derive(Debug)]
pub(crate) struct CallView {
    pub(crate) mark: Mark,
    pub(crate) kind: &'static str,
    pub(crate) target: String,
    pub(crate) url: String,
    pub(crate) since: At,
    pub(crate) took: String,
    pub(crate) attempts: u32,
    pub(crate) waited: String,
    pub(crate) tokens: String,
    pub(crate) costs: String,
    pub(crate) is_child: bool,
}

impl Overview {
    /// Returns the overview of a task at a time.
    pub(crate) fn new(
        here: &Here<'_>,
        log: &dyn EventReader,
        course: &Course,
        at: Timestamp,
    ) -> Result<Self, ReadError> {
        let Here { cx, stream, .. } = *here;
        let row = RunRow::new(log, stream, &course.newest)?;
        let drawn = drawn_calls(course);
        let left = course.calls.len().saturating_sub(drawn.len());
        let is_over = row.task.state.is_terminal();
        let until = if is_over { course.times.1 } else { cx.now.max(course.times.1) };
        let session = row.task.session.as_ref().and_then(|id| {
            let session = StreamId::session(&stream.agent(), id).ok()?;
            let is_there = log.stream_version(&session).is_ok_and(|version| version > Version(0));
            is_there.then(|| (id.clone(), cx.links.stream(&session)))
        });
        // A page has the whole error at its event; a report has no other page.
        let (anchor, error) = (cx.links.anchor(stream), row.task.error.as_deref());
        let columns = if anchor.is_some() { usize::MAX } else { crate::inspect::pages::runs::ERROR_COLUMNS };
        let error = error.map(|error| taskreel_log::views::cut(error, columns, "…"));
        Ok(Self {
            anchor: anchor.map_or_else(String::new, |anchor| format!("{anchor}-")),
            id: stream.id(),
            agent: stream.agent(),
            mark: words::state(row.task.state),
            waits: row.task.waiting_for.clone(),
            until: row.waits_until.filter(|_| !is_over).map(|until| cx.at(until)),
            error,
            session,
            began: cx.at(course.times.0),
            took: words::between(course.times.0, until),
            events: words::of(course.end.0, "event", "events"),
            calls: words::of(row.calls, "call", "calls"),
            tokens: words::tokens(row.usage),
            costs: words::costs(&row.costs),
            states: states(here, course),
            falls: waterfall(course, &drawn, at, cx.now),
            call_rows: drawn.iter().map(|call| CallView::new(here, call)).collect(),
            calls_note: (left > 0).then(|| {
                let left = words::of(left as u64, "other one is", "others are");
                format!("Shown are the calls around event {}; {left} not drawn.", course.at)
            }),
            damage: course.damage.as_ref().map(|damage| (course.end.0, damage.to_string())),
        })
    }
}

/// Returns the calls that are drawn: all, or those whose events stand in the window.
fn drawn_calls(course: &Course) -> Vec<&CallCourse> {
    if course.calls.len() <= CALLS_MAX {
        return course.calls.iter().collect();
    }
    let (Some(first), Some(last)) = (course.events.first(), course.events.last()) else { return Vec::new() };
    let is_in = |call: &&CallCourse| call.version <= last.version && call.last_version >= first.version;
    course.calls.iter().filter(is_in).take(CALLS_MAX).collect()
}

fn states(here: &Here<'_>, course: &Course) -> Vec<StateView> {
    let ends = course.states.iter().skip(1).map(|next| Some(next.at)).chain([None]);
    let current =
        course.states.iter().rev().find(|state| state.version <= course.at).map(|state| state.version);
    let view = |(state, end): (&StateTime, Option<_>)| StateView {
        mark: words::state(state.state),
        at: here.cx.at(state.at),
        took: end.map_or_else(String::new, |end| words::between(state.at, end)),
        url: here.at(state.version),
        is_now: Some(state.version) == current,
    };
    course.states.iter().zip(ends).map(view).collect()
}

impl CallView {
    fn new(here: &Here<'_>, call: &CallCourse) -> Self {
        let end = call.ended.map_or(here.cx.now, |(.., at)| at);
        let mut waited: BTreeMap<&'static str, i64> = BTreeMap::new();
        for span in call.spans.iter().filter(|span| span.kind != SpanKind::Attempt) {
            let took = span.to.unwrap_or(here.cx.now).0.saturating_sub(span.from.0);
            let sum = waited.entry(span.kind.as_str()).or_default();
            *sum = sum.saturating_add(took.max(0));
        }
        let waited = waited.into_iter().filter(|(_, took)| *took >= 1_000);
        Self {
            mark: words::outcome(call.ended.map(|(word, ..)| word)),
            kind: call.kind,
            target: call.target.clone(),
            url: here.at(call.version),
            since: here.cx.at(call.since),
            took: words::between(call.since, end),
            attempts: call.attempts,
            waited: waited
                .map(|(what, took)| format!("{what} {}", words::micros(took)))
                .collect::<Vec<_>>()
                .join(", "),
            tokens: call.usage.map(words::tokens).unwrap_or_default(),
            costs: words::costs(&call.costs),
            is_child: call.parent.is_some(),
        }
    }
}
