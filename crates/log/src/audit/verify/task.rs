//! Checks a task: its lifecycle, and what its state allows to happen to its items, calls and approvals. The rules
//! are the rules of its commands: an event that no command could have led to is a fault.

use proto_events::call::{CallEvent, CallKind, CallRequested};
use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::{Digest, StreamId};
use proto_events::json::JsonObject;
use proto_events::model::{LimitUse, PostedTask, TaskState};
use proto_events::task::TaskEvent;

use crate::api::record::StoredRecord;
use crate::audit::verify::approvals::{ApprovalMoment, ApprovalsCheck, decider_fault};
use crate::audit::verify::asks::{AsksCheck, FilledMembers};
use crate::audit::verify::attempts::CallMoment;
use crate::audit::verify::calls::CallsCheck;
use crate::audit::verify::commands::CommandsCheck;
use crate::audit::verify::finding::FindingKind;
use crate::audit::verify::outcomes::{OutcomesCheck, StateChange};
use crate::audit::verify::pieces::PiecesCheck;
use crate::audit::verify::prompts::{PromptMessages, count_fault};
use crate::audit::verify::session::TurnCheck;
use crate::audit::verify::turn_messages::of_message;
use crate::audit::verify::webhooks::WebhooksCheck;
use crate::shown::hint_of;

/// A fault: its version, its kind and its words.
pub(crate) type FaultAt = (u64, FindingKind, String);

/// The record in which an event stands.
#[derive(Clone, Copy)]
pub(crate) struct EventPlace<'a> {
    pub(crate) stream: &'a StreamId,
    pub(crate) epoch: u64,
    pub(crate) at: Timestamp,
    pub(crate) version: u64,
    /// The person or program whose command the record is of.
    pub(crate) principal: &'a Principal,
    /// The id of this command.
    pub(crate) command: &'a str,
}

/// The facts of the open record that rules about a whole record need.
#[derive(Default)]
struct RecordFacts {
    /// The number of messages and artifacts.
    items: u32,
    /// The version of the request for the task's cancellation.
    cancel: Option<u64>,
    /// The version of a further request, of which nothing has followed yet.
    cancel_again: Option<u64>,
    /// The version of the change to `canceled`.
    canceled: Option<u64>,
}

/// A task as read so far.
#[derive(Default)]
pub(crate) struct TaskCheck {
    state: Option<TaskState>,
    runs: u32,
    calls: CallsCheck,
    asks: AsksCheck,
    outcomes: OutcomesCheck,
    approvals: ApprovalsCheck,
    turn: TurnCheck,
    sources: Vec<Digest>,
    pieces: PiecesCheck,
    webhooks: WebhooksCheck,
    record: RecordFacts,
    commands: CommandsCheck,
    hint: Option<String>,
    /// The session that the metadata name.
    session: Option<String>,
    /// The number of messages.
    messages: u64,
}

impl TaskCheck {
    /// Returns the state; `None` before the task was submitted.
    pub(crate) fn state(&self) -> Option<TaskState> {
        self.state
    }

    /// Returns the hint that the task's flow gives about the next step.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns the kind and target of a call.
    pub(crate) fn target(&self, call_id: &str) -> Option<(CallKind, &str)> {
        self.calls.target(call_id)
    }

    /// Returns what the intents of the newest record have that nobody asked for.
    pub(crate) fn filled_in(&self) -> &[FilledMembers] {
        self.asks.filled_in()
    }

    /// Returns the session that the task's metadata name.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Takes the beginning of a record.
    pub(crate) fn begin_record(&mut self) {
        self.asks.begin_record();
    }

