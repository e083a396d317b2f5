//! Answers to the questions of the screen, from the views of the log. Nothing here knows a terminal.

mod detail;
mod inbox;
mod lines;
pub(crate) mod reading_cache;
mod run;

use std::ops::ControlFlow;
use std::sync::Arc;

use proto_events::id::{Position, StreamId};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::views::{
    DiagramMarks, LogUse, Point, RunCursor, RunFilter, RunPage, Selection, TreeMarks, align_steps,
    compare_prompts, find, newest_runs_with, pattern_of_text, run_steps, search, sequence, sequence_text,
    streams, trace, tree_lines, version_at, whole_event,
};

use crate::decide::Wish;
use crate::print::trace::said_of;
use crate::tui::ask::{AnswerContent, Ask, ListPage, StreamList};
use crate::tui::data::{ComparedRuns, DrawingKind, EventRef, LineDrawing, StreamPage, StreamRow};
use crate::tui::line::ScreenLine;
use crate::tui::marks::{Marks, Tone};
use crate::tui::read::reading_cache::ReadingCache;

/// The runs of a page of the list.
const RUNS_PAGE: usize = 100;

/// The most runs that are read at once in place of those that are listed already.
const RUNS_AGAIN_MAX: usize = 1_000;

/// The most runs that are looked at for a page.
const LOOKED_MAX: u64 = 20_000;

/// The most streams that are listed by name.
const NAMED_MAX: usize = 10_000;

/// The most levels whose lines are drawn.
const LEVELS_MAX: usize = 8;

/// The way to carry out a decision; the answer is in words.
pub(crate) type Decide = Arc<dyn Fn(&Wish) -> Result<String, String> + Send + Sync>;

/// The log from which questions are answered.
#[derive(Clone)]
pub(crate) struct LogReading {
    /// The reader.
    pub(crate) reader: Arc<dyn EventReader>,
    /// The other log of comparisons.
    pub(crate) other: Option<Arc<dyn EventReader>>,
    /// The readings that are kept between answers.
    pub(crate) kept: Arc<ReadingCache>,
    /// The use of the log by a program.
    pub(crate) used: LogUse,
    /// The marks of drawings.
    pub(crate) marks: Marks,
    /// The way to carry out decisions.
    pub(crate) decide: Decide,
}

impl LogReading {
    /// Answers a question.
    ///
    /// # Errors
    /// The reason in words.
    pub(crate) fn answer(&self, ask: &Ask) -> Result<AnswerContent, String> {
        let log = &*self.reader;
        match ask {
            Ask::Streams(listed, at) => {
                let page = match listed {
                    StreamList::Tasks(filter) => {
                        let known = |stream: &StreamId| self.kept.courses.facts(log, stream);
                        let page =
                            |cursor, rows| newest_runs_with(log, filter, cursor, (rows, LOOKED_MAX), &known);
                        match *at {
                            // Of all tasks those behind the first page are kept as they are where nothing lies between; of a
                            // filter a task may have fallen out.
                            ListPage::First { rows, reached } if *filter != RunFilter::default() => {
                                back_to(reached, rows.clamp(RUNS_PAGE, RUNS_AGAIN_MAX), page)
                            }
                            ListPage::First { .. } => page(None, RUNS_PAGE),
                            ListPage::Further(cursor) => page(Some(cursor), RUNS_PAGE),
                        }
                        .map(page_of)
                    }
                    StreamList::Named(prefix) => named(log, prefix),
                };
                page.map(AnswerContent::Streams).map_err(error_text)
            }
            Ask::Run(stream, filter) => {
                run::run(log, &self.kept, stream, filter).map(AnswerContent::Run).map_err(error_text)
            }
            Ask::Detail(place, tab, marked) => {
                detail::detail((log, &self.kept.courses), place, *tab, *marked)
                    .map(AnswerContent::Detail)
                    .map_err(error_text)
            }
            Ask::Drawing(stream, kind, width) => {
                self.drawing(stream, *kind, *width).map(AnswerContent::Drawing).map_err(error_text)
            }
            Ask::Cause(place) => self.cause(place).map_err(error_text),
            Ask::Search(stream, text) => self.search(stream, text).map(AnswerContent::Found),
            Ask::Inbox => inbox::inbox(log, self.used).map(AnswerContent::Inbox).map_err(error_text),
            Ask::Compare(left, right) => self.compare(left, right).map_err(error_text),
            Ask::Find(typed, point) => self.find(typed, *point),
            Ask::FindTwo(left, right) => {
                let second = self.other.as_deref().unwrap_or(log);
                let streams = (find(log, left), find(second, right));
                Ok(AnswerContent::TwoStreams(streams.0.map_err(error_text)?, streams.1.map_err(error_text)?))
            }
            Ask::Json(place) => {
                let found = whole_event(log, &place.stream, place.at).map_err(error_text)?;
                let found = found.ok_or_else(|| format!("{} has no version {}", place.stream, place.at))?;
                Ok(AnswerContent::Text(found.row.to_json().as_str().to_owned()))
            }
            Ask::Decide(wish) => (self.decide)(wish).map(AnswerContent::Decided),
        }
    }

