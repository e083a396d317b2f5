//! Rule R7 as a table, and a log held against it. Written from the rule, not from the code that follows it: nothing in
//! here asks what recovery would do.

use std::collections::BTreeMap;

use proto_events::call::{Call, CallEvent, CallKind, CallStatus, FailureClass, Recovery, Verdict, VerdictBy};
use proto_events::decider::Decider;
use proto_events::envelope::Recorded;
use proto_events::id::{Position, StreamId};
use proto_events::model::TaskState;
use proto_events::task::{Task, TaskEvent};

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
    fn call(&self, task_id: &str, call_id: &str) -> Option<(StreamId, proto_events::call::CallRequested)> {
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

/// What followed for one call after a cut.
struct Follows<'a> {
    call: &'a Call,
    events: Vec<&'a Recorded<TaskEvent>>,
    executions: Vec<&'a Execution>,
    /// Where its task was given up or failed.
    ends: Option<&'a Recorded<TaskEvent>>,
}

type Judged = Result<(), String>;

impl Follows<'_> {
    fn row(&self) -> Row {
        match self.call.status {
            CallStatus::Requested | CallStatus::Unsent => Row::RequestedOnly,
            CallStatus::Dispatched | CallStatus::TimedOut => Row::InFlight,
            _ => Row::OutcomePresent,
        }
    }

    fn event(&self, at: usize) -> Option<&CallEvent> {
        self.events.get(at).and_then(|recorded| match &recorded.event {
            TaskEvent::Call(event) => Some(event),
            _ => None,
        })
    }

    fn judge(&self, row: Row) -> Judged {
        if self.executions.iter().any(|execution| execution.attempt <= self.call.attempts) {
            return Err("an attempt that had been sent before was carried out".to_owned());
        }
        match row {
            Row::OutcomePresent | Row::CanceledInFlight => self.nothing(),
            // Its run may be over for a reason of its own before anything is sent.
            _ if self.given_up() => self.not_carried_out(),
            Row::RequestedOnly => self.sent(0),
            Row::InFlight => match self.call.request.recovery {
                Recovery::ReadOnly | Recovery::Reissue => self.sent(0),
                Recovery::Idempotent if self.within_window() => self.sent(0),
                Recovery::Idempotent | Recovery::Manual => self.unknown(0),
                Recovery::Reconcile => self.probed(),
            },
        }
    }

    /// Nothing, ever; but evidence may still come.
    fn nothing(&self) -> Judged {
        self.not_carried_out()?;
        let is_evidence = |at| {
            matches!(
                self.event(at),
                Some(
                    CallEvent::LateResultIgnored { .. }
                        | CallEvent::Reconciled { .. }
                        | CallEvent::Abandoned { .. }
                )
            )
        };
        match (0..self.events.len()).all(is_evidence) {
            true => Ok(()),
            false => Err("it had its outcome".to_owned()),
        }
    }

    fn not_carried_out(&self) -> Judged {
        match self.executions.first() {
            None => Ok(()),
            Some(execution) => Err(format!("it was carried out again, as attempt {}", execution.attempt)),
        }
    }

    /// The next attempt, or that there is none any more.
    fn sent(&self, at: usize) -> Judged {
        let next = self.call.attempts + 1;
        match self.event(at) {
            Some(CallEvent::Dispatched { attempt, .. }) if *attempt == next => self.carried_out(next, at + 1),
            Some(CallEvent::Failed { failure, .. }) => self.too_late(at, failure.class),
            _ => Err(format!("attempt {next} was due")),
        }
    }

    /// What was sent reached its tool, unless nobody let it.
    fn carried_out(&self, attempt: u32, after: usize) -> Judged {
        let refused = matches!(self.event(after), Some(CallEvent::Failed { failure, .. }) if failure.class == FailureClass::BeforeEffect)
            || matches!(self.event(after), Some(CallEvent::Dispatched { .. } | CallEvent::Canceled { .. }));
        let is_infer = self.call.request.kind == CallKind::Infer;
        if is_infer || refused || self.executions.iter().any(|execution| execution.attempt == attempt) {
            return Ok(());
        }
        Err(format!("attempt {attempt} was sent, but never carried out"))
    }

    /// Without another attempt only if none is left, or if it is past the call's deadline.
    fn too_late(&self, at: usize, class: FailureClass) -> Judged {
        let request = &self.call.request;
        let now = self.events.get(at).map(|recorded| recorded.metadata.at);
        let past = request.deadline.zip(now).is_some_and(|(deadline, now)| deadline <= now);
        let none_left = self.call.attempts >= request.max_attempts && class == FailureClass::Exhausted;
        if past || none_left {
            return self.not_carried_out();
        }
        Err("it was given up while another attempt was due".to_owned())
    }

    fn unknown(&self, at: usize) -> Judged {
        self.not_carried_out()?;
        match self.event(at) {
            Some(CallEvent::OutcomeUnknown { .. }) => Ok(()),
            _ => Err("its outcome is unknown, and that was not written".to_owned()),
        }
    }

    /// What the target says decides.
    fn probed(&self) -> Judged {
        match self.event(0) {
            Some(CallEvent::Reconciled { verdict, by: VerdictBy::Probe, .. }) => match verdict {
                Verdict::Landed(found) => {
                    self.not_carried_out()?;
                    match self.event(1) {
                        Some(CallEvent::Succeeded { result, .. }) if result == found => Ok(()),
                        _ => Err("it landed, and that is not its result".to_owned()),
                    }
                }
                Verdict::DidNotHappen => self.sent(1),
                Verdict::Inconclusive(_) => self.unknown(1),
            },
            _ => Err("its target was not asked".to_owned()),
        }
    }

    /// Whether the target still knew the key when something followed.
    fn within_window(&self) -> bool {
        let now = self.events.first().map(|recorded| recorded.metadata.at);
        match (self.call.request.window_ms, self.call.first_sent_at, now) {
            (Some(window), Some(first), Some(now)) => now.millis_since(first) < window,
            _ => true,
        }
    }

    /// Whether its task ended before anything followed for it: a run whose time was up, say.
    fn given_up(&self) -> bool {
        let closed = match self.event(0) {
            Some(CallEvent::Canceled { .. }) => true,
            Some(CallEvent::OutcomeUnknown { .. }) => self.call.request.recovery == Recovery::Manual,
            _ => false,
        };
        closed && self.ends.zip(self.events.first()).is_some_and(|(end, first)| same_append(first, end))
    }
}

#[cfg(test)]
mod tests;
