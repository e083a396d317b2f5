//! The runs of the log: what needs a person first, then the tasks, newest first.

use askama::Template;
use proto_events::id::{Position, StreamId, Version};
use proto_events::model::TaskState;
use taskreel_log::api::EventReader;
use taskreel_log::views::{Field, KindsOf, RunCursor, RunFilter, RunRow, Term, newest_runs_with};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::escape::Value;
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::needs::{KnownNeeds, told};
use crate::inspect::page_request::{Query, conditions};
use crate::inspect::pages::need::{NeedPlace, NeedView};
use crate::inspect::words::{self, At, Mark};
use crate::limits::{INSPECT_LOOKED_MAX, INSPECT_ROWS};

/// The columns of a run's error in the list: a tool may fail with megabytes.
pub(crate) const ERROR_COLUMNS: usize = 400;

/// The most things that need a person which the page lists.
const NEEDS_MAX: usize = 20;

#[derive(Template)]
#[template(path = "inspect/runs.html")]
struct RunsPage {
    frame: PageFrame,
    needs: Vec<NeedView>,
    needs_note: Option<String>,
    needs_more: usize,
    inbox_url: String,
    form: RunsForm,
    chips: Vec<(String, String)>,
    rows: Vec<RunView>,
    found: String,
    next: Option<String>,
    first: Option<String>,
    is_empty: bool,
    commands: Vec<String>,
    unreadable: Vec<(String, String, String)>,
    damage: Option<String>,
}

struct RunView {
    id: String,
    url: String,
    agent: String,
    agent_url: String,
    session: Option<(String, String)>,
    mark: Mark,
    waits: String,
    until: Option<At>,
    error: Option<String>,
    events: String,
    calls: String,
    tokens: String,
    costs: String,
    took: String,
    last: At,
}

/// The fields of the filter, as they were sent.
#[derive(Default)]
struct RunsForm {
    states: Vec<(Mark, bool)>,
    agent: Value,
    session: Value,
    tool: Value,
    model: Value,
    text: Value,
    since: Value,
    until: Value,
    not: Value,
    is_set: bool,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if a value of the filter is not valid, or the log cannot be read.
pub(crate) fn page(
    cx: &Cx,
    log: &dyn EventReader,
    query: &Query,
    needs: Option<&KnownNeeds>,
) -> Result<PageAnswer, Problem> {
    let filter = filter_of(query)?;
    let cursor = cursor_of(query)?;
    let limits = (INSPECT_ROWS, INSPECT_LOOKED_MAX);
    let known = |stream: &StreamId| cx.log.courses().facts(log, stream);
    let found = newest_runs_with(log, &filter, cursor, limits, &known).map_err(unread)?;
    let with = |extra: &[(&str, &str)]| {
        let kept = query.pairs().filter(|(name, _)| !matches!(*name, "before" | "as_of"));
        cx.links.asked("", &kept.chain(extra.iter().copied()).collect::<Vec<_>>())
    };
    let next = found.next.map(|next| {
        let (before, as_of) = (next.before.to_string(), next.as_of.to_string());
        with(&[("before", &before), ("as_of", &as_of)])
    });
    let (all, needs_note) = told(cx, needs);
    let shown = all.iter().take(NEEDS_MAX).map(|row| NeedView::new(cx, row, NeedPlace::Runs)).collect();
    let unread_run = |(stream, error): &(StreamId, taskreel_log::api::ReadError)| {
        (stream.id(), cx.links.stream(stream), error.to_string())
    };
    let page = RunsPage {
        frame: cx.frame("Runs", "Runs"),
        needs: shown,
        needs_note,
        needs_more: all.len().saturating_sub(NEEDS_MAX),
        inbox_url: cx.links.page("inbox"),
        form: RunsForm::new(query, &filter),
        chips: chips(cx, query),
        found: found_words(found.rows.len(), found.looked, filter.is_empty(), next.is_some()),
        rows: found.rows.iter().map(|row| RunView::new(cx, log, row)).collect(),
        next,
        first: cursor.is_some().then(|| with(&[])),
        is_empty: log.head().map_err(unread)? == Position(0),
        commands: vec![cx.log.command_line("demo"), cx.log.command_line("run tasks.ndjson")],
        unreadable: found.unreadable.iter().map(unread_run).collect(),
        damage: found.damage.map(|damage| damage.to_string()),
    };
    answer::page(&page)
}

fn found_words(rows: usize, looked: u64, is_whole: bool, has_next: bool) -> String {
    let runs = words::of(rows as u64, "run", "runs");
    let more = if has_next { ", older ones follow" } else { "" };
    if is_whole {
        return format!("{runs}{more}");
    }
    let looked = words::count(looked);
    format!("{runs} of {looked} looked at{more}")
}

/// Returns the filter that a query states. `not` takes conditions such as `tool=pay`, parted by spaces or repeated.
fn filter_of(query: &Query) -> Result<RunFilter, Problem> {
    let state = |name: &str| {
        let found = TaskState::ALL.into_iter().find(|state| state.as_str() == name);
        found.ok_or_else(|| Problem::malformed(format!("`{name}` is not a state of a task")))
    };
    let mut filter = RunFilter {
        states: query.texts("state").map(state).collect::<Result<_, _>>()?,
        models: query.texts("model").map(str::to_owned).collect(),
        filter: query.filter()?,
        ..RunFilter::default()
    };
    for condition in query.texts("not").flat_map(conditions) {
        match condition.split_once('=') {
            Some(("state", name)) => filter.not_states.push(state(name)?),
            Some(("model", name)) if !name.is_empty() => filter.not_models.push(name.to_owned()),
            _ => {
                let term = Term::parse(condition).map_err(|error| {
                    Problem::malformed(format!("{error}; here also state=STATE and model=MODEL"))
                })?;
                filter.filter.not.push(term);
            }
        }
    }
    // A run is taken by its events.
    filter.filter.check_kinds(KindsOf::Events)?;
    Ok(filter)
}

fn cursor_of(query: &Query) -> Result<Option<RunCursor>, Problem> {
    let (before, as_of) = (query.number("before")?, query.number("as_of")?);
    let cursor =
        |before: u64| RunCursor { before: Position(before), as_of: Position(as_of.unwrap_or(u64::MAX)) };
    Ok(before.map(cursor))
}

/// Returns what the filter holds, each with the address without it.
fn chips(cx: &Cx, query: &Query) -> Vec<(String, String)> {
    let is_filter = |name: &str| {
        Field::ALL.iter().any(|field| field.as_str() == name)
            || matches!(name, "state" | "model" | "since" | "until" | "not")
    };
    let pairs: Vec<(&str, &str)> = query.pairs().filter(|(name, _)| is_filter(name)).collect();
    let without = |at: usize| {
        let rest: Vec<_> =
            pairs.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, pair)| *pair).collect();
        cx.links.asked("", &rest)
    };
    let chip = |(at, (name, value)): (usize, &(&str, &str))| (format!("{name} {value}"), without(at));
    pairs.iter().enumerate().map(chip).collect()
}

