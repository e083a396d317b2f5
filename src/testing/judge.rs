//! Rule R7 as a table, and the check of a log against it. The table is written from the rule, not from the
//! code that implements it: nothing here calls the recovery code.

pub(crate) mod follows;
pub(crate) mod messages;
pub(crate) mod outcomes;
pub(crate) mod people;
pub(crate) mod row;
pub(crate) mod setting;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod time;

use std::collections::BTreeMap;

use proto_events::call::{
    Call, CallEvent, CallRequested, CallStatus, CancelStage, Recovery, Verdict, VerdictBy,
};
use proto_events::decider::Decider;
use proto_events::envelope::RecordedEvent;
use proto_events::id::{Category, Position, StreamId};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::TaskState;
use proto_events::session::SessionEvent;
use proto_events::task::{Task, TaskEvent, approved_args};
use taskreel_log::api::EventReader;
use taskreel_log::read::{decode_record, for_each_record};

use crate::error::Error;
use crate::testing::judge::follows::Follows;
use crate::testing::judge::messages::Shown;
use crate::testing::judge::row::{Cells, Row, same_append};
use crate::testing::judge::setting::Setting;
use crate::testing::ledger::Execution;
use crate::testing::system::ClockStep;

/// The events of all tasks, and the faults and cells found in them.
pub(crate) struct Judge {
    tasks: BTreeMap<StreamId, Vec<RecordedEvent<TaskEvent>>>,
    /// The messages of all conversations.
    shown: Shown,
    pub(crate) faults: Vec<String>,
    pub(crate) cells: Cells,
}

