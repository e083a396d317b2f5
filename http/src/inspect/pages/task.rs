//! A task: its states, its calls as a waterfall, its events, and what was known at one of them.

use std::collections::BTreeMap;

use askama::Template;
use proto_events::id::{StreamId, Version};
use taskreel_log::api::EventReader;
use taskreel_log::views::{CallCourse, Course, CourseAsked, EventRow, RunRow, Summaries};

use crate::api::reading::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, Answered};
use crate::inspect::asked::Query;
use crate::inspect::draw::waterfall::{Waterfall, waterfall};
use crate::inspect::frame::{Cx, Frame};
use crate::inspect::pages::tab::Tab;
use crate::inspect::pages::task_place::Here;
use crate::inspect::pages::task_tabs::{TABS, tab_of};
use crate::inspect::words::{self, At, Mark};
use crate::limits::INSPECT_EVENTS;

/// The most calls that are drawn; of more, those of the window of events are.
const CALLS_MAX: usize = 100;

#[derive(Template)]
#[template(path = "inspect/task.html")]
struct TaskPage {
    frame: Frame,
    id: String,
    agent: String,
    mark: Mark,
    waits: Option<String>,
    until: Option<At>,
    error: Option<String>,
    session: Option<(String, String)>,
    began: At,
    took: String,
    events: String,
    calls: String,
    tokens: String,
    costs: String,
    states: Vec<StateView>,
    falls: Waterfall,
    call_rows: Vec<CallView>,
    calls_note: Option<String>,
    slider: Slider,
    groups: Vec<Group>,
    window: Window,
    tabs: Vec<(&'static str, String, bool)>,
    tab: Tab,
    compare_url: String,
    damage: Option<String>,
    command: String,
}

struct StateView {
    mark: Mark,
    at: At,
    took: String,
    url: String,
    is_now: bool,
}

struct CallView {
    mark: Mark,
    kind: &'static str,
    target: String,
    url: String,
    since: At,
    took: String,
    attempts: u32,
    waited: String,
    tokens: String,
    costs: String,
    is_child: bool,
}

/// The slider over the versions, and the places to which it can jump.
struct Slider {
    at: u64,
    end: u64,
    marked: Option<u64>,
    tab: &'static str,
    time: At,
    /// Label, address, key, and whether there is such a place.
    jumps: Vec<(&'static str, String, &'static str, bool)>,
    mark_url: String,
    unmark_url: String,
}

/// Events that follow each other and belong together.
struct Group {
    title: String,
    mark: Mark,
    rows: Vec<EventView>,
}

struct EventView {
    version: u64,
    url: String,
    kind: &'static str,
    mark: Mark,
    at: At,
    delta: String,
    line: String,
    is_now: bool,
    is_marked: bool,
}

/// The window of events that is listed.
struct Window {
    first: u64,
    last: u64,
    newer: Option<String>,
    older: Option<String>,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if there is no such task or version, or the log cannot be read.
pub(crate) fn page(
    cx: &Cx,
    log: &dyn EventReader,
    stream: &StreamId,
    query: &Query,
) -> Result<Answered, Problem> {
    let end = log.stream_version(stream).map_err(unread)?;
    if end == Version(0) {
        let what = format!("agent {} has no task with the id `{}`", stream.agent(), stream.id());
        return Err(Problem::not_found(what));
    }
    let (at, marked) = (version(query, "at", end)?, version(query, "cmp", end)?);
    let asked = CourseAsked { at, marked, window: INSPECT_EVENTS };
    let course = cx.log.courses().course(log, stream, asked).map_err(unread)?;
    if let Some(call) = query.text("call") {
        let found = course.calls.iter().find(|known| known.call_id == call);
        let found = found.ok_or_else(|| Problem::not_found(format!("the task has no call `{call}`")))?;
        return Ok(Answered::Other(cx.links.event(stream, found.version), None));
    }
    let name = query.text("tab").unwrap_or("event");
    let tab = TABS.into_iter().find(|known| *known == name);
    let tab = tab.ok_or_else(|| Problem::not_found(format!("a task has no tab `{name}`")))?;
    let here = Here { cx, stream, tab, marked };
    answer::page(&whole(&here, log, &course)?)
}

fn version(query: &Query, name: &str, end: Version) -> Result<Option<Version>, Problem> {
    let Some(number) = query.number::<u64>(name)? else { return Ok(None) };
    if (1..=end.0).contains(&number) {
        return Ok(Some(Version(number)));
    }
    Err(Problem::not_found(format!("the task has no version {number}: its versions are 1 to {end}")))
}

fn whole(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Result<TaskPage, Problem> {
    let Here { cx, stream, .. } = *here;
    let row = RunRow::of(log, stream, &course.newest).map_err(unread)?;
    let drawn = drawn_calls(course);
    let now_at =
        course.events.iter().find(|row| row.version == course.at).map_or(course.times.1, |row| row.at);
    let is_over = row.task.state.is_terminal();
    let until = if is_over { course.times.1 } else { cx.now.max(course.times.1) };
    let session = row.task.session.as_ref().and_then(|id| {
        let session = StreamId::session(&stream.agent(), id).ok()?;
        let is_there = log.stream_version(&session).is_ok_and(|version| version > Version(0));
        is_there.then(|| (id.clone(), cx.links.stream(&session)))
    });
    let tabs = TABS.map(|tab| (tab, here.with(course.at, tab, here.marked), tab == here.tab));
    let left = course.calls.len().saturating_sub(drawn.len());
    Ok(TaskPage {
        frame: cx.frame(format!("Task {}", stream.id()), "Runs"),
        id: stream.id(),
        agent: stream.agent(),
        mark: words::state(row.task.state),
        waits: row.task.waiting_for.clone(),
        until: row.waits_until.filter(|_| !is_over).map(|until| cx.at(until)),
        error: row.task.error.as_deref().map(|error| taskreel_log::views::cut(error, 400, "…")),
        session,
        began: cx.at(course.times.0),
        took: words::between(course.times.0, until),
        events: words::count(course.end.0),
        calls: words::count(row.calls),
        tokens: words::tokens(row.usage),
        costs: words::costs(&row.costs),
        states: states(here, course),
        falls: waterfall(course, &drawn, now_at, cx.now),
        call_rows: drawn.iter().map(|call| CallView::of(here, call)).collect(),
        calls_note: (left > 0).then(|| {
            format!("The calls of the events below; {} others are not drawn.", words::count(left as u64))
        }),
        slider: slider(here, course, cx.at(now_at)),
        groups: groups(here, course),
        window: window(here, course),
        tabs: tabs.into(),
        tab: tab_of(here, log, course)?,
        compare_url: cx.links.asked("compare", &[("l", stream.as_str())]),
        damage: course.damage.as_ref().map(ToString::to_string),
        command: cx.log.line(&format!("show {}", taskreel_log::views::shell_word(&stream.id()))),
    })
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
    let view = |(state, end): (&taskreel_log::views::StateTime, Option<_>)| StateView {
        mark: words::state(state.state),
        at: here.cx.at(state.at),
        took: end.map_or_else(String::new, |end| words::between(state.at, end)),
        url: here.at(state.version),
        is_now: Some(state.version) == current,
    };
    course.states.iter().zip(ends).map(view).collect()
}

impl CallView {
    fn of(here: &Here<'_>, call: &CallCourse) -> Self {
        use taskreel_log::views::SpanKind;
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

fn slider(here: &Here<'_>, course: &Course, time: At) -> Slider {
    let (at, end) = (course.at.0, course.end.0);
    let states: Vec<u64> = course.states.iter().map(|state| state.version.0).collect();
    let failures: Vec<u64> = course.failures.iter().map(|version| version.0).collect();
    let before = |versions: &[u64]| versions.iter().rev().copied().find(|version| *version < at);
    let after = |versions: &[u64]| versions.iter().copied().find(|version| *version > at);
    let jumps = [
        ("First", Some(1).filter(|_| at > 1), "Home"),
        ("State before", before(&states), "{"),
        ("Event before", Some(at.saturating_sub(1)).filter(|before| *before > 0), "["),
        ("Next event", Some(at + 1).filter(|next| *next <= end), "]"),
        ("Next state", after(&states), "}"),
        ("Last", Some(end).filter(|_| at < end), "End"),
        ("Failure before", before(&failures), "E"),
        ("Next failure", after(&failures), "e"),
    ];
    let jumps = jumps.map(|(label, to, key)| {
        let url = to.map_or_else(String::new, |to| here.at(Version(to)));
        (label, url, key, to.is_some())
    });
    Slider {
        at,
        end,
        marked: here.marked.map(|marked| marked.0),
        tab: here.tab,
        time,
        jumps: jumps.into(),
        mark_url: here.with(course.at, "diff", Some(course.at)),
        unmark_url: here.with(course.at, here.tab, None),
    }
}

fn groups(here: &Here<'_>, course: &Course) -> Vec<Group> {
    use proto_events::codec::AnyEvent;
    use proto_events::task::TaskEvent;
    let calls: std::collections::HashMap<&str, &CallCourse> =
        course.calls.iter().map(|call| (call.call_id.as_str(), call)).collect();
    let call_of = |row: &EventRow| match &row.event {
        Ok(AnyEvent::Task(TaskEvent::Call(event))) => Some(event.call_id().to_owned()),
        Ok(AnyEvent::Task(TaskEvent::ApprovalRequested(asked))) => Some(asked.call_id.clone()),
        _ => None,
    };
    let mut summaries = Summaries::default();
    let mut groups: Vec<(Option<String>, Group)> = Vec::new();
    let mut last = None;
    for row in &course.events {
        let view = EventView {
            version: row.version.0,
            url: here.at(row.version),
            kind: row.kind,
            mark: words::event(row.kind),
            at: here.cx.at(row.at),
            delta: last.map_or_else(String::new, |last| format!("+{}", words::between(last, row.at))),
            line: summaries.of(row).chars().take(400).collect(),
            is_now: row.version == course.at,
            is_marked: Some(row.version) == here.marked,
        };
        last = Some(row.at);
        let call = call_of(row);
        match groups.last_mut() {
            Some((known, group)) if known.is_some() && *known == call => group.rows.push(view),
            _ => {
                let known = call.as_deref().and_then(|id| calls.get(id));
                let title = known.map_or_else(String::new, |call| format!("{} {}", call.kind, call.target));
                let mark = words::outcome(known.and_then(|call| call.ended).map(|(word, ..)| word));
                groups.push((call, Group { title, mark, rows: vec![view] }));
            }
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn window(here: &Here<'_>, course: &Course) -> Window {
    let first = course.events.first().map_or(0, |row| row.version.0);
    let last = course.events.last().map_or(0, |row| row.version.0);
    Window {
        first,
        last,
        older: (first > 1).then(|| here.at(Version(first - 1))),
        newer: (last < course.end.0).then(|| here.at(Version(last + 1))),
    }
}
