//! The course of one task in one pass over its stream: its calls with attempts and waits, a window of its events, and its state at
//! the versions that somebody looks at. A task of any length is read once and held once.

use std::collections::HashMap;
use std::ops::ControlFlow;

use proto_events::call::{CallEvent, Costs, Price, TokenUsage, Verdict};
use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use proto_events::task::{Task, TaskEvent};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::api::record::StoredRecord;
use crate::audit::json::call_kind;
use crate::read::fold::FoldedStream;
use crate::views::event_row::{EventRow, event_rows};
use crate::views::history::StateTime;

/// The part of a task that is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CourseAsked {
    /// The version whose state is shown; the newest without one.
    pub at: Option<Version>,
    /// A version to compare with.
    pub marked: Option<Version>,
    /// The number of events of the window that holds the version.
    pub window: u64,
}

/// The course of a task.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Course {
    /// The last version that could be read.
    pub end: Version,
    /// The version whose state is shown.
    pub at: Version,
    /// The times of the first and of the last event.
    pub times: (Timestamp, Timestamp),
    /// The task at its end, at the version, one version before it, and at the marked version.
    pub newest: FoldedStream<Task>,
    /// The task at the version.
    pub now: Task,
    /// The task one version before.
    pub before: Task,
    /// The task at the marked version.
    pub marked: Option<Task>,
    /// The states, with their beginnings.
    pub states: Vec<StateTime>,
    /// The calls, in the order of their intents or of the requests to approve them.
    pub calls: Vec<CallCourse>,
    /// The versions at which a call failed, or the task did.
    pub failures: Vec<Version>,
    /// The events of the window.
    pub events: Vec<EventRow>,
    /// The reason why the stream cannot be read further.
    pub damage: Option<ReadError>,
}

/// A call, with what it did and waited for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallCourse {
    /// The call's id.
    pub call_id: String,
    /// The name of its kind.
    pub kind: &'static str,
    /// The tool, model or agent.
    pub target: String,
    /// The call in whose middle it was made.
    pub parent: Option<String>,
    /// The version of the intent, or of the request to approve the call.
    pub version: Version,
    /// The version of the last event.
    pub last_version: Version,
    /// The time of that first event.
    pub since: Timestamp,
    /// The spans, in their order.
    pub spans: Vec<CallSpan>,
    /// The number of attempts.
    pub attempts: u32,
    /// The outcome in a word, with its version and time; none while the call is open.
    pub ended: Option<(&'static str, Version, Timestamp)>,
    /// The tokens of all attempts.
    pub usage: Option<TokenUsage>,
    /// The cost, where prices are known.
    pub costs: Costs,
    price: Option<Price>,
}

/// A span of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSpan {
    /// The work or the wait of the call.
    pub kind: SpanKind,
    /// The beginning.
    pub from: Timestamp,
    /// The end; none if it lasts.
    pub to: Option<Timestamp>,
}

/// The kind of a span of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanKind {
    /// The wait for a permit or a turn.
    Place,
    /// An attempt that is in flight.
    Attempt,
    /// The back-off before the next attempt.
    BackOff,
    /// The wait for a person.
    Person,
}

impl SpanKind {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Place => "waits for a place",
            Self::Attempt => "attempt",
            Self::BackOff => "back-off",
            Self::Person => "waits for a person",
        }
    }
}

