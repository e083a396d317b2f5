//! The courses of long tasks, kept between looks at them. A task of a hundred thousand events is read from its beginning once; after
//! that a look costs what its window costs, however far in the middle it is, and new events cost what they are.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::id::{StreamId, Version};
use proto_events::task::Task;

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::read::fold::{FoldedStream, fold_stream};
use crate::views::course::{Course, CourseAsked, TaskPass, task_course, window_of};
use crate::views::event_row::{EventRow, event_rows};
use crate::views::run_facts::RunFacts;

/// The events from which on a task is kept: a shorter one is read in a few milliseconds.
const LONG: u64 = 2_000;

/// The events between two states that are kept. From one of them another state is at most so many events away, which takes tens of
/// milliseconds; the index of the calls of a long task, of which each state has one, takes a few megabytes.
const APART: u64 = 8_000;

/// The tasks that are kept: those that were looked at last. One of 100,000 events takes tens of megabytes.
const KEPT_MAX: usize = 4;

/// The tasks of which a list's facts are kept: half a kilobyte each.
const FACTS_MAX: usize = 8_192;

/// The courses of the long tasks of one log, and what lists of runs need of any. They answer as [`task_course`] does,
/// [`fold_stream`] and [`RunFacts::new`].
#[derive(Debug)]
pub struct Courses {
    long: u64,
    apart: u64,
    /// The newest look last.
    kept: Mutex<VecDeque<(StreamId, Arc<Mutex<CachedTask>>)>>,
    facts: Mutex<RunListFacts>,
}

/// The facts of tasks that lists of runs need, each as of a version.
#[derive(Debug, Default)]
struct RunListFacts {
    known: HashMap<StreamId, (Version, Arc<RunFacts>)>,
    /// The tasks in the order in which they came.
    order: VecDeque<StreamId>,
}

impl Default for Courses {
    fn default() -> Self {
        Self::keeping(LONG, APART)
    }
}

/// A task as far as it was read.
#[derive(Debug)]
struct CachedTask {
    pass: TaskPass,
    /// States in the course of the task, in its order.
    states: Vec<FoldedStream<Task>>,
}

impl Courses {
    /// Returns courses that keep tasks from so many events on, with states so many events apart. For tests, whose tasks are short.
    #[doc(hidden)]
    pub fn keeping(long: u64, apart: u64) -> Self {
        Self { long, apart, kept: Mutex::default(), facts: Mutex::default() }
    }

    /// Returns the course of a task, as [`task_course`] does. `reader` is always one of the same log.
    ///
    /// # Errors
    /// As for [`task_course`].
    pub fn course(
        &self,
        reader: &dyn EventReader,
        stream: &StreamId,
        asked: CourseAsked,
    ) -> Result<Course, ReadError> {
        let kept = self.read(reader, stream, |kept, end| kept.course(reader, stream, asked, end))?;
        kept.map_or_else(|| task_course(reader, stream, asked), Ok)
    }

    /// Returns the newest state of a task, as [`fold_stream`] does.
    ///
    /// # Errors
    /// As for [`fold_stream`].
    pub fn newest(
        &self,
        reader: &dyn EventReader,
        stream: &StreamId,
    ) -> Result<FoldedStream<Task>, ReadError> {
        let kept = self.read(reader, stream, |kept, _| Ok(kept.pass.course.newest.clone()))?;
        kept.map_or_else(|| fold_stream(reader, stream, None), Ok)
    }

    /// Returns what a list of runs needs of a task.
    ///
    /// # Errors
    /// As for [`RunFacts::new`] and [`fold_stream`].
    pub fn facts(&self, reader: &dyn EventReader, stream: &StreamId) -> Result<Arc<RunFacts>, ReadError> {
        let end = reader.stream_version(stream)?;
        let known = locked(&self.facts).known.get(stream).cloned();
        let folded = match known {
            Some((version, facts)) if version == end => return Ok(facts),
            // It grows while it is looked at: what is new in it is read.
            Some(_) => self.newest(reader, stream)?,
            // A list of many long tasks would push the others out.
            None => fold_stream(reader, stream, None)?,
        };
        let facts = Arc::new(RunFacts::new(reader, stream, &folded)?);
        locked(&self.facts).insert(stream, (folded.version, Arc::clone(&facts)));
        Ok(facts)
    }

    /// Returns the state of a task at a version.
    ///
    /// # Errors
    /// As for [`fold_stream`].
    pub fn state(&self, reader: &dyn EventReader, stream: &StreamId, at: Version) -> Result<Task, ReadError> {
        let kept = self.read(reader, stream, |kept, _| Ok(kept.around(reader, stream, at)?.1))?;
        match kept {
            Some(state) => Ok(state),
            None => Ok(fold_stream(reader, stream, Some(at))?.state),
        }
    }

