//! The fold of a task's log into a subscriber's events, parallel to the task's own fold. Events from the log
//! are the same for all subscribers; only the pieces of an answer depend on the time of listening.

use std::collections::HashMap;
use std::sync::Arc;

use proto_events::call::{CallEvent, CallKind, CallStatus};
use proto_events::decider::Decider;
use proto_events::envelope::{RecordedEvent, Timestamp};
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{BudgetLimit, FinalState, LimitUse, Part, TaskState, final_state};
use proto_events::task::{Run, Task, TaskEvent};

use crate::agent::card::Agent;
use crate::live::event::Live;
use crate::protolink::stream::event::{TaskStreamEvent, TaskStreamPayload, event_id, object};
use crate::protolink::stream::resume::{Pieces, StreamedEvent, ToldAnswer};

/// A task, as far as its log was read, and the events already sent to its subscriber.
pub(crate) struct Fold {
    pub(crate) agent: Arc<Agent>,
    pub(crate) stream: StreamId,
    pub(crate) task: Task,
    /// The index up to which the run's parts were announced.
    announced: u32,
    /// The indexes of artifacts that the run attached.
    attached: Vec<usize>,
    /// The limits that were warned about, by part.
    pub(crate) warned: Vec<(u32, BudgetLimit)>,
    /// The time at which each open call's last attempt was sent.
    pub(crate) sent: HashMap<String, Timestamp>,
    /// The pieces sent of the answers that are arriving.
    pub(crate) pieces: HashMap<String, Pieces>,
    /// The part of an answer that was told and is not in the log yet.
    pub(crate) told: Option<ToldAnswer>,
    /// The part of an answer that the subscriber was told before it continued here.
    pub(crate) resumed: Option<ToldAnswer>,
    /// Version and time of the current event, and the number of events it has given.
    source: Source,
    /// The run that has ended in the current record.
    ending: Option<RunEnding>,
    out: Vec<StreamedEvent>,
}

/// Version and time of an event of the log, and the number of events it has given.
type Source = (Version, Timestamp, u32);

/// The end of a run.
struct RunEnding {
    source: Source,
    from: TaskState,
    to: TaskState,
    kind: EndKind,
}

/// The way a run ended.
enum EndKind {
    /// The run was canceled, or ended before it began.
    Plain,
    /// The run ended with its outputs.
    Ended,
    /// The run could not go on, at this part, if at any; with it, whether that is an `infer` part.
    Broken {
        failing: Option<(u32, bool)>,
        /// The limit of the budget that ended it.
        budget: Option<LimitUse>,
        /// Whether the run itself ended, not a caller it.
        by_run: bool,
    },
}

/// Whether no event follows a state without a person.
fn is_last(state: TaskState) -> bool {
    state.is_terminal() || state == TaskState::InputRequired
}

/// The result of handling a live event.
pub(crate) enum LiveOutcome {
    /// The live event was passed on, or is of no use.
    Done,
    /// The log was not read far enough yet.
    TooEarly,
}

impl Fold {
    pub(crate) fn new(agent: Arc<Agent>, stream: StreamId) -> Self {
        Self {
            agent,
            stream,
            task: Task::default(),
            announced: 0,
            attached: Vec::new(),
            warned: Vec::new(),
            sent: HashMap::new(),
            pieces: HashMap::new(),
            told: None,
            resumed: None,
            source: (Version(0), Timestamp(0), 0),
            ending: None,
            out: Vec::new(),
        }
    }

    /// Folds the next event of the log, and returns the events that it gives.
    pub(crate) fn accept_event(&mut self, recorded: &RecordedEvent<TaskEvent>) -> Vec<StreamedEvent> {
        self.source = (recorded.version, recorded.metadata.at, 0);
        if let TaskEvent::StateChanged { from, to, budget } = &recorded.event {
            // The cause of a caller's command is not in the log.
            let by_run = !recorded.metadata.causation_id.is_empty();
            let ending = self.ending(*from, *to, *budget, by_run);
            self.task.evolve(&recorded.event, &recorded.metadata);
            self.ending = ending;
            if self.ending.is_none() {
                self.after_change(Some(*from), *to);
            }
            return std::mem::take(&mut self.out);
        }
        self.task.evolve(&recorded.event, &recorded.metadata);
        match &recorded.event {
            TaskEvent::Submitted(posted) if posted.state.is_terminal() => self.over(),
            // A task that is posted as working begins at once.
            TaskEvent::Submitted(posted) if posted.state == TaskState::Working => {
                self.after_change(Some(TaskState::Working), TaskState::Working);
            }
            TaskEvent::ArtifactAppended { part: Some(at), .. } => {
                self.announce(at.saturating_add(1));
                self.attached.push(self.task.artifacts().len().saturating_sub(1));
            }
            TaskEvent::Call(event) => self.call(event),
            TaskEvent::ApprovalRequested(asked) => self.approval_asked(asked),
            TaskEvent::ApprovalDecided(decided) => self.approval_given(decided),
            _ => {}
        }
        std::mem::take(&mut self.out)
    }

