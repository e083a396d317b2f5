//! The runs of a log, the ones with the newest events first, a page at a time. The log is read backwards from a place on: each
//! task stands once, at its last event, so that a page of a long log costs what its rows cost.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::model::TaskState;

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::api::scan::Compare;
use crate::read::fold::fold_stream;
use crate::views::event_row::event_rows;
use crate::views::filter::{Field, Filter, FilterFacts, Term, session_of};
use crate::views::find::streams;
use crate::views::run_facts::RunFacts;
use crate::views::run_row::RunRow;
use crate::views::selection::Selection;

/// The events of the first window that is read backwards; each further one is four times as wide.
const WINDOW_FIRST: u64 = 4_096;

/// The most events of a window.
const WINDOW_MAX: u64 = 262_144;

/// The most runs that are listed of a log that cannot be read from end to end.
const DAMAGED_MAX: usize = 1_000;

/// The runs that are wanted. Of several values of one field one must fit; different fields must all fit.
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
    newest_runs_with(reader, filter, cursor, limits, &|stream| {
        Ok(Arc::new(RunFacts::new(reader, stream, &fold_stream(reader, stream, None)?)?))
    })
}

/// Returns what [`newest_runs`] does, and takes what is known of a run from its holder.
///
/// # Errors
/// As for [`newest_runs`].
pub fn newest_runs_with(
    reader: &dyn EventReader,
    filter: &RunFilter,
    cursor: Option<RunCursor>,
    (limit, looked_max): (usize, u64),
    known: &dyn Fn(&StreamId) -> Result<Arc<RunFacts>, ReadError>,
) -> Result<RunPage, ReadError> {
    let of = Of { reader, filter, known };
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
            page.examine(&of, &stream);
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
        if Category::from_stream(record.stream) == Some(Category::Task) {
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
        page.examine(of, &info.stream);
    }
    Ok(page)
}

impl RunPage {
    fn examine(&mut self, of: &Of<'_>, stream: &StreamId) {
        self.looked += 1;
        match of.row(stream) {
            Ok(Some(row)) => self.rows.push(row),
            Ok(None) => {}
            Err(error) => self.unreadable.push((stream.clone(), error)),
        }
    }
}

/// The log that is looked through, the runs that are wanted, and the holder of what is known of a run.
struct Of<'a> {
    reader: &'a dyn EventReader,
    filter: &'a RunFilter,
    known: &'a dyn Fn(&StreamId) -> Result<Arc<RunFacts>, ReadError>,
}

impl Of<'_> {
    /// Returns the row of a run; `None` if the filter does not take it.
    fn row(&self, stream: &StreamId) -> Result<Option<RunRow>, ReadError> {
        let known = (self.known)(stream)?;
        let takes = self.filter.takes_run(&known) && self.filter.takes_events(self.reader, stream)?;
        Ok(takes.then(|| known.row.clone()))
    }
}

impl RunFilter {
    /// Whether every run is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the conditions that need only events of calls hold.
    fn takes_run(&self, run: &RunFacts) -> bool {
        let RunFacts { row, models, .. } = run;
        let state = row.task.state;
        let asked = |model: &String| {
            let model = model.to_lowercase();
            models.iter().any(|known| known.to_lowercase().contains(&model))
        };
        let Filter { since, until, terms, not, .. } = &self.filter;
        let of = |field: Field| terms.iter().filter(move |term| term.field() == field);
        let holds = |field: Field| of(field).next().is_none() || of(field).any(|term| fits(term, run));
        (self.states.is_empty() || self.states.contains(&state))
            && !self.not_states.contains(&state)
            && (self.models.is_empty() || self.models.iter().any(asked))
            && !self.not_models.iter().any(asked)
            && since.is_none_or(|since| row.task.last_at >= since)
            && until.is_none_or(|until| row.began_at < until)
            && [Field::Agent, Field::Session, Field::Tool].into_iter().all(holds)
            && !not.iter().any(|term| !needs_events(term) && fits(term, run))
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
fn fits(term: &Term, RunFacts { row, tools, .. }: &RunFacts) -> bool {
    let alone = Filter { terms: vec![term.clone()], ..Filter::default() };
    let agent = row.task.stream.agent();
    let takes = |tool: Option<&str>| {
        alone.takes(&FilterFacts {
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
    tools.iter().any(|tool| takes(Some(tool)))
}