    /// Takes the task's next event and adds its faults.
    pub(crate) fn accept_event(
        &mut self,
        place: EventPlace<'_>,
        event: &TaskEvent,
        faults: &mut Vec<FaultAt>,
    ) {
        self.commands.record(event);
        faults.extend(
            decider_fault(event, place.principal).map(|what| (place.version, FindingKind::Call, what)),
        );
        let mut lifecycle = |what: String| faults.push((place.version, FindingKind::Lifecycle, what));
        let Some(state) = self.state else {
            match event {
                TaskEvent::Submitted(posted) => {
                    if let Some(what) = self.submitted(posted, place.stream) {
                        lifecycle(what);
                    }
                }
                _ => lifecycle("the task has an event before it was submitted".to_owned()),
            }
            return;
        };
        match event {
            TaskEvent::Submitted(_) => lifecycle("the task was submitted twice".to_owned()),
            TaskEvent::StateChanged { from, to, budget } => {
                let change = StateChange { to: *to, version: place.version, command: place.command };
                self.outcomes.changed(change, self.asks.run());
                self.asks.end_run(to.is_terminal());
                if let Some(what) = self.changed(state, (*from, *to), budget.as_ref()) {
                    lifecycle(what);
                }
                self.begin_run(Some(*from));
                if *to == TaskState::Canceled {
                    self.record.canceled = Some(place.version);
                }
            }
            TaskEvent::PostedAgain { .. }
            | TaskEvent::MessageAppended(_)
            | TaskEvent::ArtifactAppended { .. }
            | TaskEvent::ArtifactPartAppended { .. }
            | TaskEvent::MetadataMerged(_)
            | TaskEvent::CancelRequested { .. }
            | TaskEvent::Webhook(_) => {
                if let Some(what) = self.added(state, event, place.version) {
                    lifecycle(what);
                }
            }
            TaskEvent::InferMessageAppended(message) => {
                let turn = |what: String| (place.version, FindingKind::Turn, what);
                if state != TaskState::Working {
                    faults.push(turn(format!("a message to the model was added while the task was {state}")));
                }
                if let Err(error) = self.turn.accept_message(message) {
                    faults.push(turn(error.to_string()));
                }
                let kind = |call_id: &str| self.calls.target(call_id).map(|(kind, _)| kind);
                faults.extend(of_message(message, place.stream, kind).into_iter().map(turn));
            }
            TaskEvent::ApprovalRequested(asked) => {
                let fault = self.approvals.accept_request(asked, self.approval_moment(state));
                let other = self.asks.approval(asked, place.version);
                faults.extend(
                    fault.into_iter().chain(other).map(|what| (place.version, FindingKind::Call, what)),
                );
            }
            TaskEvent::ApprovalDecided(decided) => {
                self.outcomes.decided(place.command);
                let is_made = |call_id: &str| self.calls.target(call_id).is_some();
                let fault = self.approvals.decided(decided, self.approval_moment(state), is_made);
                faults.extend(fault.map(|what| (place.version, FindingKind::Call, what)));
            }
            TaskEvent::Call(event) => self.call(place, state, event, faults),
        }
    }

    fn submitted(&mut self, posted: &PostedTask, stream: &StreamId) -> Option<String> {
        self.sources.extend(posted.source);
        self.hint = hint_of(&posted.flow_state);
        for artifact in &posted.artifacts {
            self.pieces.accept_whole(artifact);
        }
        self.messages = u64::try_from(posted.messages.len()).unwrap_or(u64::MAX);
        self.asks.posted(posted);
        self.metadata(&posted.metadata);
        self.enter(posted.state);
        self.begin_run(None);
        let id = &posted.id;
        (*id != stream.id()).then(|| format!("the task names itself `{id}`, but its stream is {stream}"))
    }