    /// Returns the one event of a task that is over already.
    pub(crate) fn repeat_end(&mut self, version: Version, at: Timestamp) -> Vec<StreamedEvent> {
        self.source = (version, at, 0);
        self.over();
        std::mem::take(&mut self.out)
    }

    /// Whether the task is over.
    pub(crate) fn is_over(&self) -> bool {
        self.task.state().is_terminal()
    }

    fn over(&mut self) {
        let metadata = object([("task", self.task.to_json())]);
        self.push(metadata, TaskStreamPayload::Status { previous: None, new: self.task.state(), last: true });
    }

    /// Returns what is known of the end of a run while the run is still open. What the same command adds to
    /// the task, such as its error, follows the change, so it is reported when the whole record is read.
    fn ending(
        &mut self,
        from: TaskState,
        to: TaskState,
        budget: Option<LimitUse>,
        by_run: bool,
    ) -> Option<RunEnding> {
        if !is_last(to) {
            return None;
        }
        let mut kind = EndKind::Plain;
        if let Some(run) = self.task.run().copied() {
            kind = match to {
                TaskState::Failed if self.is_broken(&run, budget) => self.broken(&run, budget, by_run),
                TaskState::Canceled => EndKind::Plain,
                _ => EndKind::Ended,
            };
        }
        Some(RunEnding { source: self.source, from, to, kind })
    }

    /// Whether a run that failed could not go on: a part has no output, or none of the outputs is an error. An
    /// error among them ends a run only when all parts have theirs.
    fn is_broken(&self, run: &Run, budget: Option<LimitUse>) -> bool {
        let is_open = self.parts(run).any(|(at, _)| at >= run.next_part);
        let by_output = || {
            let outputs: Vec<Part> = self.task.all_outputs().cloned().collect();
            matches!(final_state(&outputs), FinalState::Failed { .. })
        };
        is_open || budget.is_some() || !by_output()
    }

    /// Returns that the run could not go on, and at which part.
    fn broken(&mut self, run: &Run, budget: Option<LimitUse>, by_run: bool) -> EndKind {
        let failing = self.parts(run).find(|(at, _)| *at >= run.next_part);
        let failing = failing.map(|(at, part)| (at, part.kind() == "infer"));
        self.announce(failing.map_or(0, |(at, _)| at.saturating_add(1)));
        EndKind::Broken { failing, budget, by_run }
    }

    /// Ends a record: returns the events for the end of the run, if it had one, and the version at which it
    /// ended.
    pub(crate) fn close(&mut self) -> Option<(Version, Vec<StreamedEvent>)> {
        let RunEnding { source, from, to, kind } = self.ending.take()?;
        self.source = source;
        let attached = std::mem::take(&mut self.attached);
        match kind {
            EndKind::Plain => {}
            EndKind::Ended => self.artifacts(|_| true),
            EndKind::Broken { failing, budget, by_run } => {
                self.artifacts(|at| attached.contains(&at));
                let message = self.task.error().unwrap_or_default();
                let infer = failing.and_then(|(at, infer)| infer.then_some(at));
                match (infer, budget) {
                    (Some(at), Some(over)) => self.over_budget(at, &over),
                    (Some(at), None) if by_run => self.refused(at, &message),
                    _ => {}
                }
                let code = if infer.is_some() { "llm_stream_failed" } else { "task_failed" };
                self.push(
                    JsonObject::new(),
                    TaskStreamPayload::Error { code: code.into(), message, recoverable: false },
                );
            }
        }
        self.after_change(Some(from), to);
        Some((source.0, std::mem::take(&mut self.out)))
    }

    fn after_change(&mut self, previous: Option<TaskState>, new: TaskState) {
        let last = is_last(new);
        let metadata = if last { object([("task", self.task.to_json())]) } else { JsonObject::new() };
        self.announced = 0;
        self.attached.clear();
        self.warned.clear();
        self.push(metadata, TaskStreamPayload::Status { previous, new, last });
    }

    fn artifacts(&mut self, which: impl Fn(usize) -> bool) {
        let artifacts = self.task.artifacts().iter().enumerate().filter(|(at, _)| which(*at));
        let artifacts: Vec<_> = artifacts.map(|(_, artifact)| artifact.clone()).collect();
        for artifact in artifacts {
            self.push(JsonObject::new(), TaskStreamPayload::Artifact(Box::new(artifact)));
        }
    }

    /// Returns the executable parts of a run, with their indexes.
    fn parts(&self, run: &Run) -> impl Iterator<Item = (u32, &Part)> {
        let parts = run.item.map_or(&[][..], |item| self.task.parts(item));
        (0..).zip(parts).filter(|(_, part)| matches!(part.kind(), "tool_call" | "infer"))
    }

