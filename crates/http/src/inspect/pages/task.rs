//! A task: its states, its calls as a waterfall, its events, and what was known at one of them.

use askama::Template;
use proto_events::id::{StreamId, Version};
use proto_events::model::TaskState;
use taskreel_log::api::EventReader;
use taskreel_log::views::{CallCourse, Course, CourseAsked, EventRow, Summaries, shell_word};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::page_request::Query;
use crate::inspect::pages::need::Offer;
use crate::inspect::pages::overview::Overview;
use crate::inspect::pages::tab::Tab;
use crate::inspect::pages::task_place::Here;
use crate::inspect::pages::task_tabs::{TABS, tab_of};
use crate::inspect::pages::tree::{TreeRow, tree};
use crate::inspect::words::{self, At, Mark};
use crate::limits::INSPECT_EVENTS;

#[derive(Template)]
#[template(path = "inspect/task.html")]
struct TaskDetailPage {
    frame: PageFrame,
    view: Overview,
    tree: Vec<TreeRow>,
    slider: Slider,
    groups: Vec<Group>,
    window: Window,
    tabs: Vec<(&'static str, String, bool)>,
    tab: Tab,
    compare_url: String,
    report_url: String,
    /// The inbox, where the task waits for something.
    inbox_url: Option<String>,
    cancel: Option<Offer>,
    command: String,
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
    /// The work that a program which died here would have left open, and the address of what recovery does with it.
    died: (String, String),
}

/// Events that follow each other and belong together.
struct Group {
    title: String,
    mark: Mark,
    rows: Vec<TaskEventView>,
}

struct TaskEventView {
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
/// [`Problem`] if the task or version does not exist, or the log cannot be read.
pub(crate) fn page(
    cx: &Cx,
    log: &dyn EventReader,
    stream: &StreamId,
    query: &Query,
) -> Result<PageAnswer, Problem> {
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
        return Ok(PageAnswer::Other(cx.links.event(stream, found.version), None));
    }
    let name = query.text("tab").unwrap_or("event");
    let tab = TABS.into_iter().find(|known| *known == name);
    let tab = tab.ok_or_else(|| Problem::not_found(format!("a task has no tab `{name}`")))?;
    let here = Here { cx, stream, tab, marked };
    if let Some(section) = query.number("whole")? {
        let whole = tab_of(&here, log, &course)?.whole(section);
        return whole.map(PageAnswer::Text).ok_or_else(|| Problem::not_found("the tab has no such section"));
    }
    answer::page(&detail_page(&here, log, &course)?)
}

fn version(query: &Query, name: &str, end: Version) -> Result<Option<Version>, Problem> {
    let Some(number) = query.number::<u64>(name)? else { return Ok(None) };
    if (1..=end.0).contains(&number) {
        return Ok(Some(Version(number)));
    }
    Err(Problem::not_found(format!("the task has no version {number}: its versions are 1 to {end}")))
}

fn detail_page(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Result<TaskDetailPage, Problem> {
    let Here { cx, stream, .. } = *here;
    let now_at =
        course.events.iter().find(|row| row.version == course.at).map_or(course.times.1, |row| row.at);
    let tabs = TABS.map(|tab| (tab, here.with(course.at, tab, here.marked), tab == here.tab));
    let state = course.newest.state.state();
    let (is_open, waits) = (!state.is_terminal(), state == TaskState::InputRequired);
    Ok(TaskDetailPage {
        frame: cx.frame(format!("Task {}", stream.id()), "Runs"),
        view: Overview::new(here, log, course, now_at).map_err(unread)?,
        tree: tree(cx, log, course, stream).map_err(unread)?,
        slider: slider(here, course, cx.at(now_at)),
        groups: groups(here, course),
        window: window(here, course),
        tabs: tabs.into(),
        tab: tab_of(here, log, course)?,
        compare_url: cx.links.asked("compare", &[("l", stream.as_str())]),
        report_url: cx.links.report(stream),
        inbox_url: waits.then(|| cx.links.asked("inbox", &[("task", stream.as_str())])),
        cancel: is_open.then(|| Offer::cancel(cx, stream)).flatten(),
        command: cx.log.command_line(&format!("show {}", shell_word(stream.as_str()))),
    })
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
        died: (died(course), here.with(course.at, "recovery", here.marked)),
    }
}

fn died(course: &Course) -> String {
    let open = course.now.calls().open().count();
    match (course.now.state().is_terminal(), open) {
        (true, _) => "nothing would have been left to do".to_owned(),
        (false, 0) => "no call would have been open".to_owned(),
        (false, open) => format!("{} would have been open", words::of(open as u64, "call", "calls")),
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
        let view = TaskEventView {
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