impl Judge {
    /// Reads a log.
    pub(crate) fn of(log: &dyn EventReader) -> Result<Self, Error> {
        let (mut tasks, mut shown) = (BTreeMap::<_, Vec<_>>::new(), Shown::new());
        for_each_record::<Error>(log, Position(1), |stored| {
            match stored.record.stream.category() {
                Some(Category::Task) => {
                    let events = decode_record::<TaskEvent>(stored)?;
                    tasks.entry(stored.record.stream.clone()).or_default().extend(events);
                }
                Some(Category::Session) => {
                    for recorded in decode_record::<SessionEvent>(stored)? {
                        if let SessionEvent::MessageAppended(message) = recorded.event {
                            shown.entry(message.message.id).or_insert(recorded.position);
                        }
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self { tasks, shown, faults: Vec::new(), cells: Cells::new() })
    }

    /// Checks the rules that hold for each log, wherever its processes died: no run hangs, a cancel closes
    /// open calls, and the executions seen outside match the log.
    pub(crate) fn is_idle(&mut self, ledger: &[Execution]) {
        for (stream, events) in std::mem::take(&mut self.tasks) {
            let mut task = Task::default();
            let mut sent: BTreeMap<(String, u32), Position> = BTreeMap::new();
            for recorded in &events {
                if let TaskEvent::Call(CallEvent::Dispatched { call_id, attempt, .. }) = &recorded.event {
                    sent.insert((call_id.clone(), *attempt), recorded.position);
                }
                if let TaskEvent::Call(CallEvent::Requested(request)) = &recorded.event {
                    self.approved(&stream, &task, request);
                }
                if let TaskEvent::CancelRequested { .. } = recorded.event {
                    self.canceled(&stream, &task, &events, recorded);
                }
                task.evolve(&recorded.event, &recorded.metadata);
            }
            if task.run().is_some() {
                self.fault(&stream, "the run hangs: no work is left, but it has not ended");
            }
            let own: Vec<_> = ledger.iter().filter(|execution| stream.id() == execution.task_id).collect();
            for execution in &own {
                self.execution(&stream, &task, &sent, execution);
            }
            let more = people::faults(&events, &own).into_iter();
            for fault in more.chain(messages::faults(&events, &self.shown)) {
                self.fault(&stream, &fault);
            }
            self.tasks.insert(stream, events);
        }
        self.repeats(ledger);
    }

    /// Checks what followed in a log that was cut after this position, for each call in it: R7's first three
    /// rows. `ledger` holds the executions after the cut.
    pub(crate) fn recovered(&mut self, cut: Position, ledger: &[Execution], setting: Setting) {
        for (stream, events) in std::mem::take(&mut self.tasks) {
            let mut before = Task::default();
            let (known, after): (Vec<_>, Vec<_>) =
                events.iter().partition(|recorded| recorded.position <= cut);
            let mut intents = BTreeMap::new();
            for recorded in known {
                if let TaskEvent::Call(CallEvent::Requested(request)) = &recorded.event {
                    intents.insert(request.call_id.clone(), recorded.position);
                }
                before.evolve(&recorded.event, &recorded.metadata);
            }
            for call in before.calls().iter() {
                let id = call.request.call_id.as_str();
                let of_call = |recorded: &&&RecordedEvent<TaskEvent>| matches!(&recorded.event, TaskEvent::Call(event) if event.call_id() == id);
                let follows = Follows {
                    call,
                    intended_at: intents.get(id).copied().unwrap_or_default(),
                    events: after.iter().filter(of_call).copied().collect(),
                    executions: executions_of(ledger, &stream, id),
                    ends: ends(&after),
                    parent_ends: call
                        .request
                        .origin
                        .parent
                        .as_ref()
                        .and_then(|parent| outcome(&after, &parent.call_id)),
                    taken_over: is_taken_over(call, &after),
                    setting,
                };
                let row = follows.row();
                *self.cells.entry((row, call.request.recovery.as_str())).or_default() += 1;
                if let Err(fault) = follows.judge(row) {
                    let (mode, status) = (call.request.recovery.as_str(), call.status.as_str());
                    let events: Vec<_> = follows.events.iter().map(|recorded| &recorded.event).collect();
                    let text = format!("call `{id}` ({mode}, {status} at the cut): {fault}; then {events:?}");
                    self.fault(&stream, &text);
                }
            }
            self.tasks.insert(stream, events);
        }
    }

    /// Checks that each attempt of a tool that returned something was executed. This holds unless the clock panicked,
    /// before an attempt came to its tool.
    pub(crate) fn outcomes(&mut self, ledger: &[Execution]) {
        let faults = self.tasks.iter().flat_map(|(stream, events)| {
            let own = ledger.iter().filter(|execution| stream.id() == execution.task_id);
            outcomes::faults(events, own).into_iter().map(move |fault| format!("{stream}: {fault}"))
        });
        self.faults.extend(faults);
    }

    /// Checks the time limits of runs against the time that passed, with these corrections of the clock. This holds only
    /// if the process did not die.
    pub(crate) fn time_limits(&mut self, steps: &[ClockStep]) {
        let faults = self.tasks.iter().flat_map(|(stream, events)| {
            time::faults(events, steps).into_iter().map(move |fault| format!("{stream}: {fault}"))
        });
        self.faults.extend(faults);
    }

    /// Checks rule R11: a call that needed approval has it, for exactly these arguments, before its intent.
    fn approved(&mut self, stream: &StreamId, task: &Task, request: &CallRequested) {
        let Some(id) = &request.approval else { return };
        let good = task.approvals().get(id).is_some_and(|approval| {
            approval.request.args == *approved_args(request)
                && approval.verdict().is_some_and(|decided| decided.approved)
        });
        if !good {
            let text =
                format!("call `{}` was requested under an approval that was not granted", request.call_id);
            self.fault(stream, &text);
        }
    }

    /// Checks R7's last row: all open calls are closed by the append that cancels.
    fn canceled(
        &mut self,
        stream: &StreamId,
        task: &Task,
        events: &[RecordedEvent<TaskEvent>],
        cancel: &RecordedEvent<TaskEvent>,
    ) {
        for call in task.calls().open() {
            let id = call.request.call_id.as_str();
            let about = events.iter().filter(|recorded| recorded.position > cancel.position);
            let mut about = about.filter_map(|recorded| match &recorded.event {
                TaskEvent::Call(event) if event.call_id() == id => Some((event, recorded)),
                _ => None,
            });
            let in_flight = matches!(call.status, CallStatus::Dispatched | CallStatus::TimedOut);
            let unknown = in_flight && call.request.recovery == Recovery::Manual;
            let closed = match about.next() {
                Some((CallEvent::OutcomeUnknown { .. }, at)) => unknown && same_append(at, cancel),
                Some((CallEvent::Canceled { .. }, at)) => !unknown && same_append(at, cancel),
                _ => false,
            };
            if !closed {
                self.fault(
                    stream,
                    &format!("call `{id}` was not closed by the cancellation as its recovery mode requires"),
                );
            }
            let late = |(event, _): (&CallEvent, _)| {
                matches!(
                    event,
                    CallEvent::LateResultIgnored { .. }
                        | CallEvent::Reconciled { .. }
                        | CallEvent::Abandoned { .. }
                )
            };
            if !about.all(late) {
                self.fault(stream, &format!("call `{id}` continued after its task was canceled"));
            }
            if in_flight {
                let cell = (Row::CanceledInFlight, call.request.recovery.as_str());
                *self.cells.entry(cell).or_default() += 1;
            }
        }
    }

    /// Checks that the target is asked about each reconcilable call that was canceled in flight. This holds
    /// only if the process did not die.
    pub(crate) fn evidence(&mut self) {
        for (stream, events) in std::mem::take(&mut self.tasks) {
            let mut task = Task::default();
            let mut asked: BTreeMap<&str, bool> = BTreeMap::new();
            for recorded in &events {
                match &recorded.event {
                    TaskEvent::Call(CallEvent::Canceled { call_id, stage: CancelStage::InFlight }) => {
                        let call = task.calls().get(call_id);
                        if call.is_some_and(|call| call.request.recovery == Recovery::Reconcile) {
                            asked.insert(call_id, false);
                        }
                    }
                    TaskEvent::Call(CallEvent::Reconciled { call_id, .. }) => {
                        asked.entry(call_id).and_modify(|asked| *asked = true);
                    }
                    _ => {}
                }
                task.evolve(&recorded.event, &recorded.metadata);
            }
            for (id, _) in asked.into_iter().filter(|(_, asked)| !asked) {
                self.fault(&stream, &format!("`{id}` was canceled in flight, but was not probed"));
            }
            self.tasks.insert(stream, events);
        }
    }

    /// Checks promise 2 and rule R3: an execution's dispatch was on disk before it, and its arguments and key
    /// are the intent's.
    fn execution(
        &mut self,
        stream: &StreamId,
        task: &Task,
        sent: &BTreeMap<(String, u32), Position>,
        execution: &Execution,
    ) {
        let Execution { call_id, attempt, head, .. } = execution;
        let Some(call) = task.calls().get(call_id) else {
            return self.fault(stream, &format!("call `{call_id}` was executed without an intent"));
        };
        let request = &call.request;
        if in_clear(request, &request.args) != in_clear(request, &execution.args)
            || request.idempotency_key != execution.idempotency_key
        {
            let text = format!(
                "attempt {attempt} of `{call_id}` was executed with other arguments or another idempotency key"
            );
            self.fault(stream, &text);
        }
        if sent.get(&(call_id.clone(), *attempt)).is_none_or(|at| at > head) {
            let text =
                format!("attempt {attempt} of `{call_id}` was executed before its dispatch was on disk");
            self.fault(stream, &text);
        }
    }

    /// Checks the ledger alone: no attempt twice, and no second attempt of a call that may not be repeated.
    fn repeats(&mut self, ledger: &[Execution]) {
        let mut seen: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
        for execution in ledger {
            let key = (execution.task_id.as_str(), execution.call_id.as_str());
            seen.entry(key).or_default().push(execution.attempt);
        }
        for ((task_id, call_id), mut attempts) in seen {
            let Some((stream, call)) = self.call(task_id, call_id) else { continue };
            let times = attempts.len();
            attempts.sort_unstable();
            attempts.dedup();
            if attempts.len() < times {
                self.fault(&stream, &format!("an attempt of `{call_id}` was executed twice"));
            }
            let absent = self.found_absent(&stream, call_id);
            let asked = self.questions(&stream, call_id);
            let allowed = asked
                + match call.recovery {
                    Recovery::Manual => 1,
                    Recovery::Reconcile => 1 + absent,
                    _ => usize::try_from(call.max_attempts).unwrap_or(usize::MAX),
                };
            if times > allowed {
                let mode = call.recovery.as_str();
                let text =
                    format!("`{call_id}` ({mode}) was executed {times} times; at most {allowed} are allowed");
                self.fault(&stream, &text);
            }
        }
    }

    /// Returns the stream and the intent of a call.
    fn call(&self, task_id: &str, call_id: &str) -> Option<(StreamId, CallRequested)> {
        self.tasks.iter().filter(|(stream, _)| stream.id() == task_id).find_map(|(stream, events)| {
            let request = events.iter().find_map(|recorded| match &recorded.event {
                TaskEvent::Call(CallEvent::Requested(request)) if request.call_id == call_id => Some(request),
                _ => None,
            });
            Some((stream.clone(), (**request?).clone()))
        })
    }

    /// Returns the number of attempts that ended with a question to a person.
    fn questions(&self, stream: &StreamId, call_id: &str) -> usize {
        let of_call = |recorded: &&RecordedEvent<TaskEvent>| matches!(&recorded.event, TaskEvent::Call(CallEvent::Asked { call_id: id, .. }) if id == call_id);
        self.tasks.get(stream).map_or(0, |events| events.iter().filter(of_call).count())
    }

    /// Returns the number of times that a probe found an attempt to have had no effect.
    fn found_absent(&self, stream: &StreamId, call_id: &str) -> usize {
        let events = self.tasks.get(stream).into_iter().flatten();
        let absent = |recorded: &&RecordedEvent<TaskEvent>| matches!(&recorded.event, TaskEvent::Call(CallEvent::Reconciled { call_id: id, verdict: Verdict::DidNotHappen, by: VerdictBy::Probe, .. }) if id == call_id);
        events.filter(absent).count()
    }

    fn fault(&mut self, stream: &StreamId, text: &str) {
        self.faults.push(format!("{stream}: {text}"));
    }
}

/// Returns the arguments without those that are secret: the tool gets the values, the log has references.
fn in_clear(request: &CallRequested, args: &JsonText) -> JsonText {
    if request.secrets.is_empty() {
        return args.clone();
    }
    let mut fields: JsonObject = args.read().unwrap_or_default();
    for name in &request.secrets {
        fields.remove(name);
    }
    fields.to_text()
}

fn executions_of<'a>(ledger: &'a [Execution], stream: &StreamId, call_id: &str) -> Vec<&'a Execution> {
    let own = |execution: &&Execution| execution.call_id == call_id && execution.task_id == stream.id();
    ledger.iter().filter(own).collect()
}

/// Returns the event at which the task was canceled or failed, if it was.
fn ends<'a>(events: &[&'a RecordedEvent<TaskEvent>]) -> Option<&'a RecordedEvent<TaskEvent>> {
    let end = |recorded: &&&RecordedEvent<TaskEvent>| {
        matches!(recorded.event, TaskEvent::StateChanged { to: TaskState::Failed | TaskState::Canceled, .. })
    };
    events.iter().find(end).copied()
}

