//! The lists: streams, agents, tasks, calls, sums.

use proto_events::envelope::Timestamp;
use proto_events::id::{Category, StreamId};
use proto_events::json::JsonText;
use taskreel_log::api::{EventReader, ReadError, StreamInfo};
use taskreel_log::audit::json::{number, object, text, text_or_null};
use taskreel_log::documents::condition_over;
use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::views::{
    CallRow, Expression, Field, Filter, KindsOf, Readable, StatsRow, TaskRow, Term, stats_of, task_row,
    unsettled,
};

use crate::api::bounded_reads::unread;
use crate::api::routed_request::RoutedRequest;
use crate::error::Problem;
use crate::handler::time::{Bound, time_of};
use crate::limits::PAGE_LOOKED_MAX;

/// Returns a page of a list.
pub(crate) fn page(items: &[JsonText], next: Option<&str>) -> JsonText {
    object([("items", JsonText::of_model(items)), ("next", text_or_null(next))])
}

/// Returns a page of a list that leaves out what a newer release wrote.
fn page_read(items: &[JsonText], next: Option<&str>, newer: &[ReadError]) -> JsonText {
    let not_read: Vec<String> = newer.iter().map(ToString::to_string).collect();
    object([
        ("items", JsonText::of_model(items)),
        ("next", text_or_null(next)),
        ("not_read", JsonText::of_model(&not_read)),
    ])
}

/// Returns the problem of a place after which no page begins.
fn no_place(asked: &RoutedRequest) -> Problem {
    let after = asked.text("after").unwrap_or_default();
    Problem::not_found(format!("there is no place `{after}`; give the `next` of the page before as `after`"))
}

/// Returns the stream after which a page begins.
fn after(asked: &RoutedRequest) -> Result<Option<StreamId>, Problem> {
    let after = asked.text("after").map(StreamId::parse).transpose();
    after.map_err(|_| no_place(asked))
}

pub(crate) fn streams(asked: &RoutedRequest, reader: &dyn EventReader) -> Result<JsonText, Problem> {
    let limit = asked.limit()?;
    let prefix = asked.text("prefix").unwrap_or_default();
    let after = after(asked)?;
    let found = if asked.flag("open") {
        let mut open = reader.open_work().map_err(unread)?;
        open.sort();
        open.retain(|stream| {
            stream.as_str().starts_with(prefix) && after.as_ref().is_none_or(|after| stream > after)
        });
        let info = |stream: StreamId| Ok(StreamInfo { version: reader.stream_version(&stream)?, stream });
        open.into_iter().take(limit).map(info).collect()
    } else {
        reader.list_streams(prefix, after.as_ref(), limit)
    };
    let found = found.map_err(unread)?;
    let next = found.last().filter(|_| found.len() == limit).map(|info| info.stream.to_string());
    let items: Vec<JsonText> = found.iter().map(stream_json).collect();
    Ok(page(&items, next.as_deref()))
}

fn stream_json(info: &StreamInfo) -> JsonText {
    let kind = info.stream.as_str().split('-').next().unwrap_or_default();
    object([
        ("schema", text("taskreel.stream/1")),
        ("stream", text(info.stream.as_str())),
        ("kind", text(kind)),
        ("id", text(&info.stream.id())),
        ("version", number(info.version.0)),
    ])
}

pub(crate) fn agents(names: &[String], usual: &str) -> JsonText {
    let agent = |name: &String| {
        // An id of one letter, cut off again: what stands before it is common to all tasks of the agent.
        let streams = StreamId::task(name, "x").map_or_else(|_| String::new(), |stream| stream.to_string());
        object([
            ("schema", text("taskreel.agent/1")),
            ("name", text(name)),
            ("default", JsonText::of_model(&(name == usual))),
            ("streams", text(streams.strip_suffix('x').unwrap_or_default())),
        ])
    };
    let items: Vec<JsonText> = names.iter().map(agent).collect();
    page(&items, None)
}

pub(crate) fn tasks(asked: &RoutedRequest, reader: &dyn EventReader) -> Result<JsonText, Problem> {
    let limit = asked.limit()?;
    let states: Vec<&str> = asked.texts("state").collect();
    let session = asked.text("session");
    let only = condition(asked, "taskreel.task/1")?;
    let takes = |row: &TaskRow| {
        let of_session = session.is_none_or(|session| row.session.as_deref() == Some(session));
        let of_state = states.is_empty() || states.contains(&row.state.as_str());
        of_session && of_state && holds(only.as_ref(), || row.to_json())
    };
    let prefix = match asked.text("agent") {
        None => Category::Task.prefix().to_owned(),
        Some(agent) => {
            let stream = StreamId::task(agent, "x").map_err(|error| Problem::not_found(error.to_string()))?;
            stream.as_str().strip_suffix('x').unwrap_or_default().to_owned()
        }
    };
    let (mut items, mut newer, mut looked) = (Vec::new(), Vec::new(), 0);
    let mut last = after(asked)?;
    let is_end = loop {
        let some = reader.list_streams(&prefix, last.as_ref(), limit).map_err(unread)?;
        if some.is_empty() {
            break true;
        }
        for info in some {
            match task_row(reader, &info) {
                Ok(row) if takes(&row) => items.push(row.to_json()),
                Ok(_) => {}
                Err(error @ ReadError::Newer { .. }) => newer.push(error),
                Err(error) => return Err(unread(error)),
            }
            (last, looked) = (Some(info.stream), looked + 1);
            if items.len() == limit || looked == PAGE_LOOKED_MAX {
                break;
            }
        }
        if items.len() == limit || looked >= PAGE_LOOKED_MAX {
            break false;
        }
    };
    let next = last.filter(|_| !is_end).map(|stream| stream.to_string());
    Ok(page_read(&items, next.as_deref(), &newer))
}