/// Returns the course of a task. Damage in the middle of its stream ends it there.
///
/// # Errors
/// [`ReadError`] if nothing of the stream can be read, or the log cannot be read for another reason than damage.
pub fn task_course(
    reader: &dyn EventReader,
    stream: &StreamId,
    asked: CourseAsked,
) -> Result<Course, ReadError> {
    let end = reader.stream_version(stream)?;
    let at = asked.at.unwrap_or(end).min(end);
    let mut pass = TaskPass::new(at);
    let window = window_of(at, asked.window);
    let read = for_each_page_of(reader, stream, Version(1), |page| {
        for stored in &page {
            pass.take_record(stored, asked.marked)?;
            if stored.record.first_version.0 <= window.1 && stored.record.last_version().0 >= window.0 {
                let in_window = |row: &EventRow| (window.0..=window.1).contains(&row.version.0);
                pass.course.events.extend(event_rows(stored).into_iter().filter(in_window));
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    });
    let mut course = pass.course;
    match read {
        Err(error @ ReadError::Corrupt { .. }) if course.end > Version(0) => course.damage = Some(error),
        read => read?,
    }
    // What the closure is shown is the state before an event; the last one has none behind it.
    if course.at >= course.end {
        course.at = course.end;
        course.now = course.newest.state.clone();
    }
    if asked.marked == Some(course.end) {
        course.marked = Some(course.newest.state.clone());
    }
    Ok(course)
}

/// Returns the first and the last version of the window of this width that holds a version.
pub(crate) fn window_of(at: Version, width: u64) -> (u64, u64) {
    let width = width.max(1);
    let first = at.0.saturating_sub(1) / width * width + 1;
    (first, first.saturating_add(width - 1))
}

/// A pass over the stream of a task, from its beginning on.
#[derive(Debug)]
pub(crate) struct TaskPass {
    pub(crate) course: Course,
    /// The places of calls in the list, by id.
    places: HashMap<String, usize>,
    /// The calls of approvals, by the approval's id.
    approvals: HashMap<String, String>,
}

impl TaskPass {
    pub(crate) fn new(at: Version) -> Self {
        let course = Course { at, ..Course::default() };
        Self { course, places: HashMap::new(), approvals: HashMap::new() }
    }

    /// Takes the next record, all of it or nothing.
    pub(crate) fn take_record(
        &mut self,
        stored: &StoredRecord,
        marked: Option<Version>,
    ) -> Result<(), ReadError> {
        let metadata = &stored.record.metadata;
        if self.course.end == Version(0) {
            self.course.times.0 = metadata.at;
        }
        let mut version = stored.record.first_version;
        let mut folded = std::mem::take(&mut self.course.newest);
        let taken = folded.take_record_with(stored, Version(u64::MAX), |task, event| {
            self.state_before(version, task, marked);
            self.accept_event(event, version, metadata.at);
            version = Version(version.0 + 1);
        });
        self.course.newest = folded;
        self.course.end = self.course.newest.version;
        self.course.times.1 = metadata.at;
        taken
    }

    fn state_before(&mut self, version: Version, task: &Task, marked: Option<Version>) {
        let before = Version(version.0 - 1);
        if version == self.course.at {
            self.course.before = task.clone();
        }
        if before == self.course.at {
            self.course.now = task.clone();
        }
        if Some(before) == marked {
            self.course.marked = Some(task.clone());
        }
    }

    fn accept_event(&mut self, event: &TaskEvent, version: Version, at: Timestamp) {
        match event {
            TaskEvent::Submitted(posted) => {
                self.course.states.push(StateTime { version, at, state: posted.state });
            }
            TaskEvent::StateChanged { to, .. } => {
                self.course.states.push(StateTime { version, at, state: *to });
                if *to == proto_events::model::TaskState::Failed {
                    self.course.failures.push(version);
                }
            }
            TaskEvent::ApprovalRequested(asked) => {
                self.approvals.insert(asked.approval_id.clone(), asked.call_id.clone());
                let call = self.call(&asked.call_id, version, at);
                (call.kind, call.target) = ("tool", asked.tool.clone());
                call.open(SpanKind::Person, at);
            }
            TaskEvent::ApprovalDecided(decided) => {
                let call = self.approvals.get(&decided.approval_id).cloned();
                if let Some(call) = call.and_then(|id| self.known(&id, version)) {
                    call.close(at);
                    if !decided.approved {
                        call.ended = Some(("denied", version, at));
                    }
                }
            }
            TaskEvent::Call(event) => self.call_event(event, version, at),
            _ => {}
        }
    }

    /// Returns the call of an id, which is added if it is new.
    fn call(&mut self, id: &str, version: Version, at: Timestamp) -> &mut CallCourse {
        let calls = &mut self.course.calls;
        let place = *self.places.entry(id.to_owned()).or_insert_with(|| {
            calls.push(CallCourse {
                call_id: id.to_owned(),
                kind: "call",
                target: String::new(),
                parent: None,
                version,
                last_version: version,
                since: at,
                spans: Vec::new(),
                attempts: 0,
                ended: None,
                usage: None,
                costs: Costs::default(),
                price: None,
            });
            calls.len() - 1
        });
        #[allow(clippy::indexing_slicing, reason = "the place was just looked up")]
        &mut calls[place]
    }

    fn known(&mut self, id: &str, version: Version) -> Option<&mut CallCourse> {
        let call = self.course.calls.get_mut(*self.places.get(id)?)?;
        call.last_version = version;
        Some(call)
    }

    fn call_event(&mut self, event: &CallEvent, version: Version, at: Timestamp) {
        if let CallEvent::Requested(request) = event {
            let call = self.call(&request.call_id, version, at);
            (call.kind, call.target) = (call_kind(request.kind), request.target.clone());
            call.parent = request.origin.parent.as_ref().map(|parent| parent.call_id.clone());
            (call.price, call.last_version) = (request.price.clone(), version);
            call.close(at);
            return call.open(SpanKind::Place, at);
        }
        if matches!(
            event,
            CallEvent::Failed { .. } | CallEvent::OutcomeUnknown { .. } | CallEvent::TimedOut { .. }
        ) {
            self.course.failures.push(version);
        }
        let Some(call) = self.known(event.call_id(), version) else { return };
        call.accept_event(event, version, at);
    }
}

impl CallCourse {
    fn open(&mut self, kind: SpanKind, from: Timestamp) {
        self.spans.push(CallSpan { kind, from, to: None });
    }

    fn close(&mut self, at: Timestamp) {
        if let Some(span) = self.spans.last_mut().filter(|span| span.to.is_none()) {
            span.to = Some(at);
        }
    }

    fn finish(&mut self, word: &'static str, version: Version, at: Timestamp) {
        self.close(at);
        self.ended = Some((word, version, at));
    }

    fn pay(&mut self, usage: Option<TokenUsage>) {
        self.costs.add(self.price.as_ref(), usage);
        let Some(usage) = usage else { return };
        let sum = self.usage.unwrap_or(TokenUsage { input_tokens: 0, output_tokens: 0 });
        self.usage = Some(TokenUsage {
            input_tokens: sum.input_tokens.saturating_add(usage.input_tokens),
            output_tokens: sum.output_tokens.saturating_add(usage.output_tokens),
        });
    }

    fn accept_event(&mut self, event: &CallEvent, version: Version, at: Timestamp) {
        match event {
            CallEvent::Dispatched { attempt, .. } => {
                self.close(at);
                self.attempts = *attempt;
                self.open(SpanKind::Attempt, at);
            }
            CallEvent::Succeeded { usage, .. } => {
                self.pay(*usage);
                self.finish("succeeded", version, at);
            }
            CallEvent::Failed { failure, .. } => {
                self.pay(failure.usage);
                self.finish("failed", version, at);
            }
            CallEvent::RetryScheduled { failure, .. } => {
                self.pay(failure.usage);
                self.close(at);
                self.open(SpanKind::BackOff, at);
            }
            CallEvent::Canceled { .. } => self.finish("canceled", version, at),
            CallEvent::OutcomeUnknown { .. } => {
                self.finish("unknown", version, at);
                self.open(SpanKind::Person, at);
            }
            CallEvent::Reconciled { verdict, .. } => match verdict {
                Verdict::Landed(_) => self.finish("landed", version, at),
                Verdict::DidNotHappen => self.finish("did not happen", version, at),
                Verdict::Inconclusive(_) => {}
            },
            CallEvent::Abandoned { .. } => self.finish("abandoned", version, at),
            CallEvent::Asked { .. } => {
                self.close(at);
                self.open(SpanKind::Person, at);
            }
            CallEvent::Answered { .. } | CallEvent::TimedOut { .. } => {
                self.close(at);
                self.open(SpanKind::Place, at);
            }
            CallEvent::Requested(_) | CallEvent::Accepted { .. } | CallEvent::LateResultIgnored { .. } => {}
        }
    }
}
