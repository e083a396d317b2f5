//! The decisions of a task. The lifecycle's edges are in [`TaskState::can_become`]; this file maps each
//! command to them.

use crate::call::command::CallCommand;
use crate::call::fold::Call;
use crate::call::request::CallKind;
use crate::call::status::CallStatus;
use crate::decider::Decider;
use crate::envelope::Metadata;
use crate::json::{JsonObject, JsonText};
use crate::model::artifact::Artifact;
use crate::model::message::Message;
use crate::model::posted_task::PostedTask;
use crate::model::run_budget::LimitUse;
use crate::model::task_state::TaskState;
use crate::task::command::{HandlerSays, TaskCommand, TaskRejection};
use crate::task::event::TaskEvent;
use crate::task::posted_again::{Comparison, compare};
use crate::task::state::Task;

type Decision = Result<Vec<TaskEvent>, TaskRejection>;

impl Decider for Task {
    type Command = TaskCommand;
    type Event = TaskEvent;
    type Rejection = TaskRejection;

    fn decide(&self, command: TaskCommand) -> Decision {
        match command {
            TaskCommand::Submit(posted) => self.submit(posted),
            _ if !self.exists() => Err(TaskRejection::NotFound),
            TaskCommand::Begin => self.start_run(),
            TaskCommand::Complete(message) => self.complete(message),
            TaskCommand::Fail { error } => self.fail(&error, None),
            TaskCommand::ExceedBudget(over) => self.fail(&over.to_string(), Some(over)),
            TaskCommand::RequireInput(message) => self.require_input(message),
            TaskCommand::AwaitAnswer { call_id, question } => self.await_answer(&call_id, question),
            TaskCommand::Cancel { reason, metadata } => self.cancel(reason, metadata),
            TaskCommand::AppendMessage(message) => {
                self.may_queue(&message)?;
                Ok(vec![TaskEvent::MessageAppended(message)])
            }
            TaskCommand::AppendArtifact { artifact, part } => {
                // The work ends with the task; artifacts posted with a finished task are part of its
                // submission.
                if self.state().is_terminal() {
                    return Err(TaskRejection::Over(self.state()));
                }
                Ok(vec![TaskEvent::ArtifactAppended { artifact, part }])
            }
            TaskCommand::AppendArtifactPart { artifact, is_last } => self.add_piece(artifact, is_last),
            TaskCommand::OfHandler { call_id, attempt, says } => self.of_handler(call_id, attempt, *says),
            TaskCommand::MergeMetadata(entries) => Ok(self.merge(&entries)),
            TaskCommand::AppendInferMessage(message) => {
                self.turn().check_next(&message)?;
                Ok(vec![TaskEvent::InferMessageAppended(message)])
            }
            TaskCommand::RequestApproval(asked) => {
                self.may_ask(&asked)?;
                Ok(vec![TaskEvent::ApprovalRequested(asked)])
            }
            TaskCommand::DecideApproval(decided) => {
                let is_new = self.may_decide(&decided)?;
                Ok(if is_new { vec![TaskEvent::ApprovalDecided(decided)] } else { Vec::new() })
            }
            TaskCommand::Webhook(command) => {
                Ok(self.webhooks().decide(*command)?.into_iter().map(TaskEvent::Webhook).collect())
            }
            TaskCommand::Call(command) => self.call(command),
        }
    }

    fn evolve(&mut self, event: &TaskEvent, metadata: &Metadata) {
        self.fold(event, metadata);
    }

    fn evolve_moved(&mut self, event: TaskEvent, metadata: &Metadata) -> Option<TaskEvent> {
        self.fold_moved(event, metadata)
    }
}