impl RunsForm {
    fn new(query: &Query, filter: &RunFilter) -> Self {
        let value = |name: &str| Value(query.text(name).unwrap_or_default().to_owned());
        Self {
            states: TaskState::ALL
                .into_iter()
                .map(|state| (words::state(state), filter.states.contains(&state)))
                .collect(),
            agent: value("agent"),
            session: value("session"),
            tool: value("tool"),
            model: value("model"),
            text: value("text"),
            since: value("since"),
            until: value("until"),
            not: Value(query.texts("not").collect::<Vec<_>>().join(" ")),
            is_set: !filter.is_empty(),
        }
    }
}

impl RunView {
    fn new(cx: &Cx, log: &dyn EventReader, row: &RunRow) -> Self {
        let task = &row.task;
        let agent = task.stream.agent();
        let session = task.session.as_ref().map(|session| {
            // Only a conversation that a model takes part in has a stream.
            let there = StreamId::session(&agent, session).ok();
            let there = there.filter(|stream| log.stream_version(stream).is_ok_and(|end| end > Version(0)));
            let of_it = || cx.links.asked("", &[("session", session)]);
            (session.clone(), there.map_or_else(of_it, |stream| cx.links.stream(&stream)))
        });
        let failed =
            if row.failed_calls == 0 { String::new() } else { format!(" ({} failed)", row.failed_calls) };
        let end = if task.state.is_terminal() { task.last_at } else { cx.now.max(row.began_at) };
        Self {
            id: task.id.clone(),
            url: cx.links.stream(&task.stream),
            agent_url: cx.links.asked("", &[("agent", &agent)]),
            agent,
            session,
            mark: words::state(task.state),
            waits: task.waiting_for.clone().unwrap_or_default(),
            until: row.waits_until.filter(|_| !task.state.is_terminal()).map(|until| cx.at(until)),
            error: task.error.as_deref().map(|error| taskreel_log::views::cut(error, ERROR_COLUMNS, "…")),
            events: words::count(task.events),
            calls: format!("{}{failed}", words::count(row.calls)),
            tokens: words::tokens(row.usage),
            costs: words::costs(&row.costs),
            took: words::between(row.began_at, end),
            last: cx.at(task.last_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_stated_by_conditions() {
        let query =
            Query::from_query(Some("not=state%3Dfailed+model%3Dqwen+kind%3Dcall&state=working")).unwrap();
        let filter = filter_of(&query).unwrap();
        assert_eq!((filter.states, filter.not_states), (vec![TaskState::Working], vec![TaskState::Failed]));
        assert_eq!((filter.not_models, filter.filter.not.len()), (vec!["qwen".to_owned()], 1));
        for wrong in ["not=colour%3Dred", "not=x", "state=odd"] {
            assert!(filter_of(&Query::from_query(Some(wrong)).unwrap()).is_err(), "{wrong}");
        }
    }
}
