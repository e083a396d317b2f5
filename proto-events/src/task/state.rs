//! A task as the fold of its events, and its form on Protolink's wire.

use std::time::Duration;

use crate::call::book::CallBook;
use crate::call::fold::Call;
use crate::call::outcome::FailureClass;
use crate::call::request::CallKind;
use crate::call::status::CallStatus;
use crate::envelope::{Principal, Timestamp};
use crate::growing_list::GrowingList;
use crate::id::Digest;
use crate::json::{JsonObject, JsonText};
use crate::memo::Memo;
use crate::model::artifact::Artifact;
use crate::model::error::ModelError;
use crate::model::message::Message;
use crate::model::part::Part;
use crate::model::posted_task::PostedTask;
use crate::model::run_budget::RunBudget;
use crate::model::task_state::TaskState;
use crate::task::approval::ApprovalBook;
use crate::task::webhook::WebhookBook;
use crate::turn::Turn;

/// A change of the lifecycle, as Protolink's `state_history` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateChange {
    /// The state before.
    pub from: TaskState,
    /// The state after.
    pub to: TaskState,
    /// The time of the change.
    pub at: Timestamp,
}

/// A reference to an item of a task, a message or an artifact, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemRef {
    /// The message at this index.
    Message(usize),
    /// The artifact at this index.
    Artifact(usize),
}

/// The work on one item of the task, from the moment the task becomes `working` until it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The item whose parts are executed: the last item when the run began.
    pub item: Option<ItemRef>,
    /// The first part that has no output yet.
    pub next_part: u32,
    /// The time at which the run began.
    pub began: Timestamp,
    /// The place of the call whose answered question began the run.
    pub(crate) continues: Option<usize>,
}

/// A task: the fold of its stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Task {
    pub(crate) id: String,
    pub(crate) state: Option<TaskState>,
    pub(crate) messages: GrowingList<Message>,
    pub(crate) artifacts: GrowingList<Artifact>,
    pub(crate) metadata: JsonObject,
    /// The principal that submitted the task.
    pub(crate) principal: Principal,
    /// The budget that the metadata name, once it was read.
    pub(crate) budget: Memo<Option<Box<Result<RunBudget, ModelError>>>>,
    pub(crate) flow_state: JsonText,
    pub(crate) created_at: Option<String>,
    /// The digests of the texts that were posted, each a source of items.
    pub(crate) sources: Vec<Digest>,
    /// The numbers of messages and artifacts that the task was submitted with.
    pub(crate) submitted_items: (usize, usize),
    pub(crate) history: Vec<StateChange>,
    pub(crate) last: Option<ItemRef>,
    pub(crate) calls: CallBook,
    pub(crate) approvals: ApprovalBook,
    pub(crate) webhooks: WebhookBook,
    pub(crate) turn: Turn,
    pub(crate) run: Option<Run>,
    /// The last run, if the task now waits for a person.
    pub(crate) paused: Option<Run>,
    pub(crate) runs: u32,
    /// The time for which the earlier runs worked.
    pub(crate) worked: Duration,
    /// The indices of the user's messages that wait for the next inference.
    pub(crate) queued: Vec<usize>,
    /// The indices of the artifacts that are outputs of the current run.
    pub(crate) outputs: Vec<usize>,
    /// The indices of the artifacts that were added in pieces and are not complete.
    pub(crate) in_pieces: Vec<usize>,
    /// The indices of the artifacts that are outputs of the runs which the current one continues after a person's decision.
    pub(crate) continued_outputs: Vec<usize>,
    /// The place of the call whose question was answered since the last run.
    pub(crate) answered: Option<usize>,
    /// The command with which a person decided about what the task waits for: a run that begins in it continues the last one.
    pub(crate) decided_in: String,
}

impl Task {
    /// Whether the task was ever submitted.
    pub fn exists(&self) -> bool {
        self.state.is_some()
    }

    /// Returns the id chosen by the caller.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the lifecycle state; `submitted` before the task exists.
    pub fn state(&self) -> TaskState {
        self.state.unwrap_or(TaskState::Submitted)
    }

    /// Returns the messages, oldest first.
    pub fn messages(&self) -> &GrowingList<Message> {
        &self.messages
    }

    /// Returns the artifacts, oldest first.
    pub fn artifacts(&self) -> &GrowingList<Artifact> {
        &self.artifacts
    }

    /// Returns the metadata, without the `state_history` that [`Task::to_json`] adds.
    pub fn metadata(&self) -> &JsonObject {
        &self.metadata
    }

    /// Returns the state of the flow to which the task belongs.
    pub fn flow_state(&self) -> &JsonText {
        &self.flow_state
    }

    /// Returns the time of creation, as the poster wrote it.
    pub fn created_at(&self) -> Option<&str> {
        self.created_at.as_deref()
    }

    /// Returns the lifecycle changes since the task was submitted, without any posted `state_history`.
    pub fn history(&self) -> &[StateChange] {
        &self.history
    }

    /// Returns the calls of the task.
    pub fn calls(&self) -> &CallBook {
        &self.calls
    }