impl Task {
    fn submit(&self, mut posted: Box<PostedTask>) -> Decision {
        posted.source = posted.source();
        posted.filled_in.clear();
        if !self.exists() {
            return Ok(vec![TaskEvent::Submitted(posted)]);
        }
        match compare(self, &posted) {
            Comparison::Same => Ok(Vec::new()),
            Comparison::Other(difference) => {
                Err(TaskRejection::Differs { id: self.id().to_owned(), difference })
            }
            Comparison::Longer { .. } if self.run().is_some() => {
                Err(TaskRejection::AlreadyRunning(self.id().to_owned()))
            }
            Comparison::Longer { artifacts, .. } if self.state().is_terminal() && !artifacts.is_empty() => {
                Err(TaskRejection::Over(self.state()))
            }
            Comparison::Longer { messages, artifacts } => {
                let artifacts = artifacts
                    .into_iter()
                    .map(|artifact| TaskEvent::ArtifactAppended { artifact, part: None });
                let messages = messages.into_iter().map(TaskEvent::MessageAppended);
                let source = posted.source.map(|source| TaskEvent::PostedAgain { source });
                Ok(artifacts.chain(messages).chain(source).collect())
            }
        }
    }

    fn call(&self, command: CallCommand) -> Decision {
        if let CallCommand::Request(request) = &command {
            self.check_approval(request)?;
            if self.run().is_none() && !self.state().is_terminal() {
                return Err(TaskRejection::NotRunning {
                    call_id: request.call_id.clone(),
                    state: self.state(),
                });
            }
        }
        let events = self.calls().decide(command, self.state().is_terminal())?;
        Ok(events.into_iter().map(TaskEvent::Call).collect())
    }

    /// Begins a run. A question that nobody has answered is given up, with what its call has asked for: the task
    /// continues without it.
    fn start_run(&self) -> Decision {
        let begun = self.go_to(TaskState::Working)?;
        if begun.is_empty() {
            return Ok(begun);
        }
        let asks = |call: &Call| call.open_question().is_some();
        let unanswered = self.calls().cancel_where(|call| {
            let parent = call.request.origin.parent.as_ref();
            asks(call) || parent.and_then(|parent| self.calls().get(&parent.call_id)).is_some_and(asks)
        });
        Ok(unanswered.into_iter().map(TaskEvent::Call).chain(begun).collect())
    }

    /// Ends the run for a person's answer: the call that asks stays open, with what it has asked for, which its next
    /// attempt takes up. All others are closed.
    fn await_answer(&self, call_id: &str, question: Message) -> Decision {
        if self.calls().get(call_id).is_none_or(|call| call.open_question().is_none()) {
            return Err(TaskRejection::NotAsked(call_id.to_owned()));
        }
        let transitions = self.go_to(TaskState::InputRequired)?;
        if transitions.is_empty() {
            return Ok(transitions);
        }
        let others =
            self.calls().cancel_where(|call| call.request.call_id != call_id && !call.is_child_of(call_id));
        let mut events: Vec<_> = others.into_iter().map(TaskEvent::Call).collect();
        events.extend(transitions);
        events.push(TaskEvent::MessageAppended(question));
        Ok(events)
    }

    fn add_piece(&self, artifact: Artifact, is_last: bool) -> Decision {
        if self.state().is_terminal() {
            return Err(TaskRejection::Over(self.state()));
        }
        let Some(id) = &artifact.id else { return Err(TaskRejection::ArtifactWithoutId) };
        if self.open_artifact(id).is_none() && self.artifacts().iter().any(|known| known.id == artifact.id) {
            return Err(TaskRejection::ArtifactComplete(id.clone()));
        }
        Ok(vec![TaskEvent::ArtifactPartAppended { artifact, is_last }])
    }

