//! What the events of a task's log mean to a subscriber: a fold of the stream beside the task's own. What stands in
//! the log gives the same events to everybody; only the pieces of an answer depend on who listened when.

use std::collections::HashMap;
use std::sync::Arc;

use proto_events::call::{CallEvent, CallKind, CallStatus};
use proto_events::decider::Decider;
use proto_events::envelope::{Recorded, Timestamp};
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{FinalState, Part, TaskState, final_state};
use proto_events::task::{Run, Task, TaskEvent};

use super::event::{TaskStreamEvent, Tells, event_id, object};
use crate::actors::live::Live;
use crate::agent::Agent;

/// A task, as far as its log was read, and what its subscriber was told.
pub(super) struct Fold {
    pub(super) agent: Arc<Agent>,
    pub(super) stream: StreamId,
    pub(super) task: Task,
    /// Parts of the run before this one were announced.
    announced: u32,
    /// Artifacts that the run attached.
    attached: Vec<usize>,
    /// Limits of the part at hand that were warned about.
    pub(super) warned: Vec<(u32, &'static str)>,
    /// When each open call's last attempt was sent.
    pub(super) sent: HashMap<String, Timestamp>,
    /// What was handed out of the answers that are coming in.
    pub(super) pieces: HashMap<String, Pieces>,
    /// Where the event at hand stands, and how many events it gave.
    place: Place,
    /// The run that has ended in the record at hand.
    ending: Option<Ending>,
    out: Vec<TaskStreamEvent>,
}

/// Version and time of an event of the log, and how many events it gave.
type Place = (Version, Timestamp, u32);

/// The end of a run.
struct Ending {
    place: Place,
    from: TaskState,
    to: TaskState,
    how: How,
}

/// How a run ended.
enum How {
    /// By a cancel, or before it began.
    Plain,
    /// With its outputs.
    Ended,
    /// It could not go on, at this part, if at any; and whether that is one for the model.
    Broken(Option<(u32, bool)>),
}

/// Whether nothing follows a state without a person.
fn is_last(state: TaskState) -> bool {
    state.is_terminal() || state == TaskState::InputRequired
}

/// What was handed out of one answer.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pub(super) attempt: u32,
    pub(super) text: String,
}

/// What becomes of something heard.
pub(super) enum Heard {
    /// It was told, or is of no use.
    Done,
    /// The log was not read so far yet.
    TooEarly,
}

impl Fold {
    pub(super) fn new(agent: Arc<Agent>, stream: StreamId) -> Self {
        Self {
            agent,
            stream,
            task: Task::default(),
            announced: 0,
            attached: Vec::new(),
            warned: Vec::new(),
            sent: HashMap::new(),
            pieces: HashMap::new(),
            place: (Version(0), Timestamp(0), 0),
            ending: None,
            out: Vec::new(),
        }
    }