/// Returns the outcome of a call, if it has one.
fn outcome<'a>(events: &[&'a RecordedEvent<TaskEvent>], id: &str) -> Option<&'a RecordedEvent<TaskEvent>> {
    let is_outcome = |event: &CallEvent| {
        matches!(
            event,
            CallEvent::Succeeded { .. }
                | CallEvent::Failed { .. }
                | CallEvent::Canceled { .. }
                | CallEvent::OutcomeUnknown { .. }
        )
    };
    let its = |recorded: &&&RecordedEvent<TaskEvent>| matches!(&recorded.event, TaskEvent::Call(event) if event.call_id() == id && is_outcome(event));
    events.iter().find(its).copied()
}

/// Whether another inference was intended at the place of this one, or its run ended.
fn is_taken_over(call: &Call, after: &[&RecordedEvent<TaskEvent>]) -> bool {
    let place = |request: &CallRequested| (request.kind, request.origin.run, request.origin.part);
    let is_other = |recorded: &&RecordedEvent<TaskEvent>| matches!(&recorded.event, TaskEvent::Call(CallEvent::Requested(request)) if place(request) == place(&call.request));
    let has_ended = |recorded: &&RecordedEvent<TaskEvent>| matches!(&recorded.event, TaskEvent::StateChanged { to, .. } if *to != TaskState::Working);
    after.iter().any(|recorded| is_other(recorded) || has_ended(recorded))
}