    fn drawing(&self, stream: &StreamId, kind: DrawingKind, width: usize) -> Result<LineDrawing, ReadError> {
        let log = &*self.reader;
        let marks = if self.marks.is_unicode { DiagramMarks::BOX } else { DiagramMarks::ASCII };
        let place = |stream: &StreamId, at| Some(EventRef { stream: stream.clone(), at });
        match kind {
            DrawingKind::Sequence => {
                let drawn = sequence(log, stream)?;
                let text = sequence_text(&drawn, width, marks);
                // The names of the participants stand before the steps.
                let heads = text.len().saturating_sub(drawn.steps.len());
                let places = std::iter::repeat_n(None, heads)
                    .chain(drawn.steps.iter().map(|step| place(stream, step.version)));
                let lines = text.into_iter().map(ScreenLine::plain).zip(places).collect();
                Ok(LineDrawing { title: format!("sequence of {}", stream.id()), lines })
            }
            DrawingKind::Trace => {
                let traced = trace(log, stream)?;
                let depths: Vec<usize> = traced.nodes.iter().map(|node| node.depth).collect();
                let tree = if self.marks.is_unicode { TreeMarks::BOX } else { TreeMarks::ASCII };
                let lines = tree_lines(&depths, LEVELS_MAX, tree);
                let line = |(lines, node): (String, &taskreel_log::views::TraceNode)| {
                    let failed = self.marks.pick("✗ ", "x ");
                    let mark = if node.is_failed { failed } else { "" };
                    let line = ScreenLine::new(lines, Tone::Dim).and(mark, Tone::Bad);
                    (line.and(said_of(node), Tone::Plain), place(&node.stream, node.version))
                };
                let lines = lines.into_iter().zip(&traced.nodes).map(line).collect();
                Ok(LineDrawing {
                    title: format!("trace of {} (* the end waited for it)", stream.id()),
                    lines,
                })
            }
        }
    }

    fn cause(&self, place: &EventRef) -> Result<AnswerContent, ReadError> {
        let chain = detail::causes_of(&*self.reader, place, 2)?;
        Ok(AnswerContent::Cause(match (chain.get(1), chain.first()) {
            (Some(cause), _) => Ok(cause.version),
            (None, Some(event)) if event.outside.is_empty() => Err("a caller caused it".to_owned()),
            (None, Some(event)) => {
                Err(format!("`{}` caused it, which stands outside of the stream", event.outside))
            }
            (None, None) => Err("its cause is not known".to_owned()),
        }))
    }

    fn search(&self, stream: &StreamId, text: &str) -> Result<Vec<u64>, String> {
        let asked = pattern_of_text(text).map_err(error_text)?;
        let mut found = Vec::new();
        search(&*self.reader, Some(stream), &asked, Selection::default(), |hit| {
            found.push(hit.version.0);
            Ok::<_, ReadError>(ControlFlow::Continue(()))
        })
        .map_err(error_text)?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn compare(&self, left: &StreamId, right: &StreamId) -> Result<AnswerContent, ReadError> {
        let log = &*self.reader;
        let second = self.other.as_deref().unwrap_or(log);
        let steps = align_steps(&run_steps(log, left)?, &run_steps(second, right)?);
        let events = (log.stream_version(left)?.0, second.stream_version(right)?.0);
        let (streams, names) = ((left.clone(), right.clone()), (left.id(), right.id()));
        let prompts = compare_prompts((log, left), (second, right), &steps);
        Ok(AnswerContent::Compared(Box::new(ComparedRuns { streams, names, events, steps, prompts })))
    }

    fn find(&self, typed: &str, point: Option<Point>) -> Result<AnswerContent, String> {
        let log = &*self.reader;
        let stream = find(log, typed).map_err(error_text)?;
        let version = point.map(|point| version_at(log, &stream, point)).transpose().map_err(error_text)?;
        Ok(AnswerContent::Stream(stream, version))
    }
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Reads pages until they have so many rows, or reach back to where they did before: of the tasks in front of that place none is
/// left out, however many have become newer meanwhile.
pub(crate) fn back_to(
    reached: Position,
    rows: usize,
    read: impl Fn(Option<RunCursor>, usize) -> Result<RunPage, ReadError>,
) -> Result<RunPage, ReadError> {
    let mut page = read(None, rows)?;
    while let Some(next) = page.next
        && next.before > reached
        && page.rows.len() < rows
    {
        let further = read(Some(next), rows - page.rows.len())?;
        page.rows.extend(further.rows);
        page.unreadable.extend(further.unreadable);
        page.next = further.next;
    }
    Ok(page)
}

fn page_of(page: RunPage) -> StreamPage {
    let runs = page.rows.into_iter().map(|row| StreamRow::Run(Box::new(row)));
    let unreadable =
        page.unreadable.into_iter().map(|(stream, why)| StreamRow::Unreadable(stream, why.to_string()));
    StreamPage {
        rows: runs.chain(unreadable).collect(),
        next: page.next,
        damage: page.damage.map(|damage| damage.to_string()),
    }
}

fn named(log: &dyn EventReader, prefix: &str) -> Result<StreamPage, ReadError> {
    let rows = streams(log, prefix)?.into_iter().take(NAMED_MAX);
    let rows = rows.map(|info| StreamRow::Other(info.stream, info.version)).collect();
    Ok(StreamPage { rows, ..StreamPage::default() })
}
