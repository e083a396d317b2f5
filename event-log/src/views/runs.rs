//! The runs of a log, the ones with the newest events first, a page at a time. The log is read backwards from a place on: each
//! task stands once, at its last event, so that a page of a long log costs what its rows cost.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use proto_events::call::{Call, CallKind, CallStatus, Costs, TokenUsage};
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::model::TaskState;
use proto_events::task::Task;

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::api::scan::Compare;
use crate::read::fold::{Folded, fold_stream};
use crate::views::event_row::event_rows;
use crate::views::filter::{Facts, Field, Filter, Term, session_of};
use crate::views::find::streams;
use crate::views::selection::Selection;
use crate::views::view::TaskRow;

/// The events of the first window that is read backwards; each further one is four times as wide.
const WINDOW_FIRST: u64 = 4_096;

/// The most events of a window.
const WINDOW_MAX: u64 = 262_144;

/// The most runs that are listed of a log that cannot be read from end to end.
const DAMAGED_MAX: usize = 1_000;

/// A run in a list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunRow {
    /// The task.
    pub task: TaskRow,
    /// The time of its first event.
    pub began_at: Timestamp,
    /// The time until which an open call may take, or its back-off lasts.
    pub waits_until: Option<Timestamp>,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that failed, or whose outcome is unknown.
    pub failed_calls: u64,
    /// The tokens of all calls.
    pub usage: TokenUsage,
    /// The cost of the calls, by currency.
    pub costs: Costs,
}

/// The runs that are wanted. Of several values of one field one must fit; those of different fields must all fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// The states.
    pub states: Vec<TaskState>,
    /// The states that are left out.
    pub not_states: Vec<TaskState>,
    /// Texts in the name of a model that was asked.
    pub models: Vec<String>,
    /// Texts in the names of models; runs that asked one are left out.
    pub not_models: Vec<String>,
    /// Conditions on the events: a run fits if one of its events does, and is left out if one of its events fits what is
    /// negated. Of the times, the run must have been under way in the span.
    pub filter: Filter,
}

/// The place where a page of runs begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCursor {
    /// Runs whose last event stands before this position follow.
    pub before: Position,
    /// The end of the log when the first page was read: what came later is not looked at, so that the pages neither repeat nor lose
    /// a run.
    pub as_of: Position,
}

/// A page of runs.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RunPage {
    /// The runs.
    pub rows: Vec<RunRow>,
    /// The place of the next page; none at the beginning of the log.
    pub next: Option<RunCursor>,
    /// The number of runs that were looked at.
    pub looked: u64,
    /// The runs that cannot be read, with the reasons.
    pub unreadable: Vec<(StreamId, ReadError)>,
    /// The fault by which the log cannot be read from end to end. The runs are then in the order of their names.
    pub damage: Option<ReadError>,
}

/// Returns a page of at most `limit` runs, and looks at no more than `looked_max`.
///
/// # Errors
/// [`ReadError`] if the log cannot be read at all.
pub fn newest_runs(
    reader: &dyn EventReader,
    filter: &RunFilter,
    cursor: Option<RunCursor>,
    limits: (usize, u64),
) -> Result<RunPage, ReadError> {
    newest_runs_with(reader, filter, cursor, limits, &|stream| fold_stream(reader, stream, None))
}

/// Returns what [`newest_runs`] does, and takes the newest states of tasks from whoever has them.
///
/// # Errors
/// As for [`newest_runs`].
pub fn newest_runs_with(
    reader: &dyn EventReader,
    filter: &RunFilter,
    cursor: Option<RunCursor>,
    (limit, looked_max): (usize, u64),
    newest: &dyn Fn(&StreamId) -> Result<Folded<Task>, ReadError>,
) -> Result<RunPage, ReadError> {
    let of = Of { reader, filter, newest };
    let head = reader.head()?;
    let RunCursor { before, as_of } =
        cursor.unwrap_or(RunCursor { before: Position(head.0.saturating_add(1)), as_of: head });
    let as_of = as_of.min(head);
    let mut page = RunPage::default();
    let mut seen = HashSet::new();
    let (mut to, mut width) = (before.0.saturating_sub(1).min(as_of.0), WINDOW_FIRST);
    while to > 0 {
        let from = to.saturating_sub(width - 1).max(1);
        let ends = match ends_between(reader, from, to) {
            Ok(ends) => ends,
            Err(damage) if cursor.is_none() => return damaged(&of, damage),
            Err(damage) => return Err(damage),
        };
        for (position, stream, version) in ends {
            if !seen.insert(stream.clone()) || !is_last(reader, &stream, version, as_of)? {
                continue;
            }
            page.look(&of, &stream);
            if page.rows.len() >= limit || page.looked >= looked_max {
                page.next = Some(RunCursor { before: position, as_of });
                return Ok(page);
            }
        }
        (to, width) = (from - 1, (width * 4).min(WINDOW_MAX));
    }
    Ok(page)
}

