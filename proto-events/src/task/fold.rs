//! The fold of a task: what each event changes. It never fails, since an event is a fact.

use std::time::Duration;

use crate::call::event::CallEvent;
use crate::envelope::Metadata;
use crate::memo::Memo;
use crate::model::artifact::Artifact;
use crate::model::message::Message;
use crate::model::posted_task::{LastItem, PostedTask};
use crate::model::task_state::TaskState;
use crate::task::event::TaskEvent;
use crate::task::state::{ItemRef, Run, StateChange, Task};

impl Task {
    /// Folds in one event.
    pub(super) fn fold(&mut self, event: &TaskEvent, metadata: &Metadata) {
        match event {
            TaskEvent::Submitted(posted) => self.fold_posted(PostedTask::clone(posted), metadata),
            TaskEvent::MessageAppended(message) => self.fold_message(message.clone()),
            TaskEvent::ArtifactAppended { artifact, part } => self.fold_artifact(artifact.clone(), *part),
            TaskEvent::StateChanged { from, to, .. } => {
                self.history.push(StateChange { from: *from, to: *to, at: metadata.at });
                self.enter(*to, metadata);
            }
            TaskEvent::PostedAgain { source } => self.sources.push(*source),
            TaskEvent::ArtifactPartAppended { artifact, is_last } => self.fold_piece(artifact, *is_last),
            TaskEvent::MetadataMerged(entries) => {
                self.metadata.merge(entries);
                self.budget = Memo::default();
            }
            TaskEvent::CancelRequested { .. } => {}
            TaskEvent::ApprovalRequested(asked) => self.approvals.requested(asked, metadata.at),
            TaskEvent::ApprovalDecided(decided) => {
                self.approvals.decided(decided, metadata.at);
                self.note_decision(metadata);
            }
            TaskEvent::Webhook(event) => self.webhooks.fold(event, &metadata.principal, metadata.at),
            TaskEvent::InferMessageAppended(message) => {
                if !self.queued.is_empty() {
                    self.show(&message.message.id);
                }
                self.turn.push(message.clone());
            }
            TaskEvent::Call(event) => {
                self.calls.evolve(event, metadata.at);
                if matches!(event, CallEvent::Answered { .. }) && self.run.is_none() {
                    self.answered = self.calls.position(event.call_id());
                }
                if let CallEvent::Answered { .. }
                | CallEvent::Reconciled { .. }
                | CallEvent::Abandoned { .. } = event
                {
                    self.note_decision(metadata);
                }
            }
        }
    }

    /// Folds in one event that is encoded already: its items move into the state instead of being copied. Returns the
    /// event if nothing of it moved.
    pub(super) fn fold_moved(&mut self, event: TaskEvent, metadata: &Metadata) -> Option<TaskEvent> {
        match event {
            TaskEvent::Submitted(posted) => self.fold_posted(*posted, metadata),
            TaskEvent::MessageAppended(message) => self.fold_message(message),
            TaskEvent::ArtifactAppended { artifact, part } => self.fold_artifact(artifact, part),
            other => {
                self.fold(&other, metadata);
                return Some(other);
            }
        }
        None
    }

    fn fold_message(&mut self, message: Message) {
        let at = self.messages.len();
        self.last = Some(ItemRef::Message(at));
        self.queue(&message, at);
        self.messages.push(message);
    }

    fn fold_artifact(&mut self, artifact: Artifact, part: Option<u32>) {
        self.last = Some(ItemRef::Artifact(self.artifacts.len()));
        if let (Some(run), Some(part)) = (self.run.as_mut(), part) {
            run.next_part = part.saturating_add(1);
            self.outputs.push(self.artifacts.len());
        }
        self.artifacts.push(artifact);
    }

    /// Folds in a piece of an artifact. A piece of a complete one is a fact all the same: it begins another.
    fn fold_piece(&mut self, piece: &Artifact, is_last: bool) {
        let known = piece.id.as_deref().and_then(|id| self.open_artifact(id));
        let at = known.unwrap_or(self.artifacts.len());
        match self.artifacts.get_mut(at) {
            Some(artifact) => artifact.parts.extend(piece.parts.iter().cloned()),
            None => self.artifacts.push(piece.clone()),
        }
        self.last = Some(ItemRef::Artifact(at));
        self.in_pieces.retain(|open| *open != at);
        if !is_last {
            self.in_pieces.push(at);
        }
    }

    fn fold_posted(&mut self, posted: PostedTask, metadata: &Metadata) {
        self.last = posted.last_item().map(|item| match item {
            LastItem::Message(_) => ItemRef::Message(posted.messages.len().saturating_sub(1)),
            LastItem::Artifact(_) => ItemRef::Artifact(posted.artifacts.len().saturating_sub(1)),
        });
        self.submitted_items = (posted.messages.len(), posted.artifacts.len());
        self.id = posted.id;
        self.messages = posted.messages.into_iter().collect();
        self.artifacts = posted.artifacts.into_iter().collect();
        self.metadata = posted.metadata;
        self.principal.clone_from(&metadata.principal);
        self.budget = Memo::default();
        self.flow_state = posted.flow_state;
        self.created_at = posted.created_at;
        self.sources.extend(posted.source);
        self.enter(posted.state, metadata);
    }

    /// Notes that a person decided. A decision that resumes nothing is evidence only.
    fn note_decision(&mut self, metadata: &Metadata) {
        if self.paused.is_some() {
            self.decided_in.clone_from(&metadata.command_id);
        }
    }

    /// Enters a state: a run begins when the task becomes `working` and ends in any other state.
    fn enter(&mut self, state: TaskState, metadata: &Metadata) {
        let at = metadata.at;
        self.state = Some(state);
        self.turn.clear();
        match state {
            TaskState::InputRequired => self.continued_outputs.append(&mut self.outputs),
            TaskState::Working if !self.decided_in.is_empty() && self.decided_in == metadata.command_id => {}
            _ => self.continued_outputs.clear(),
        }
        self.outputs.clear();
        let ended = self.run.take();
        self.worked = self.worked.saturating_add(ended.map_or(Duration::ZERO, |run| at.since(run.began)));
        self.paused = ended.filter(|_| state == TaskState::InputRequired);
        let continues = self.answered.take();
        self.run = (state == TaskState::Working).then(|| {
            self.runs += 1;
            Run { item: self.last, next_part: 0, began: at, continues }
        });
    }
}
