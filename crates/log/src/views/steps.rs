//! The steps of a run, to be compared with another run's: messages, artifacts, calls by tool and arguments, and the
//! states where a run rests. Ids and times do not count.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::slice;

use proto_events::call::{Call, CallEvent, CallKind, CallStatus, Verdict};
use proto_events::codec::AnyEvent;
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonText, JsonValue};
use proto_events::model::{Artifact, FinalState, Message, Part, TaskState, final_state};
use proto_events::task::{Task, TaskEvent};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::audit::json::{call_kind, number, object, text, text_or_null};
use crate::audit::words::{parts_text, status_text};
use crate::read::fold::fold_stream;
use crate::views::event_row::{EventRow, event_rows};
use crate::views::own_ids::{OWN_ID, OwnIds};

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunStep {
    /// The version of its first event.
    pub version: Version,
    /// `message`, `artifact`, `state`, or the kind of the call.
    pub kind: &'static str,
    /// The tool, the model, the agent, the role of a message, the name or the kind of an artifact, or the state.
    pub target: String,
    /// The arguments of a call, the text of a message, or the content of an artifact, without ids of the run.
    pub args: String,
    /// The outcome of a call in words, without ids of the run; empty for other steps.
    pub outcome: String,
    /// The call's id.
    pub call_id: Option<String>,
}

impl RunStep {
    /// Returns what makes a step the same in both runs, whatever came of it.
    pub(crate) fn key(&self) -> (&str, &str, &str) {
        (self.kind, &self.target, &self.args)
    }

    /// Returns the step as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("version", number(self.version.0)),
            ("kind", text(self.kind)),
            ("target", text(&self.target)),
            ("args", text(&self.args)),
            ("outcome", text(&self.outcome)),
            ("call_id", text_or_null(self.call_id.as_deref())),
        ])
    }
}

/// Returns the steps of a task, in their order.
///
/// # Errors
/// [`ReadError`] if its stream cannot be read.
pub fn run_steps(reader: &dyn EventReader, stream: &StreamId) -> Result<Vec<RunStep>, ReadError> {
    let task = fold_stream::<Task>(reader, stream, None)?.state;
    let mut reading = StepReader::new(task, stream);
    for_each_page_of(reader, stream, Version(1), |page| {
        page.iter().flat_map(event_rows).for_each(|row| reading.accept_row(&row));
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(reading.steps)
}

struct StepReader {
    task: Task,
    own: OwnIds,
    /// The places of the task's artifacts by their ids; of several with one id, that of the first.
    wholes: HashMap<Option<String>, usize>,
    /// The parts of the current run that have made a call.
    called: HashSet<u32>,
    /// The artifacts in pieces of which one was taken.
    in_pieces: HashSet<Option<String>>,
    steps: Vec<RunStep>,
}

impl StepReader {
    fn new(task: Task, stream: &StreamId) -> Self {
        let own = OwnIds::from_task(&task, stream);
        let mut wholes = HashMap::new();
        for (at, artifact) in task.artifacts().iter().enumerate() {
            wholes.entry(artifact.id.clone()).or_insert(at);
        }
        Self { task, own, wholes, called: HashSet::new(), in_pieces: HashSet::new(), steps: Vec::new() }
    }

    fn accept_row(&mut self, row: &EventRow) {
        let Ok(AnyEvent::Task(event)) = &row.event else { return };
        match event {
            TaskEvent::Submitted(posted) => {
                posted.messages.iter().for_each(|message| self.message(row, message));
                posted.artifacts.iter().for_each(|artifact| self.artifact(row, artifact));
            }
            TaskEvent::MessageAppended(message) => self.message(row, message),
            TaskEvent::ArtifactAppended { artifact, part: Some(part) } => self.output(row, artifact, *part),
            TaskEvent::ArtifactAppended { artifact, part: None } => self.artifact(row, artifact),
            TaskEvent::ArtifactPartAppended { artifact, .. } => self.piece(row, artifact),
            TaskEvent::StateChanged { to: TaskState::Working, .. } => self.called.clear(),
            TaskEvent::StateChanged { to, .. } if to.is_terminal() || *to == TaskState::InputRequired => {
                self.push(row, "state", to.as_str().to_owned(), String::new());
            }
            TaskEvent::Call(CallEvent::Requested(request)) => {
                self.called.insert(request.origin.part);
                let args = self.without_ids(&request.args);
                let outcome = self.task.calls().get(&request.call_id).map(|call| self.outcome(call));
                self.push(row, call_kind(request.kind), request.target.clone(), args);
                if let Some(step) = self.steps.last_mut() {
                    step.call_id = Some(request.call_id.clone());
                    step.outcome = outcome.unwrap_or_default();
                }
            }
            _ => {}
        }
    }

    fn message(&mut self, row: &EventRow, message: &Message) {
        let role = message.role.clone().unwrap_or_else(|| "nobody".to_owned());
        let said = self.own.without(parts_text(&message.parts));
        self.push(row, "message", role, said);
    }

    fn artifact(&mut self, row: &EventRow, artifact: &Artifact) {
        let target = artifact.name.clone().unwrap_or_else(|| artifact.kind.clone());
        let held = self.own.without(parts_text(&artifact.parts));
        self.push(row, "artifact", target, held);
    }

    /// Takes the output of a part. It repeats what came of the part's calls, which stands in their steps, unless it is an
    /// error.
    fn output(&mut self, row: &EventRow, output: &Artifact, part: u32) {
        let is_error = |part: &Part| !matches!(final_state(slice::from_ref(part)), FinalState::Completed);
        if !self.called.contains(&part) || output.parts.iter().any(is_error) {
            self.artifact(row, output);
        }
    }

    /// Takes a piece of an artifact. Its first one stands for all of it: the pieces may be cut in other places.
    fn piece(&mut self, row: &EventRow, piece: &Artifact) {
        if !self.in_pieces.insert(piece.id.clone()) {
            return;
        }
        let whole = self.wholes.get(&piece.id).and_then(|at| self.task.artifacts().get(*at)).cloned();
        self.artifact(row, whole.as_ref().unwrap_or(piece));
    }

    fn push(&mut self, row: &EventRow, kind: &'static str, target: String, args: String) {
        let version = row.version;
        self.steps.push(RunStep { version, kind, target, args, outcome: String::new(), call_id: None });
    }

    fn outcome(&self, call: &Call) -> String {
        let told = match &call.status {
            CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result))
                if call.request.kind == CallKind::Tool =>
            {
                format!("{}: {}", call.status.as_str(), self.without_ids(result))
            }
            // Not the time when the next attempt is due: two runs of the same work differ in it.
            CallStatus::RetryScheduled(_, why) => {
                format!("attempt {} failed ({why}); another one follows", call.attempts)
            }
            _ => status_text(call),
        };
        self.own.without(told)
    }

    /// Returns JSON in which each string that is an id of the run is replaced.
    fn without_ids(&self, json: &JsonText) -> String {
        let mut tree = json.tree();
        let mut todo = vec![&mut tree];
        while let Some(value) = todo.pop() {
            match value {
                JsonValue::String(said) if self.own.contains(said.as_str()) => {
                    *value = JsonValue::String(OWN_ID.to_owned());
                }
                JsonValue::Array(items) => todo.extend(items),
                JsonValue::Object(fields) => todo.extend(fields.values_mut()),
                _ => {}
            }
        }
        tree.to_string()
    }
}