/// Returns the last records of tasks between two positions, newest first, each with the stream and its version there.
fn ends_between(
    reader: &dyn EventReader,
    from: u64,
    to: u64,
) -> Result<Vec<(Position, StreamId, Version)>, ReadError> {
    let mut last: HashMap<String, (Position, Version)> = HashMap::new();
    reader.scan(Position(from), Compare::Checksums, &mut |scanned| {
        let end = scanned.last_position();
        if end.0 > to {
            return Ok(ControlFlow::Break(()));
        }
        let record = &scanned.record;
        if Category::of(record.stream) == Some(Category::Task) {
            let events = u64::from(record.event_count);
            let version = Version(record.first_version.0.saturating_add(events).saturating_sub(1));
            match last.get_mut(record.stream) {
                Some(known) => *known = (end, version),
                None => drop(last.insert(record.stream.to_owned(), (end, version))),
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let wrong = |error: proto_events::id::IdError| ReadError::corrupt(error.to_string(), None);
    let named = last.into_iter().map(|(name, (position, version))| {
        Ok::<_, ReadError>((position, StreamId::parse(&name).map_err(wrong)?, version))
    });
    let mut ends = named.collect::<Result<Vec<_>, _>>()?;
    ends.sort_unstable_by_key(|end| std::cmp::Reverse(end.0));
    Ok(ends)
}

/// Whether a stream had no event behind this version when the log ended at `as_of`.
fn is_last(
    reader: &dyn EventReader,
    stream: &StreamId,
    version: Version,
    as_of: Position,
) -> Result<bool, ReadError> {
    if reader.stream_version(stream)? <= version {
        return Ok(true);
    }
    let next = reader.read_stream(stream, Version(version.0.saturating_add(1)), 1)?;
    Ok(next.first().is_none_or(|stored| stored.position > as_of))
}

/// Returns the runs of a log that cannot be read from end to end, as far as each can be read by itself.
fn damaged(of: &Of<'_>, damage: ReadError) -> Result<RunPage, ReadError> {
    let mut page = RunPage { damage: Some(damage), ..RunPage::default() };
    for info in streams(of.reader, Category::Task.prefix())?.into_iter().take(DAMAGED_MAX) {
        page.look(of, &info.stream);
    }
    Ok(page)
}

impl RunPage {
    fn look(&mut self, of: &Of<'_>, stream: &StreamId) {
        self.looked += 1;
        match of.row(stream) {
            Ok(Some(row)) => self.rows.push(row),
            Ok(None) => {}
            Err(error) => self.unreadable.push((stream.clone(), error)),
        }
    }
}

/// The log that is looked through, the runs that are wanted, and whoever has the states of tasks.
struct Of<'a> {
    reader: &'a dyn EventReader,
    filter: &'a RunFilter,
    newest: &'a dyn Fn(&StreamId) -> Result<Folded<Task>, ReadError>,
}

impl Of<'_> {
    /// Returns the row of a run; `None` if the filter does not take it.
    fn row(&self, stream: &StreamId) -> Result<Option<RunRow>, ReadError> {
        let folded = (self.newest)(stream)?;
        let row = RunRow::of(self.reader, stream, &folded)?;
        let takes =
            self.filter.takes_row(&row, &folded.state) && self.filter.takes_events(self.reader, stream)?;
        Ok(takes.then_some(row))
    }
}

impl RunRow {
    /// Returns the row of a task that was folded.
    ///
    /// # Errors
    /// [`ReadError`] if its first record cannot be read.
    pub fn of(reader: &dyn EventReader, stream: &StreamId, folded: &Folded<Task>) -> Result<Self, ReadError> {
        let task = &folded.state;
        let first = reader.read_stream(stream, Version(1), 1)?;
        let mut usage = TokenUsage { input_tokens: 0, output_tokens: 0 };
        for used in task.calls().iter().filter_map(|call| call.usage) {
            usage.input_tokens = usage.input_tokens.saturating_add(used.input_tokens);
            usage.output_tokens = usage.output_tokens.saturating_add(used.output_tokens);
        }
        let is_failed = |call: &&Call| matches!(call.status, CallStatus::Failed(_) | CallStatus::Unknown(_));
        Ok(Self {
            task: TaskRow::of(stream, folded),
            began_at: first.first().map_or(folded.last_at, |stored| stored.record.metadata.at),
            waits_until: task.calls().open().filter_map(waits_until).min(),
            calls: task.calls().iter().count() as u64,
            failed_calls: task.calls().iter().filter(is_failed).count() as u64,
            usage,
            costs: task.costs(),
        })
    }
}

/// Returns the time until which an open call may take, or its back-off lasts.
fn waits_until(call: &Call) -> Option<Timestamp> {
    match (&call.status, call.sent_at) {
        (CallStatus::RetryScheduled(due, _), _) => Some(*due),
        (CallStatus::Dispatched, Some(sent)) => Some(sent.plus_millis(call.request.timeout_ms)),
        _ => call.deadline(),
    }
}

impl RunFilter {
    /// Whether every run is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the conditions that need no event but those of calls hold.
    fn takes_row(&self, row: &RunRow, task: &Task) -> bool {
        let state = row.task.state;
        let asked = |model: &String| {
            let model = model.to_lowercase();
            let infers = |call: &Call| call.request.kind == CallKind::Infer;
            task.calls()
                .iter()
                .any(|call| infers(call) && call.request.target.to_lowercase().contains(&model))
        };
        let Filter { since, until, terms, not, .. } = &self.filter;
        let of = |field: Field| terms.iter().filter(move |term| term.field() == field);
        let holds = |field: Field| of(field).next().is_none() || of(field).any(|term| fits(term, row, task));
        (self.states.is_empty() || self.states.contains(&state))
            && !self.not_states.contains(&state)
            && (self.models.is_empty() || self.models.iter().any(asked))
            && !self.not_models.iter().any(asked)
            && since.is_none_or(|since| row.task.last_at >= since)
            && until.is_none_or(|until| row.began_at < until)
            && [Field::Agent, Field::Session, Field::Tool].into_iter().all(holds)
            && !not.iter().any(|term| !needs_events(term) && fits(term, row, task))
    }

    /// Whether the conditions on kinds and texts hold, for which all events of the run are looked at.
    fn takes_events(&self, reader: &dyn EventReader, stream: &StreamId) -> Result<bool, ReadError> {
        let Filter { terms, not, .. } = &self.filter;
        let looked_at = terms.iter().chain(not).filter(|term| needs_events(term));
        let mut found: Vec<(&Term, Selection, bool)> = looked_at
            .map(|term| {
                let alone = Filter { terms: vec![term.clone()], ..Filter::default() };
                (term, Selection::new(alone), false)
            })
            .collect();
        if found.is_empty() {
            return Ok(true);
        }
        for_each_page_of(reader, stream, Version(1), |page| {
            for row in page.iter().flat_map(event_rows) {
                for (_, selection, has) in found.iter_mut().filter(|(.., has)| !*has) {
                    *has = selection.takes(&row);
                }
            }
            let is_over = found.iter().all(|(.., has)| *has);
            Ok::<_, ReadError>(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let has = |wanted: &Term| found.iter().any(|(term, _, has)| *has && *term == wanted);
        let of = |field: Field| terms.iter().filter(move |term| term.field() == field);
        let holds = |field: Field| of(field).next().is_none() || of(field).any(has);
        let is_negated = not.iter().any(|term| needs_events(term) && has(term));
        Ok(!is_negated && holds(Field::Kind) && holds(Field::Text))
    }
}

fn needs_events(term: &Term) -> bool {
    matches!(term.field(), Field::Kind | Field::Text)
}

/// Whether a condition on the agent, the session or a tool holds for a run.
fn fits(term: &Term, row: &RunRow, task: &Task) -> bool {
    let alone = Filter { terms: vec![term.clone()], ..Filter::default() };
    let agent = row.task.stream.agent();
    let takes = |tool: Option<&str>| {
        alone.takes(&Facts {
            at: row.task.last_at,
            kind: "",
            family: "",
            tool,
            session: Some(session_of(&row.task.stream, row.task.session.as_deref())),
            agent: &agent,
            has_text: &|_| false,
        })
    };
    if term.field() != Field::Tool {
        return takes(None);
    }
    let of_tool = |call: &&Call| call.request.kind == CallKind::Tool;
    let called = task.calls().iter().filter(of_tool).map(|call| Cow::Borrowed(call.request.target.as_str()));
    let asked = task.awaited_approvals().map(|approval| Cow::Borrowed(approval.request.tool.as_str()));
    called.chain(asked).any(|tool| takes(Some(&tool)))
}