    /// Takes the next event of the log in; what it means to a subscriber.
    pub(super) fn take(&mut self, recorded: &Recorded<TaskEvent>) -> Vec<TaskStreamEvent> {
        self.place = (recorded.version, recorded.metadata.at, 0);
        if let TaskEvent::StateChanged { from, to } = &recorded.event {
            let ending = self.ending(*from, *to);
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

    /// The one event that a task gives which is over already.
    pub(super) fn told_over(&mut self, version: Version, at: Timestamp) -> Vec<TaskStreamEvent> {
        self.place = (version, at, 0);
        self.over();
        std::mem::take(&mut self.out)
    }

    /// Whether the task is over.
    pub(super) fn is_over(&self) -> bool {
        self.task.state().is_terminal()
    }

    fn over(&mut self) {
        let metadata = object([("task", self.task.to_json())]);
        self.tell(metadata, Tells::Status { previous: None, new: self.task.state(), last: true });
    }

    /// What is known of the end of a run while it still stands. What the same command adds to the task, such as its
    /// error, comes behind the change, so that it is told when the record is read.
    fn ending(&mut self, from: TaskState, to: TaskState) -> Option<Ending> {
        if !is_last(to) {
            return None;
        }
        let mut how = How::Plain;
        if let Some(run) = self.task.run().copied() {
            let outputs: Vec<Part> = self.task.outputs().cloned().collect();
            let by_output = matches!(final_state(&outputs), FinalState::Failed { .. });
            how = match to {
                TaskState::Failed if !by_output => self.broken(&run),
                TaskState::Canceled => How::Plain,
                _ => How::Ended,
            };
        }
        Some(Ending { place: self.place, from, to, how })
    }

    /// The run cannot go on: at which part.
    fn broken(&mut self, run: &Run) -> How {
        let failing = self.parts(run).find(|(at, _)| *at >= run.next_part);
        let failing = failing.map(|(at, part)| (at, part.kind() == "infer"));
        self.announce(failing.map_or(0, |(at, _)| at.saturating_add(1)));
        How::Broken(failing)
    }

    /// A record was read to its end: tells the end of the run, if it had one, and the version at which it ended.
    pub(super) fn close(&mut self) -> Option<(Version, Vec<TaskStreamEvent>)> {
        let Ending { place, from, to, how } = self.ending.take()?;
        self.place = place;
        let attached = std::mem::take(&mut self.attached);
        match how {
            How::Plain => {}
            How::Ended => self.artifacts(|_| true),
            How::Broken(failing) => {
                self.artifacts(|at| attached.contains(&at));
                let message = self.task.error().unwrap_or_default();
                let infer = failing.and_then(|(at, infer)| infer.then_some(at));
                if let Some(at) = infer {
                    self.over_budget(at, &message);
                }
                let code = if infer.is_some() { "llm_stream_failed" } else { "task_failed" };
                self.tell(JsonObject::new(), Tells::Error { code, message });
            }
        }
        self.after_change(Some(from), to);
        Some((place.0, std::mem::take(&mut self.out)))
    }

    fn after_change(&mut self, previous: Option<TaskState>, new: TaskState) {
        let last = is_last(new);
        let metadata = if last { object([("task", self.task.to_json())]) } else { JsonObject::new() };
        self.announced = 0;
        self.attached.clear();
        self.warned.clear();
        self.tell(metadata, Tells::Status { previous, new, last });
    }

    fn artifacts(&mut self, which: impl Fn(usize) -> bool) {
        let artifacts = self.task.artifacts().iter().enumerate().filter(|(at, _)| which(*at));
        let artifacts: Vec<_> = artifacts.map(|(_, artifact)| artifact.clone()).collect();
        for artifact in artifacts {
            self.tell(JsonObject::new(), Tells::Artifact(Box::new(artifact)));
        }
    }

    /// The executable parts of a run.
    fn parts(&self, run: &Run) -> impl Iterator<Item = (u32, &Part)> {
        let parts = run.item.map_or(&[][..], |item| self.task.parts(item));
        (0..).zip(parts).filter(|(_, part)| matches!(part.kind(), "tool_call" | "infer"))
    }

    /// Tells of the tool parts before this one that they are carried out.
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
            self.tell(metadata, Tells::Progress { progress: 0, message });
        }
    }

    fn at_work(&self, part_type: &str) -> JsonObject {
        object([("agent", JsonText::string(&self.agent.name)), ("part_type", JsonText::string(part_type))])
    }

    fn call(&mut self, event: &CallEvent) {
        let id = event.call_id();
        if let CallEvent::Dispatched { delay_ms, .. } = event {
            self.sent.insert(id.to_owned(), self.place.1.plus_millis(*delay_ms));
        }
        let Some(call) = self.task.calls().get(id) else { return };
        let origin = &call.request.origin;
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
        }
    }

    /// Something that is not in the log: told while the attempt that says it is under way.
    pub(super) fn hear(&mut self, live: &Live, now: Timestamp, out: &mut Vec<TaskStreamEvent>) -> Heard {
        let (call_id, attempt) = match live {
            Live::Delta { call_id, attempt, .. } | Live::Progress { call_id, attempt, .. } => {
                (call_id, *attempt)
            }
            // A new attempt is told of by the log; what was lost shows by where the next piece stands.
            Live::Began { .. } | Live::Lost { .. } => return Heard::Done,
        };
        let Some(call) = self.task.calls().get(call_id) else { return Heard::TooEarly };
        if call.status.is_open() && call.attempts < attempt {
            return Heard::TooEarly;
        }
        if call.status != CallStatus::Dispatched || call.attempts != attempt {
            return Heard::Done;
        }
        self.place.1 = now;
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
                self.tell_as(event_id(&id), metadata, Tells::Progress { progress: 0, message });
            }
            Live::Began { .. } | Live::Lost { .. } => {}
        }
        out.append(&mut self.out);
        Heard::Done
    }

    /// When the event at hand was accepted.
    pub(super) fn now(&self) -> Timestamp {
        self.place.1
    }

    pub(super) fn tell(&mut self, metadata: JsonObject, tells: Tells) {
        let (version, _, count) = self.place;
        let id = [self.stream.as_str().as_bytes(), b"\0", &version.0.to_be_bytes(), &count.to_be_bytes()];
        self.place.2 = count.saturating_add(1);
        self.tell_as(event_id(&id), metadata, tells);
    }

    /// Tells something that does not follow from the log alone, under an id of its own.
    pub(super) fn tell_as(&mut self, event_id: String, metadata: JsonObject, tells: Tells) {
        let task_id = match self.task.id() {
            "" => self.stream.id(),
            id => id.to_owned(),
        };
        let timestamp = self.place.1.to_string();
        self.out.push(TaskStreamEvent { event_id, task_id, timestamp, metadata, tells });
    }
}