    /// Adds what a handler says, while the attempt that says it is under way.
    fn of_handler(&self, call_id: String, attempt: u32, says: HandlerSays) -> Decision {
        let is_under_way = self.run().is_some()
            && self.calls().get(&call_id).is_some_and(|call| {
                let may_say = match call.request.kind {
                    CallKind::Handler => true,
                    CallKind::Tool => matches!(says, HandlerSays::Artifact(_)),
                    _ => false,
                };
                may_say && call.status == CallStatus::Dispatched && call.attempts == attempt
            });
        if !is_under_way {
            return Err(TaskRejection::HandlerOver { call_id, attempt });
        }
        match says {
            HandlerSays::Message(message) => Ok(vec![TaskEvent::MessageAppended(message)]),
            HandlerSays::Artifact(artifact) => Ok(vec![TaskEvent::ArtifactAppended { artifact, part: None }]),
            HandlerSays::ArtifactPart { artifact, is_last } => self.add_piece(artifact, is_last),
        }
    }

    /// Takes one edge of the lifecycle; returns no event if the task is already in state `to`.
    fn go_to(&self, to: TaskState) -> Decision {
        step(self.state(), to)
    }

    /// Takes the direct edge, or passes through `working` from `submitted` and `input-required`.
    fn go_through_working(&self, to: TaskState) -> Decision {
        match self.state() {
            from @ (TaskState::Submitted | TaskState::InputRequired) => {
                let mut events = step(from, TaskState::Working)?;
                events.extend(step(TaskState::Working, to)?);
                Ok(events)
            }
            from => step(from, to),
        }
    }

    fn complete(&self, message: Option<Message>) -> Decision {
        Ok(self.end_run(self.go_through_working(TaskState::Completed)?, message))
    }

    fn require_input(&self, message: Option<Message>) -> Decision {
        Ok(self.end_run(self.go_through_working(TaskState::InputRequired)?, message))
    }

    fn fail(&self, error: &str, over: Option<LimitUse>) -> Decision {
        let mut transitions = self.go_to(TaskState::Failed)?;
        for event in &mut transitions {
            if let TaskEvent::StateChanged { budget, .. } = event {
                *budget = over;
            }
        }
        let mut events = self.end_run(transitions, None);
        let entries = [("error".to_owned(), JsonText::string(error))].into_iter().collect();
        events.extend(self.merge(&entries));
        Ok(events)
    }

    /// Ends a run: its open calls are closed first, its last message comes last.
    fn end_run(&self, transitions: Vec<TaskEvent>, message: Option<Message>) -> Vec<TaskEvent> {
        let mut events = Vec::new();
        if !transitions.is_empty() {
            events.extend(self.calls().cancel().into_iter().map(TaskEvent::Call));
        }
        events.extend(transitions);
        events.extend(message.map(TaskEvent::MessageAppended));
        events
    }

    /// Cancels the task: the request, the closed calls, the metadata and the new state in one decision, and
    /// so in one append.
    fn cancel(&self, reason: Option<String>, mut metadata: JsonObject) -> Decision {
        let reason = reason.filter(|reason| !reason.is_empty());
        let ended = self.go_to(TaskState::Canceled)?;
        if let Some(reason) = &reason {
            metadata.set("cancel_reason", JsonText::string(reason));
        }
        let noted = self.merge(&metadata);
        if ended.is_empty() && noted.is_empty() {
            return Ok(Vec::new());
        }
        let mut events = vec![TaskEvent::CancelRequested { reason }];
        events.extend(self.calls().cancel().into_iter().map(TaskEvent::Call));
        events.extend(noted);
        events.extend(ended);
        Ok(events)
    }

    /// Merges only the keys whose value changes.
    fn merge(&self, entries: &JsonObject) -> Vec<TaskEvent> {
        let new = |(key, value): &(&str, &JsonText)| self.metadata().get(key) != Some(value);
        let changed: JsonObject =
            entries.iter().filter(new).map(|(key, value)| (key.to_owned(), value.clone())).collect();
        if changed.is_empty() { Vec::new() } else { vec![TaskEvent::MetadataMerged(changed)] }
    }
}

fn step(from: TaskState, to: TaskState) -> Decision {
    if from == to {
        return Ok(Vec::new());
    }
    if !from.can_become(to) {
        return Err(TaskRejection::InvalidTransition { from, to });
    }
    Ok(vec![TaskEvent::state_changed(from, to)])
}