    /// Takes what a caller or a run adds to the task, and returns its fault.
    fn added(&mut self, state: TaskState, event: &TaskEvent, version: u64) -> Option<String> {
        match event {
            TaskEvent::PostedAgain { source } => self.posted_again(state, *source),
            TaskEvent::Webhook(event) => self.webhooks.accept_event(event, version),
            TaskEvent::MessageAppended(message) => {
                self.record.items += 1;
                self.asks.message(message, self.messages);
                self.outcomes.message();
                self.messages = self.messages.saturating_add(1);
                // A handler is shown what comes meanwhile, and may carry it out.
                let asks = message.role.as_deref() == Some("user")
                    && message.parts.iter().any(|part| part.kind() == "tool_call");
                let is_lost = asks && state == TaskState::Working && !self.calls.has_open_handler();
                is_lost.then(|| {
                    "a message asks for a tool call while the task works, which no run makes".to_owned()
                })
            }
            TaskEvent::ArtifactAppended { artifact, part } => {
                self.record.items += 1;
                let is_known = self.pieces.accept_whole(artifact);
                self.asks.artifact(artifact);
                if state.is_terminal() {
                    return Some(format!("an artifact was added although the task is {state}"));
                }
                let at = (*part)?;
                if state != TaskState::Working {
                    return Some(format!("an output was added while the task was {state}, outside a run"));
                }
                let output = self.outcomes.output(artifact, at, self.asks.run());
                output.or_else(|| {
                    is_known.then(|| format!("the output of part {at} has the id of another artifact"))
                })
            }
            TaskEvent::ArtifactPartAppended { artifact, is_last } => {
                self.record.items += 1;
                self.asks.piece();
                if state.is_terminal() {
                    return Some(format!("a piece of an artifact was added although the task is {state}"));
                }
                self.pieces.accept_piece(artifact, *is_last)
            }
            TaskEvent::MetadataMerged(entries) => {
                self.record.cancel_again = None;
                self.metadata(entries);
                entries.is_empty().then(|| "the metadata was changed, but no key was".to_owned())
            }
            TaskEvent::CancelRequested { .. } => {
                if matches!(state, TaskState::Completed | TaskState::Failed) {
                    return Some(format!("its cancellation was requested although the task is {state}"));
                }
                // A canceled task keeps what a second request adds to its metadata.
                if state == TaskState::Canceled {
                    self.record.cancel_again = Some(version);
                } else {
                    self.record.cancel = Some(version);
                }
                None
            }
            _ => None,
        }
    }

    /// Takes the end of a record and adds the faults that only the whole record shows.
    pub(crate) fn end_record(&mut self, stored: &StoredRecord, faults: &mut Vec<FaultAt>) {
        let calls = self.calls.end_record().into_iter();
        faults.extend(calls.map(|(version, what)| (version, FindingKind::Call, what)));
        let RecordFacts { cancel, cancel_again, canceled, .. } = std::mem::take(&mut self.record);
        let idle = cancel_again.map(|version| {
            let what = "its cancellation was requested again, which changed nothing".to_owned();
            (version, FindingKind::Lifecycle, what)
        });
        faults.extend(idle);
        let unpaired = match (cancel, canceled) {
            (Some(version), None) => Some((version, "its cancellation was requested, but did not follow")),
            (None, Some(version)) => Some((version, "it was canceled, but nobody had requested it")),
            _ => None,
        };
        faults.extend(unpaired.map(|(version, what)| (version, FindingKind::Lifecycle, what.to_owned())));
        let ended = self.outcomes.end_record();
        faults.extend(ended.map(|(version, what)| (version, FindingKind::Lifecycle, what)));
        let again = self.commands.end_record(stored);
        faults.extend(again.map(|what| (stored.record.first_version.0, FindingKind::Command, what)));
    }

    fn approval_moment(&self, state: TaskState) -> ApprovalMoment {
        ApprovalMoment { state, run: self.runs }
    }

    fn call(
        &mut self,
        place: EventPlace<'_>,
        state: TaskState,
        event: &CallEvent,
        faults: &mut Vec<FaultAt>,
    ) {
        let EventPlace { epoch, at, version, .. } = place;
        if let CallEvent::Requested(request) = event {
            let own = self.intended(request);
            faults.extend(own.into_iter().map(|(kind, what)| (version, kind, what)));
            let asked = self.asks.intended(request, (place.stream, version), self.messages);
            let again = self.outcomes.intended(request);
            let wrong = asked.into_iter().chain(again).chain(self.of_turn(request));
            faults.extend(wrong.map(|what| (version, FindingKind::Call, what)));
        }
        if matches!(event, CallEvent::Requested(_) | CallEvent::Dispatched { .. }) {
            let held = self.approvals.waiting_fault(self.runs, event.call_id());
            faults.extend(held.map(|what| (version, FindingKind::Call, what)));
        }
        let kind = self.calls.target(event.call_id()).map(|(kind, _)| kind);
        self.outcomes.happened(event, kind, self.asks.part_of(event.call_id()), place.command);
        self.asks.happened(event, kind);
        let now = CallMoment { state, run: self.runs, epoch, at, version };
        let found = self.calls.accept_event(event, now).into_iter();
        faults.extend(found.map(|(version, what)| (version, FindingKind::Call, what)));
    }