    /// Reads a long task as far as it goes, and looks at it; `None` for a short one, and for one that cannot be read to its end.
    fn read<T>(
        &self,
        reader: &dyn EventReader,
        stream: &StreamId,
        look: impl FnOnce(&CachedTask, Version) -> Result<T, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let end = reader.stream_version(stream)?;
        if end.0 < self.long {
            return Ok(None);
        }
        let kept = self.cached(stream);
        // Who looks at the same task at the same time waits for one reading.
        let mut kept = locked(&kept);
        match kept.read_on(reader, stream, (end, self.apart)) {
            Err(ReadError::Corrupt { .. } | ReadError::Newer { .. }) => Ok(None),
            Err(error) => Err(error),
            Ok(()) => look(&kept, end).map(Some),
        }
    }

    fn cached(&self, stream: &StreamId) -> Arc<Mutex<CachedTask>> {
        let mut all = locked(&self.kept);
        let known = all.iter().position(|(known, _)| known == stream).and_then(|at| all.remove(at));
        let new = || CachedTask { pass: TaskPass::new(Version(u64::MAX)), states: Vec::new() };
        let (stream, kept) = known.unwrap_or_else(|| (stream.clone(), Arc::new(Mutex::new(new()))));
        all.push_back((stream, Arc::clone(&kept)));
        if all.len() > KEPT_MAX {
            all.pop_front();
        }
        kept
    }
}

impl RunListFacts {
    fn insert(&mut self, stream: &StreamId, facts: (Version, Arc<RunFacts>)) {
        if self.known.insert(stream.clone(), facts).is_none() {
            self.order.push_back(stream.clone());
        }
        if self.order.len() > FACTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl CachedTask {
    /// Reads what is behind the last event that was read, up to a version.
    fn read_on(
        &mut self,
        reader: &dyn EventReader,
        stream: &StreamId,
        (end, apart): (Version, u64),
    ) -> Result<(), ReadError> {
        if self.pass.course.end >= end {
            return Ok(());
        }
        let next = Version(self.pass.course.end.0 + 1);
        for_each_page_of(reader, stream, next, |page| {
            for stored in &page {
                // A record is whole in one state.
                if self.pass.course.end >= end {
                    return Ok(ControlFlow::Break(()));
                }
                self.pass.take_record(stored, None)?;
                let folded = &self.pass.course.newest;
                let last = self.states.last().map_or(0, |state| state.version.0);
                if folded.version.0 >= last.saturating_add(apart) {
                    // Nobody asks an old state for the commands that were answered.
                    self.states.push(FoldedStream { answered: Vec::new(), ..folded.clone() });
                }
            }
            Ok::<_, ReadError>(ControlFlow::Continue(()))
        })
    }

    /// Returns the states one version before a version and at it.
    fn around(
        &self,
        reader: &dyn EventReader,
        stream: &StreamId,
        at: Version,
    ) -> Result<(Task, Task), ReadError> {
        let behind = self.states.partition_point(|state| state.version < at);
        let nearest = behind.checked_sub(1).and_then(|last| self.states.get(last));
        let mut folded = nearest.cloned().unwrap_or_default();
        let mut before = Task::default();
        for_each_page_of(reader, stream, Version(folded.version.0 + 1), |page| {
            for stored in &page {
                if folded.version >= at {
                    return Ok(ControlFlow::Break(()));
                }
                let mut version = stored.record.first_version;
                folded.take_record_with(stored, at, |task, _| {
                    if version == at {
                        before = task.clone();
                    }
                    version = Version(version.0 + 1);
                })?;
            }
            Ok::<_, ReadError>(ControlFlow::Continue(()))
        })?;
        Ok((before, folded.state))
    }

    fn course(
        &self,
        reader: &dyn EventReader,
        stream: &StreamId,
        asked: CourseAsked,
        end: Version,
    ) -> Result<Course, ReadError> {
        let known = &self.pass.course;
        let at = asked.at.unwrap_or(end).min(known.end);
        let marked = asked.marked.filter(|marked| *marked <= known.end);
        let marked = marked.map(|marked| self.around(reader, stream, marked)).transpose()?;
        let (before, now) = self.around(reader, stream, at)?;
        Ok(Course {
            at,
            before,
            now,
            marked: marked.map(|(_, state)| state),
            events: events(reader, stream, window_of(at, asked.window), known.end)?,
            ..known.clone()
        })
    }
}

/// Returns the events of a window, no further than the end of what was read.
fn events(
    reader: &dyn EventReader,
    stream: &StreamId,
    (first, last): (u64, u64),
    end: Version,
) -> Result<Vec<EventRow>, ReadError> {
    let last = last.min(end.0);
    let mut rows = Vec::new();
    for_each_page_of(reader, stream, Version(first), |page| {
        for stored in &page {
            if stored.record.first_version.0 > last {
                return Ok(ControlFlow::Break(()));
            }
            rows.extend(event_rows(stored).into_iter().filter(|row| (first..=last).contains(&row.version.0)));
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// No code panics while it holds a lock, and what is kept is whole after each record.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
