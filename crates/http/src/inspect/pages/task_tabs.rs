//! The tabs of a version of a task: the event, its call, the prompt, the state, what changed, causes, recovery, the record.

use proto_events::id::{Category, StreamId, Version};
use taskreel_log::api::EventReader;
use taskreel_log::audit::{
    Explanation, FirstChanges, event_json, explain_with, first_changes, words as log_words,
};
use taskreel_log::views::{Course, WholeEvent, artifact_rows, shell_word, whole_event};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::block::Block;
use crate::inspect::draw::diagrams::{causation, sequence};
use crate::inspect::pages::changes::change_views;
use crate::inspect::pages::content::in_words;
use crate::inspect::pages::event::facts_of;
use crate::inspect::pages::tab::{SHOWN_MAX, Tab};
use crate::inspect::pages::task_calls::{call_tab, prompt_tab};
use crate::inspect::pages::task_place::Here;
use crate::inspect::words;

/// The tabs, by the names that addresses have.
pub(crate) const TABS: [&str; 11] = [
    "event",
    "call",
    "prompt",
    "state",
    "diff",
    "cause",
    "recovery",
    "artifacts",
    "raw",
    "sequence",
    "graph",
];

/// The most links of a chain of causes.
const CAUSES_MAX: usize = 32;

/// Makes the tab of a page.
///
/// # Errors
/// [`Problem`] if the log cannot be read.
pub(crate) fn tab_of(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Result<Tab, Problem> {
    let tab = artifacts_tab(here, log, course)?;
    Ok(tab.fitted(|section| format!("{}&whole={section}", here.at(course.at))))
}

fn artifacts_tab(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Result<Tab, Problem> {
    match here.tab {
        "call" => Ok(call_tab(here, course)),
        "prompt" => Ok(prompt_tab(here, log, course)),
        "state" => Ok(state(here, course)),
        "diff" => Ok(diff(here, course)),
        "cause" => cause(here, log, course),
        "recovery" => recovery(here, log, course),
        "artifacts" => Ok(artifacts(here, log)?.bounded()),
        "raw" => raw(here, log, course),
        "sequence" | "graph" => diagram(here, log, course),
        _ => event(here, log, course),
    }
}

fn event_at(here: &Here<'_>, log: &dyn EventReader, at: Version) -> Result<WholeEvent, Problem> {
    let found = whole_event(log, here.stream, at).map_err(unread)?;
    found.ok_or_else(|| Problem::not_found(format!("the task has no version {at}")))
}

fn event(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Result<Tab, Problem> {
    let found = event_at(here, log, course.at)?;
    let row = &found.row;
    let mut tab = Tab {
        facts: vec![
            ("kind", row.kind.to_owned()),
            ("time", here.cx.at(row.at).iso),
            ("by", format!("{} ({})", or_dash(&row.principal), row.principal_basis)),
            ("position in the log", row.position.to_string()),
            ("cause", or_dash(&row.causation_id).to_owned()),
        ],
        ..Tab::default()
    };
    match &row.event {
        Ok(event) => {
            let block = Block::json(&event_json(event), &here.cx.whole(here.stream, course.at));
            tab.section("Payload", "json", block);
        }
        Err(why) => tab.note = Some(format!("Its body cannot be read: {why}")),
    }
    Ok(tab)
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

fn state(here: &Here<'_>, course: &Course) -> Tab {
    let mut tab = Tab::default();
    let whole_at = here.cx.whole(here.stream, course.at);
    tab.facts = vec![("state", course.now.state().to_string()), ("version", course.at.to_string())];
    let whole = course.now.to_json();
    tab.section("The task in Protolink's form", "json", Block::json(&whole, &whole_at));
    if whole.as_str().len() > crate::limits::INSPECT_BLOCK_MAX {
        let command = format!("state {} --at {}", shell_word(here.stream.as_str()), course.at);
        tab.note = Some(format!("Whole with: {}", here.cx.log.command_line(&command)));
    }
    tab
}

fn diff(here: &Here<'_>, course: &Course) -> Tab {
    let mut tab = Tab::default();
    let changes = first_changes(&course.before, &course.now, SHOWN_MAX);
    put_changes(
        &mut tab,
        here,
        course,
        &format!("From version {} to {}", course.at.0 - 1, course.at),
        &changes,
    );
    match (&course.marked, here.marked) {
        (Some(marked), Some(version)) if version != course.at => {
            let title = format!("From the marked version {version} to {}", course.at);
            put_changes(&mut tab, here, course, &title, &first_changes(marked, &course.now, SHOWN_MAX));
        }
        (_, Some(_)) => {
            tab.note = Some("This version is the marked one: go to another one to compare.".to_owned());
        }
        _ => tab.note = Some("Mark a version to compare others with it.".to_owned()),
    }
    tab
}

fn put_changes(tab: &mut Tab, here: &Here<'_>, course: &Course, title: &str, found: &FirstChanges) {
    let whole_at = here.cx.whole(here.stream, course.at);
    tab.section(format!("{title}: {}", plural(found.count)), "head", Block::default());
    for change in change_views(&found.changes, &whole_at) {
        tab.section(change.title, change.class, change.block);
    }
    let left = found.count.saturating_sub(found.changes.len());
    if left > 0 {
        let left = words::count(left as u64);
        tab.section(format!("{left} more changes are not shown here"), "head", Block::default());
    }
}

fn plural(changes: usize) -> String {
    match changes {
        0 => "no change that a reader sees".to_owned(),
        1 => "1 change".to_owned(),
        more => format!("{more} changes"),
    }
}

/// Follows the causes of an event, through calls, approvals and commands of the task.
fn cause(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Result<Tab, Problem> {
    let mut tab = Tab::default();
    let mut at = course.at;
    for _ in 0..CAUSES_MAX {
        let found = event_at(here, log, at)?;
        let row = &found.row;
        let line = taskreel_log::views::Summaries::default().of(row);
        let line: String = line.chars().take(300).collect();
        tab.links.push((format!("version {at}"), here.at(at), format!("{} {line}", row.kind)));
        let id = row.causation_id.as_str();
        if id.is_empty() {
            tab.note = Some(format!(
                "A caller sent the command {}, by {}.",
                row.command_id,
                or_dash(&row.principal)
            ));
            return Ok(tab);
        }
        let earlier = |version: Version| Some(version).filter(|version| *version < at);
        let call = course.calls.iter().find(|call| call.call_id == id).and_then(|call| earlier(call.version));
        let Some(next) = call.or_else(|| in_window(course, id, at)) else {
            let session =
                StreamId::parse(id).ok().filter(|stream| stream.category() == Some(Category::Session));
            let what = session.map_or_else(
                || format!("`{id}`, which stands outside of this task"),
                |session| session.to_string(),
            );
            tab.note = Some(format!("It was caused by {what}."));
            return Ok(tab);
        };
        at = next;
    }
    tab.note = Some("Further causes are not followed.".to_owned());
    Ok(tab)
}

/// Returns the version of an event in the window that has this id.
fn in_window(course: &Course, id: &str, before: Version) -> Option<Version> {
    use proto_events::codec::AnyEvent;
    use proto_events::task::TaskEvent;
    let has = |row: &&taskreel_log::views::EventRow| {
        let is_named = match &row.event {
            Ok(AnyEvent::Task(TaskEvent::ApprovalRequested(asked))) => asked.approval_id == id,
            Ok(AnyEvent::Task(TaskEvent::MessageAppended(message))) => message.id.as_deref() == Some(id),
            _ => false,
        };
        is_named || row.command_id == id
    };
    course.events.iter().rev().filter(|row| row.version < before).find(has).map(|row| row.version)
}

fn recovery(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Result<Tab, Problem> {
    let task_at = |at| here.cx.log.courses().state(log, here.stream, at);
    let explained = explain_with(log, here.stream, course.at, &task_at).map_err(unread)?;
    let mut tab = Tab::default();
    let (first, last) = explained.append;
    tab.facts = vec![
        ("if the program had died behind version", explained.version.to_string()),
        ("its append", format!("versions {first} to {last}, on disk together or not at all")),
    ];
    if let Explanation::Task { state, calls } = &explained.explanation {
        tab.facts.push(("the task would be", state.to_string()));
        for recovered in calls {
            let name = log_words::call_name(&recovered.call.request);
            let title =
                format!("{name} {} ({})", recovered.call.request.call_id, recovered.call.status.as_str());
            tab.section(title, "text", Block::text(&recovered.words, ""));
        }
        if calls.is_empty() {
            tab.note = Some("No call was open: recovery would have nothing to do for one.".to_owned());
        }
    }
    Ok(tab)
}

fn artifacts(here: &Here<'_>, log: &dyn EventReader) -> Result<Tab, Problem> {
    let mut tab = Tab::default();
    for row in artifact_rows(log, here.stream).map_err(unread)? {
        let url = row.id.as_ref().map(|id| here.cx.links.artifact(here.stream, id)).unwrap_or_default();
        let id = row.id.clone().unwrap_or_else(|| "without an id".to_owned());
        tab.links.push((id, url, in_words(&row)));
    }
    if tab.links.is_empty() {
        tab.note = Some("The task has no artifact and no long result.".to_owned());
    }
    Ok(tab)
}

/// Draws the events of the window.
fn diagram(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Result<Tab, Problem> {
    let (Some(first), Some(last)) = (course.events.first(), course.events.last()) else {
        return Ok(Tab::with_note("There is no event to draw."));
    };
    let between = (first.version, last.version);
    let address = |version: Version| here.at(version);
    let drawn = if here.tab == "sequence" {
        let drawn = sequence(log, here.stream, between, &address);
        drawn.map(|drawn| ("Who sent what to whom, one row for each event", drawn))
    } else {
        let drawn = causation(log, here.stream, between, &address);
        drawn.map(|drawn| ("Which event caused which, one row for each event", drawn))
    };
    let is_all = first.version == Version(1) && last.version == course.end;
    Ok(Tab {
        diagram: Some(drawn.map_err(unread)?),
        note: (!is_all).then(|| format!("Events {} to {} are drawn.", first.version, last.version)),
        ..Tab::default()
    })
}

fn raw(here: &Here<'_>, log: &dyn EventReader, course: &Course) -> Result<Tab, Problem> {
    let found = event_at(here, log, course.at)?;
    let mut tab = Tab { facts: facts_of(here.cx, &found), ..Tab::default() };
    tab.check = Some(if found.is_intact() {
        (true, "the body has the digest that its record holds".to_owned())
    } else {
        (
            false,
            "the body does not have the digest that its record holds, or is missing from the log".to_owned(),
        )
    });
    let body = found.event.body().map(taskreel_log::jsonl::hex).unwrap_or_default();
    tab.section("Body, as stored", "text", Block::text(&body, &here.cx.whole(here.stream, course.at)));
    tab.section("Record, as hashed", "text", Block::text(&taskreel_log::jsonl::hex(&found.record.bytes), ""));
    Ok(tab)
}