    fn intended(&mut self, request: &CallRequested) -> Vec<(FindingKind, String)> {
        let mut faults: Vec<_> =
            self.approvals.used(request).into_iter().map(|what| (FindingKind::Call, what)).collect();
        let open = self.turn.unanswered().filter(|_| request.kind == CallKind::Infer);
        faults.extend(open.map(|call| {
            let what = format!("an inference was intended while the tool call `{call}` has no answer");
            (FindingKind::Turn, what)
        }));
        let alone = request.prompt.as_ref().filter(|prompt| prompt.session.is_none());
        let there = self.turn.of_part(request.origin.part);
        let is_answer = |number| there.is_some_and(|messages| messages.is_answer(number));
        let count =
            alone.and_then(|prompt| count_fault(prompt, there.map_or(0, PromptMessages::count), &is_answer));
        faults.extend(count.map(|what| (FindingKind::Call, format!("call `{}` {what}", request.call_id))));
        faults
    }

    /// Returns the fault of a call that the model asked for in the task's own turn: its message names the call.
    fn of_turn(&self, request: &CallRequested) -> Option<String> {
        let asks = self
            .turn
            .asks()
            .filter(|_| request.origin.infer_call.is_some() && request.origin.parent.is_none())?;
        let (is_asked, id) = (asks.contains(&request.call_id), &request.call_id);
        (!is_asked).then(|| format!("call `{id}` was intended, but no message of the model asks for it"))
    }

    fn metadata(&mut self, entries: &JsonObject) {
        self.outcomes.metadata(entries);
        if let Some(named) = entries.get("session_id") {
            self.session = named.to_str().filter(|id| !id.is_empty());
        }
    }

    fn begin_run(&mut self, from: Option<TaskState>) {
        if self.state != Some(TaskState::Working) {
            return;
        }
        self.asks.begin_run();
        let kind = |call_id: &str| self.calls.target(call_id).map(|(kind, _)| kind);
        self.outcomes.begin_run(from == Some(TaskState::InputRequired), self.asks.run(), kind);
    }

    fn changed(
        &mut self,
        state: TaskState,
        (from, to): (TaskState, TaskState),
        over_budget: Option<&LimitUse>,
    ) -> Option<String> {
        let open = self.calls.first_open(to, from).map(str::to_owned);
        self.calls.state_changed();
        self.enter(to);
        if from != state {
            return Some(format!("{from} -> {to}, but the task was {state}"));
        }
        if !from.can_become(to) {
            return Some(format!("{from} -> {to} is not a transition of the lifecycle"));
        }
        if let Some(open) = open {
            return Some(format!("{from} -> {to}, but its call `{open}` has no outcome"));
        }
        let over = over_budget?;
        if to != TaskState::Failed {
            return Some(format!("{from} -> {to} names a limit that was exceeded, but only a failure does"));
        }
        // A figure that is not a number exceeds nothing.
        let is_over = over.used > over.allowed;
        (!is_over).then(|| format!("{from} -> {to} names a limit of the budget that was not exceeded"))
    }

    /// Enters a state: a run begins when the task becomes `working`, and its turn ends with it.
    fn enter(&mut self, state: TaskState) {
        self.state = Some(state);
        self.turn = TurnCheck::default();
        self.runs += u32::from(state == TaskState::Working);
    }

    fn posted_again(&mut self, state: TaskState, source: Digest) -> Option<String> {
        let known = self.sources.contains(&source);
        self.sources.push(source);
        if state == TaskState::Working {
            return Some("the task was posted again while it ran".to_owned());
        }
        if known {
            return Some("the task was posted again with the same text, which adds nothing".to_owned());
        }
        let empty = self.record.items == 0;
        empty.then(|| "the task was posted again, but its record has no new item".to_owned())
    }
}
