//! The reading of a trace: one pass over the events of each task in it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use proto_events::id::{Category, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::views::event_row::event_rows;
use crate::views::trace::critical;
use crate::views::trace::node::{Trace, TraceNode};
use crate::views::trace::session::tasks_of;
use crate::views::trace::trace_reader::TraceReader;

/// The most tasks that a trace follows: each may have given work to others.
const TASKS_MAX: usize = 10_000;

/// Returns the trace of a task, with the tasks that it gave to other agents as far as this log has them; of a session, the traces of
/// its tasks. It is empty if the stream does not exist. Takes time and memory in proportion to the number of events.
///
/// # Errors
/// [`ReadError`] if one of the streams cannot be read.
pub fn trace(reader: &dyn EventReader, stream: &StreamId) -> Result<Trace, ReadError> {
    let mut all = All::default();
    let mut seen = HashSet::from([stream.clone()]);
    add_with_children(reader, &mut all, &mut seen, (None, stream.clone()))?;
    if stream.category() == Some(Category::Session) && !all.nodes.is_empty() {
        let mut tasks = Vec::new();
        for task in tasks_of(reader, stream)? {
            let first = reader.read_stream(&task, Version(1), 1)?;
            tasks.extend(first.first().map(|first| (first.position, task)));
        }
        // In the order in which they came: one that another of them asked for stands below its request.
        tasks.sort();
        for (_, task) in tasks {
            if seen.len() < TASKS_MAX && seen.insert(task.clone()) {
                add_with_children(reader, &mut all, &mut seen, (Some(0), task))?;
            }
        }
        // A session has no end of its own.
        let end = all.last_at.iter().max().copied();
        if let Some((last, end)) = all.last_at.first_mut().zip(end) {
            *last = end;
        }
    }
    critical::mark(&mut all.nodes, &all.within, &all.last_at);
    Ok(in_order(all))
}

/// Adds a stream that a part caused, and the tasks that it gave to others.
fn add_with_children(
    reader: &dyn EventReader,
    all: &mut All,
    seen: &mut HashSet<StreamId>,
    first: (Option<usize>, StreamId),
) -> Result<(), ReadError> {
    let mut todo = vec![first];
    while let Some((cause, stream)) = todo.pop() {
        let Some(read) = read(reader, &stream)? else { continue };
        for (at, child) in all.add(read, cause) {
            if seen.len() < TASKS_MAX && seen.insert(child.clone()) {
                todo.push((Some(at), child));
            }
        }
    }
    Ok(())
}

/// Returns the trace that the events of one task make.
#[cfg(test)]
pub(super) fn of_rows(stream: &StreamId, rows: &[crate::views::event_row::EventRow]) -> Trace {
    let mut all = All::default();
    let Some(first) = rows.first() else { return Trace::default() };
    let mut reading = TraceReader::new(stream, first);
    for row in rows {
        reading.accept_row(row);
    }
    all.add(reading, None);
    critical::mark(&mut all.nodes, &all.within, &all.last_at);
    in_order(all)
}

fn read(reader: &dyn EventReader, stream: &StreamId) -> Result<Option<TraceReader>, ReadError> {
    let mut reading: Option<TraceReader> = None;
    for_each_page_of(reader, stream, Version(1), |page| {
        for row in page.iter().flat_map(event_rows) {
            reading.get_or_insert_with(|| TraceReader::new(stream, &row)).accept_row(&row);
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(reading)
}

/// The parts of all tasks of a trace.
#[derive(Default)]
struct All {
    nodes: Vec<TraceNode>,
    within: Vec<usize>,
    last_at: Vec<proto_events::envelope::Timestamp>,
    shown: Vec<bool>,
}

impl All {
    /// Adds the parts of a task that another part caused. Returns the tasks that it gave to others, each with the request.
    fn add(&mut self, mut read: TraceReader, cause: Option<usize>) -> Vec<(usize, StreamId)> {
        let first = self.nodes.len();
        self.shown.extend(read.shown());
        self.last_at.extend(read.nodes.iter().map(|_| read.last_at));
        for node in &mut read.nodes {
            node.parent = node.parent.map(|parent| parent + first).or(cause);
        }
        let places = read.within.iter().enumerate();
        self.within
            .extend(places.map(|(at, within)| if at == 0 { cause.unwrap_or(0) } else { within + first }));
        self.nodes.append(&mut read.nodes);
        read.children.into_iter().map(|(at, child)| (at + first, child)).collect()
    }
}

/// Puts each part behind its cause and before what it caused, parts of one cause in the order of their beginnings.
fn in_order(all: All) -> Trace {
    let mut caused: Vec<Vec<usize>> = vec![Vec::new(); all.nodes.len()];
    for (at, node) in all.nodes.iter().enumerate() {
        let is_shown = all.shown.get(at) == Some(&true);
        if let Some(caused) = node.parent.filter(|_| is_shown).and_then(|parent| caused.get_mut(parent)) {
            caused.push(at);
        }
    }
    for caused in &mut caused {
        caused.sort_by_key(|at| all.nodes.get(*at).map(|node| (node.began, *at)));
    }
    let mut nodes: Vec<Option<TraceNode>> = all.nodes.into_iter().map(Some).collect();
    let (mut trace, mut todo) = (Trace::default(), vec![(0, None, 0)]);
    while let Some((at, parent, depth)) = todo.pop() {
        let Some(mut node) = nodes.get_mut(at).and_then(Option::take) else { continue };
        (node.parent, node.depth) = (parent, depth);
        let place = trace.nodes.len();
        trace.nodes.push(node);
        let inner = caused.get(at).into_iter().flatten().rev();
        todo.extend(inner.map(|at| (*at, Some(place), depth + 1)));
    }
    trace
}
