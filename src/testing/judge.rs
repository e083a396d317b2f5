//! Rule R7 as a table, and a log held against it. Written from the rule, not from the code that follows it: nothing in
//! here asks what recovery would do.

use std::collections::BTreeMap;

use proto_events::call::{CallEvent, CallRequested, CallStatus, CancelStage, Recovery, Verdict, VerdictBy};
use proto_events::decider::Decider;
use proto_events::envelope::Recorded;
use proto_events::id::{Position, StreamId};
use proto_events::model::TaskState;
use proto_events::task::{Task, TaskEvent};

mod follows;

use self::follows::Follows;
use super::ledger::Execution;
use crate::audit::for_each_record;
use crate::error::Error;
use crate::store::EventReader;
use crate::store::fold::decode_record;

/// A row of R7: where the log of a call ends when its process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// Intended, and never sent.
    RequestedOnly,
    /// Sent, without an outcome.
    InFlight,
    /// It has its outcome.
    OutcomePresent,
    /// Canceled while in flight: no matter of recovery, but a row all the same.
    CanceledInFlight,
}

/// How often each cell of R7's table was met, by row and recovery mode.
pub type Cells = BTreeMap<(Row, &'static str), usize>;

/// The events of all tasks, and what was found in them.
pub(super) struct Judge {
    tasks: BTreeMap<StreamId, Vec<Recorded<TaskEvent>>>,
    pub(super) faults: Vec<String>,
    pub(super) cells: Cells,
}

impl Judge {
    /// Reads a log.
    pub(super) fn of(log: &dyn EventReader) -> Result<Self, Error> {
        let mut tasks: BTreeMap<StreamId, Vec<Recorded<TaskEvent>>> = BTreeMap::new();
        for_each_record::<Error>(log, Position(1), |stored| {
            if stored.record.stream.category() == "task" {
                let events = decode_record::<TaskEvent>(stored)?;
                tasks.entry(stored.record.stream.clone()).or_default().extend(events);
            }
            Ok(())
        })?;
        Ok(Self { tasks, faults: Vec::new(), cells: Cells::new() })
    }

    /// What must be so in every log, wherever its processes died: nothing hangs, a cancel closes what is open, and what
    /// the world outside saw is what the log says.
    pub(super) fn at_rest(&mut self, ledger: &[Execution]) {
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
                self.fault(&stream, "it hangs: nothing moves any more, and its run has not ended");
            }
            let own = ledger.iter().filter(|execution| stream.id() == execution.task_id);
            for execution in own {
                self.execution(&stream, &task, &sent, execution);
            }
            self.tasks.insert(stream, events);
        }
        self.repeats(ledger);
    }

    /// What followed in a log that was cut behind this position, for each call that stood in it: R7's first three rows.
    /// `ledger` is what the world outside saw after the cut.
    pub(super) fn recovered(&mut self, cut: Position, ledger: &[Execution]) {
        for (stream, events) in std::mem::take(&mut self.tasks) {
            let mut before = Task::default();
            let (known, after): (Vec<_>, Vec<_>) =
                events.iter().partition(|recorded| recorded.position <= cut);
            for recorded in known {
                before.evolve(&recorded.event, &recorded.metadata);
            }
            for call in before.calls().iter() {
                let id = call.request.call_id.as_str();
                let of_call = |recorded: &&&Recorded<TaskEvent>| matches!(&recorded.event, TaskEvent::Call(event) if event.call_id() == id);
                let follows = Follows {
                    call,
                    events: after.iter().filter(of_call).copied().collect(),
                    executions: ledger.iter().filter(|execution| execution.call_id == id).collect(),
                    ends: ends(&after),
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

    /// Rule R11: a call that needed approval has it, for these very arguments, before it is intended.
    fn approved(&mut self, stream: &StreamId, task: &Task, request: &CallRequested) {
        let Some(id) = &request.approval else { return };
        let good = task.approvals().get(id).is_some_and(|approval| {
            approval.request.args_digest == request.args_digest
                && approval.verdict().is_some_and(|decided| decided.approved)
        });
        if !good {
            let text =
                format!("call `{}` is intended under an approval that it has not got", request.call_id);
            self.fault(stream, &text);
        }
    }

    /// R7's last row: all open calls are closed by the append that cancels.
    fn canceled(
        &mut self,
        stream: &StreamId,
        task: &Task,
        events: &[Recorded<TaskEvent>],
        cancel: &Recorded<TaskEvent>,
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
                self.fault(stream, &format!("call `{id}` was not closed by the cancel as its mode says"));
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
                self.fault(stream, &format!("call `{id}` went on after its task was canceled"));
            }
            if in_flight {
                let cell = (Row::CanceledInFlight, call.request.recovery.as_str());
                *self.cells.entry(cell).or_default() += 1;
            }
        }
    }

    /// What a target can tell about a call that was given up in flight is asked for, unless its process died.
    pub(super) fn evidence(&mut self) {
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
                self.fault(
                    &stream,
                    &format!("nobody asked what became of `{id}`, which was given up in flight"),
                );
            }
            self.tasks.insert(stream, events);
        }
    }

    /// Promise 2 and rule R3: what was carried out was on disk before, and is what the intent says.
    fn execution(
        &mut self,
        stream: &StreamId,
        task: &Task,
        sent: &BTreeMap<(String, u32), Position>,
        execution: &Execution,
    ) {
        let Execution { call_id, attempt, head, .. } = execution;
        let Some(call) = task.calls().get(call_id) else {
            return self.fault(stream, &format!("call `{call_id}` was carried out, but never intended"));
        };
        let request = &call.request;
        if request.args != execution.args || request.idempotency_key != execution.idempotency_key {
            let text =
                format!("attempt {attempt} of `{call_id}` was sent with other arguments or another key");
            self.fault(stream, &text);
        }
        if sent.get(&(call_id.clone(), *attempt)).is_none_or(|at| at > head) {
            let text = format!("attempt {attempt} of `{call_id}` was carried out before it was on disk");
            self.fault(stream, &text);
        }
    }

    /// The outside ledger alone: no attempt twice, and no second attempt of what may not be repeated.
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
                self.fault(&stream, &format!("an attempt of `{call_id}` was carried out twice"));
            }
            let absent = self.found_absent(&stream, call_id);
            let allowed = match call.recovery {
                Recovery::Manual => 1,
                Recovery::Reconcile => 1 + absent,
                _ => usize::try_from(call.max_attempts).unwrap_or(usize::MAX),
            };
            if times > allowed {
                let mode = call.recovery.as_str();
                let text =
                    format!("`{call_id}` ({mode}) was carried out {times} times; {allowed} are allowed");
                self.fault(&stream, &text);
            }
        }
    }

    /// The intent of a call, wherever it stands.
    fn call(&self, task_id: &str, call_id: &str) -> Option<(StreamId, CallRequested)> {
        self.tasks.iter().filter(|(stream, _)| stream.id() == task_id).find_map(|(stream, events)| {
            let request = events.iter().find_map(|recorded| match &recorded.event {
                TaskEvent::Call(CallEvent::Requested(request)) if request.call_id == call_id => Some(request),
                _ => None,
            });
            Some((stream.clone(), (**request?).clone()))
        })
    }

    /// How often the target said that an attempt had no effect.
    fn found_absent(&self, stream: &StreamId, call_id: &str) -> usize {
        let events = self.tasks.get(stream).into_iter().flatten();
        let absent = |recorded: &&Recorded<TaskEvent>| matches!(&recorded.event, TaskEvent::Call(CallEvent::Reconciled { call_id: id, verdict: Verdict::DidNotHappen, by: VerdictBy::Probe, .. }) if id == call_id);
        events.filter(absent).count()
    }

    fn fault(&mut self, stream: &StreamId, text: &str) {
        self.faults.push(format!("{stream}: {text}"));
    }
}

/// Whether two events of one stream were written together: then they have the same command and the same time.
fn same_append(one: &Recorded<TaskEvent>, other: &Recorded<TaskEvent>) -> bool {
    one.metadata.command_id == other.metadata.command_id && one.metadata.at == other.metadata.at
}

/// Where the task was given up or failed, if it was.
fn ends<'a>(events: &[&'a Recorded<TaskEvent>]) -> Option<&'a Recorded<TaskEvent>> {
    let end = |recorded: &&&Recorded<TaskEvent>| {
        matches!(recorded.event, TaskEvent::StateChanged { to: TaskState::Failed | TaskState::Canceled, .. })
    };
    events.iter().find(end).copied()
}

#[cfg(test)]
mod tests;