/// Returns the filter of calls that the parameters of a request state.
///
/// # Errors
/// [`Problem`] if a time, a condition or a kind is not valid.
pub(crate) fn filter(asked: &RoutedRequest) -> Result<Filter, Problem> {
    let mut filter = Filter::default();
    for field in [Field::Kind, Field::Tool, Field::Text, Field::Session, Field::Agent] {
        filter.terms.extend(asked.texts(field.as_str()).map(|value| Term::new(field, value)));
    }
    for condition in asked.texts("not") {
        filter.not.push(Term::parse(condition).map_err(|error| Problem::malformed(error.to_string()))?);
    }
    filter.check_kinds(KindsOf::Calls)?;
    (filter.since, filter.until) = (time(asked, Bound::Since)?, time(asked, Bound::Until)?);
    Ok(filter)
}

/// Returns the condition over the items of a kind that a request states.
///
/// # Errors
/// [`Problem`] if it is not valid, or compares a field that such items do not have.
pub(crate) fn condition(asked: &RoutedRequest, line: &str) -> Result<Option<Expression>, Problem> {
    let parsed = asked.text("where").map(|text| condition_over(text, line)).transpose();
    parsed.map_err(|error| {
        Problem::malformed(format!("the parameter `where`, at character {}: {error}", error.at() + 1))
    })
}

/// Whether a condition holds for an item, if there is one.
pub(crate) fn holds(condition: Option<&Expression>, item: impl FnOnce() -> JsonText) -> bool {
    condition.is_none_or(|condition| condition.holds(&item().tree()))
}

fn time(asked: &RoutedRequest, bound: Bound) -> Result<Option<Timestamp>, Problem> {
    let name = bound.as_str();
    let wrong = |text: &str| {
        Problem::malformed(format!(
            "the parameter `{name}` is not a time such as 2026-11-21T07:03:00Z or 2026-11-21: `{text}`"
        ))
    };
    asked.text(name).map(|text| time_of(text, bound).ok_or_else(|| wrong(text))).transpose()
}

pub(crate) fn calls(asked: &RoutedRequest, reader: &dyn EventReader) -> Result<JsonText, Problem> {
    let (limit, filter) = (asked.limit()?, filter(asked)?);
    let Readable { mut rows, newer, .. } = unsettled(reader, None, SystemClock.now()).map_err(unread)?;
    let place = |row: &CallRow| (row.since.0, row.stream.to_string(), row.call_id.clone());
    let only = condition(asked, "taskreel.call/1")?;
    rows.retain(|row| filter.takes_call(row) && holds(only.as_ref(), || row.to_json()));
    rows.sort_by_cached_key(place);
    if let Some(after) = asked.text("after") {
        let after = call_place(after).ok_or_else(|| no_place(asked))?;
        rows.retain(|row| place(row) > after);
    }
    let next = rows.get(limit.saturating_sub(1)).filter(|_| rows.len() > limit).map(|last| {
        let (since, stream, call) = place(last);
        format!("{since} {stream} {call}")
    });
    let items: Vec<JsonText> = rows.iter().take(limit).map(CallRow::to_json).collect();
    Ok(page_read(&items, next.as_deref(), &newer))
}

/// Parses the place of a call in its list.
fn call_place(after: &str) -> Option<(i64, String, String)> {
    let mut words = after.splitn(3, ' ');
    Some((words.next()?.parse().ok()?, words.next()?.to_owned(), words.next()?.to_owned()))
}

pub(crate) fn stats(asked: &RoutedRequest, reader: &dyn EventReader) -> Result<JsonText, Problem> {
    let (limit, newest) = (asked.limit()?, asked.number("newest")?);
    let from: usize = asked.text("after").map_or(Ok(0), str::parse).map_err(|_| no_place(asked))?;
    let only = condition(asked, "taskreel.stats/1")?;
    let Readable { mut rows, newer, .. } = stats_of(reader, filter(asked)?, newest).map_err(unread)?;
    rows.retain(|row| holds(only.as_ref(), || row.to_json()));
    let items: Vec<JsonText> = rows.iter().skip(from).take(limit).map(StatsRow::to_json).collect();
    let shown = from.saturating_add(items.len());
    let next = (shown < rows.len()).then(|| shown.to_string());
    Ok(page_read(&items, next.as_deref(), &newer))
}