    /// Announces the tool parts before this index.
    fn announce(&mut self, end: u32) {
        let Some(run) = self.task.run() else { return };
        let tool = |(at, part): (u32, &Part)| {
            let name = part.as_tool_call().map_or_else(|_| "unknown".to_owned(), |asked| asked.tool_name);
            (self.announced..end).contains(&at).then_some(name).filter(|_| part.kind() == "tool_call")
        };
        let tools: Vec<_> = self.parts(run).filter_map(tool).collect();
        self.announced = self.announced.max(end);
        for tool in tools {
            let message = format!("Executing tool: {tool}");
            let metadata = self.at_work("tool_call");
            self.push(metadata, TaskStreamPayload::Progress { progress: 0, message });
        }
    }

    fn at_work(&self, part_type: &str) -> JsonObject {
        object([("agent", JsonText::string(&self.agent.name)), ("part_type", JsonText::string(part_type))])
    }

    fn call(&mut self, event: &CallEvent) {
        let id = event.call_id();
        if let CallEvent::Dispatched { .. } = event {
            self.sent.insert(id.to_owned(), self.source.1);
        }
        let Some(call) = self.task.calls().get(id) else { return };
        let origin = &call.request.origin;
        // What a tool asks for in its middle is the tool's own affair: Protolink has no such calls.
        if origin.parent.is_some() {
            self.sent.remove(id);
            return;
        }
        let before = match (event, origin.step) {
            (CallEvent::Requested(_), 0) => origin.part.saturating_add(1),
            (CallEvent::Requested(_), _) => origin.part,
            _ => 0,
        };
        let (kind, in_loop) = (call.request.kind, origin.step > 0);
        self.announce(before);
        if kind == CallKind::Infer {
            self.inference(event);
        } else if in_loop {
            self.in_loop(event);
        }
        if self.task.calls().get(id).is_some_and(|call| !call.status.is_open()) {
            self.sent.remove(id);
            self.pieces.remove(id);
            self.told = None;
        }
    }

    /// Handles a live event, which is passed on only while its attempt is under way.
    pub(crate) fn on_live(
        &mut self,
        live: &Live,
        now: Timestamp,
        out: &mut Vec<StreamedEvent>,
    ) -> LiveOutcome {
        let (call_id, attempt) = match live {
            Live::Delta { call_id, attempt, .. } | Live::Progress { call_id, attempt, .. } => {
                (call_id, *attempt)
            }
            // The log reports a new attempt; lost pieces show by the offset of the next one.
            Live::Began { .. }
            | Live::Answer { .. }
            | Live::ContextReduced { .. }
            | Live::Waiting { .. }
            | Live::Lost { .. } => {
                return LiveOutcome::Done;
            }
        };
        let Some(call) = self.task.calls().get(call_id) else { return LiveOutcome::TooEarly };
        if call.status.is_open() && call.attempts < attempt {
            return LiveOutcome::TooEarly;
        }
        if call.status != CallStatus::Dispatched || call.attempts != attempt {
            return LiveOutcome::Done;
        }
        self.source.1 = now;
        match live {
            Live::Delta { at, text, .. } => self.piece(call_id, attempt, *at, text),
            Live::Progress { text, .. } => {
                let mut metadata = self.at_work("tool_call");
                metadata.set("call_id", JsonText::string(call_id));
                let message = text.as_ref().to_owned();
                let id = [
                    self.stream.as_str().as_bytes(),
                    call_id.as_bytes(),
                    message.as_bytes(),
                    &now.0.to_be_bytes(),
                ];
                self.push_with_id(
                    event_id(&id),
                    metadata,
                    TaskStreamPayload::Progress { progress: 0, message },
                );
            }
            Live::Began { .. }
            | Live::Answer { .. }
            | Live::ContextReduced { .. }
            | Live::Waiting { .. }
            | Live::Lost { .. } => {}
        }
        out.append(&mut self.out);
        LiveOutcome::Done
    }

    /// Returns the time at which the current event was accepted.
    pub(crate) fn now(&self) -> Timestamp {
        self.source.1
    }

    pub(crate) fn push(&mut self, metadata: JsonObject, payload: TaskStreamPayload) {
        let (version, _, count) = self.source;
        let id = [self.stream.as_str().as_bytes(), b"\0", &version.0.to_be_bytes(), &count.to_be_bytes()];
        self.source.2 = count.saturating_add(1);
        self.push_as(event_id(&id), true, metadata, payload);
    }

    /// Reports an event that does not follow from the log alone, under an id of its own.
    pub(crate) fn push_with_id(
        &mut self,
        event_id: String,
        metadata: JsonObject,
        payload: TaskStreamPayload,
    ) {
        self.push_as(event_id, false, metadata, payload);
    }

    fn push_as(
        &mut self,
        event_id: String,
        is_fixed: bool,
        metadata: JsonObject,
        payload: TaskStreamPayload,
    ) {
        let task_id = match self.task.id() {
            "" => self.stream.id(),
            id => id.to_owned(),
        };
        let timestamp = self.source.1.to_string();
        let event = TaskStreamEvent { event_id, task_id, timestamp, metadata, payload };
        self.out.push(StreamedEvent { event, is_fixed, told: self.told.clone() });
    }
}