    /// Returns the webhooks of the task.
    pub fn webhooks(&self) -> &WebhookBook {
        &self.webhooks
    }

    /// Returns the messages of the run's infer parts, where the agent keeps no conversation.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Returns the current run.
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// Returns the run that stopped to wait for a person, until another one begins or the task is over.
    pub fn paused(&self) -> Option<&Run> {
        self.paused.as_ref()
    }

    /// Returns the call that the current run, or the one that waits for a person, continues after a person's answer.
    /// An earlier run made the call.
    pub fn continued(&self) -> Option<&Call> {
        self.calls.call_at(self.run.or(self.paused)?.continues?)
    }

    /// Returns the calls that wait for a person's answer.
    pub fn open_questions(&self) -> impl Iterator<Item = &Call> {
        self.calls.open().filter(|call| call.open_question().is_some())
    }

    /// Returns the calls whose outcome is unknown until a person finds it out.
    pub fn lost_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| matches!(call.status, CallStatus::Unknown(_)))
    }

    /// Returns the index of the artifact with this id, if it takes further pieces.
    pub(crate) fn open_artifact(&self, id: &str) -> Option<usize> {
        let is_it = |at: &usize| self.artifacts.get(*at).is_some_and(|known| known.id.as_deref() == Some(id));
        self.in_pieces.iter().copied().find(is_it)
    }

    /// Whether the task failed because its handler rejected the work, and not because the work went wrong.
    pub fn is_rejected(&self) -> bool {
        let rejected = |call: &Call| matches!(&call.status, CallStatus::Failed(failure) if failure.class == FailureClass::Rejected);
        let last = || self.calls.iter().rev().find(|call| call.request.kind == CallKind::Handler);
        self.state() == TaskState::Failed && last().is_some_and(rejected)
    }

    /// Returns the number of runs, the current one included.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Returns the last item: by time when the task was submitted, afterwards by order of arrival.
    pub fn last_item(&self) -> Option<ItemRef> {
        self.last
    }

    /// Returns the id of an item.
    pub fn item_id(&self, item: ItemRef) -> Option<&str> {
        match item {
            ItemRef::Message(at) => self.messages.get(at)?.id.as_deref(),
            ItemRef::Artifact(at) => self.artifacts.get(at)?.id.as_deref(),
        }
    }

    /// Returns the parts of an item.
    pub fn parts(&self, item: ItemRef) -> &[Part] {
        match item {
            ItemRef::Message(at) => self.messages.get(at).map_or(&[], |message| message.parts.as_slice()),
            ItemRef::Artifact(at) => self.artifacts.get(at).map_or(&[], |artifact| artifact.parts.as_slice()),
        }
    }

    /// Returns the content of the last item's last part.
    pub fn last_part_content(&self) -> Option<&JsonText> {
        self.parts(self.last?).last().map(Part::content)
    }

    /// Returns the outputs of the current run, in the order of the parts, without artifacts added by a
    /// caller.
    pub fn outputs(&self) -> impl Iterator<Item = &Part> {
        self.parts_of_artifacts(&self.outputs)
    }

    /// Returns the outputs of the current run, and before them the outputs of the runs that it continues after a person's
    /// decision: by them all the task ends.
    pub fn all_outputs(&self) -> impl Iterator<Item = &Part> {
        self.parts_of_artifacts(&self.continued_outputs).chain(self.outputs())
    }

    fn parts_of_artifacts<'a>(&'a self, places: &'a [usize]) -> impl Iterator<Item = &'a Part> {
        let attached = places.iter().filter_map(|at| self.artifacts.get(*at));
        attached.flat_map(|artifact| artifact.parts.iter())
    }

    /// Returns the task as Protolink writes it, `metadata.state_history` included.
    pub fn to_json(&self) -> JsonText {
        let mut metadata = self.metadata.clone();
        if let Some(history) = self.state_history() {
            metadata.set("state_history", history);
        }
        PostedTask {
            id: self.id.clone(),
            state: self.state(),
            messages: self.messages.to_vec(),
            artifacts: self.artifacts.to_vec(),
            metadata,
            flow_state: self.flow_state.clone(),
            created_at: self.created_at.clone(),
            filled_in: Vec::new(),
            source: None,
        }
        .to_json()
    }

    /// Returns the posted list followed by the changes since. `None` if there are no changes, or if the
    /// posted value is not a list; the metadata then stays as posted.
    fn state_history(&self) -> Option<JsonText> {
        let posted = match self.metadata.get("state_history") {
            None => Vec::new(),
            Some(posted) => posted.read::<Vec<JsonText>>().ok()?,
        };
        if self.history.is_empty() {
            return None;
        }
        let changes = self.history.iter().map(|change| {
            let text = |text: &str| JsonText::string(text);
            let entry: JsonObject = [
                ("previous_state".to_owned(), text(change.from.as_str())),
                ("new_state".to_owned(), text(change.to.as_str())),
                ("timestamp".to_owned(), text(&change.at.to_string())),
            ]
            .into_iter()
            .collect();
            entry.to_text()
        });
        JsonText::encode(&posted.into_iter().chain(changes).collect::<Vec<_>>()).ok()
    }
}
