//! The decisions of people hold: a denied call is not made, an effect that a person found done is not made again, and a
//! finished task has no open call.

use std::collections::BTreeMap;

use proto_events::call::{CallEvent, CallRequested, Verdict, VerdictBy};
use proto_events::decider::Decider;
use proto_events::envelope::RecordedEvent;
use proto_events::task::{Task, TaskEvent};

use crate::testing::ledger::Execution;

/// Returns the faults of a task. `own` holds the executions of its calls.
pub(crate) fn faults(events: &[RecordedEvent<TaskEvent>], own: &[&Execution]) -> Vec<String> {
    let mut people = People::default();
    let mut task = Task::default();
    for recorded in events {
        people.accept_event(&task, &recorded.event);
        task.evolve(&recorded.event, &recorded.metadata);
    }
    people.denied(own);
    people.faults
}

#[derive(Default)]
struct People {
    /// The decision on each approval.
    decided: BTreeMap<String, bool>,
    /// The calls that were denied, by their ids.
    denied: Vec<String>,
    /// The calls of message parts whose effect a person found done.
    done: Vec<CallRequested>,
    faults: Vec<String>,
}

impl People {
    fn accept_event(&mut self, task: &Task, event: &TaskEvent) {
        match event {
            TaskEvent::ApprovalDecided(decided) => {
                let id = decided.approval_id.clone();
                if let Some(before) = self.decided.insert(id.clone(), decided.approved) {
                    let (before, now) = (word(before), word(decided.approved));
                    self.faults.push(format!("approval `{id}` was {before}, and then {now}"));
                }
                let approval = task.approvals().get(&id).filter(|_| !decided.approved);
                self.denied.extend(approval.map(|approval| approval.request.call_id.clone()));
            }
            TaskEvent::Call(CallEvent::Requested(request)) => self.requested(request),
            TaskEvent::Call(CallEvent::Dispatched { call_id, .. }) if self.denied.contains(call_id) => {
                self.faults.push(format!("call `{call_id}` was sent although it had been denied"));
            }
            TaskEvent::Call(CallEvent::Reconciled {
                call_id,
                verdict: Verdict::Landed(_),
                by: VerdictBy::Operator(_),
                ..
            }) => {
                let call = task.calls().get(call_id).filter(|call| call.request.origin.step == 0);
                self.done.extend(call.map(|call| call.request.clone()));
            }
            TaskEvent::StateChanged { to, .. } if to.is_terminal() => {
                for call in task.calls().open() {
                    let id = &call.request.call_id;
                    self.faults.push(format!("the task is over, and its call `{id}` is open"));
                }
            }
            _ => {}
        }
    }

    /// Checks that a part of a message is not carried out again after a person found its effect done.
    fn requested(&mut self, request: &CallRequested) {
        let is_same = |done: &&CallRequested| {
            let place = |request: &CallRequested| {
                (request.origin.step, request.origin.part_call_id.clone(), request.target.clone())
            };
            place(done) == place(request) && done.args == request.args
        };
        if let Some(done) = self.done.iter().find(is_same) {
            let (id, before) = (&request.call_id, &done.call_id);
            self.faults.push(format!("call `{id}` repeats `{before}`, whose effect a person found done"));
        }
    }

    fn denied(&mut self, own: &[&Execution]) {
        let denied = own.iter().filter(|execution| self.denied.contains(&execution.call_id));
        let text = |execution: &&Execution| {
            format!("call `{}` was executed although it had been denied", execution.call_id)
        };
        self.faults.extend(denied.copied().map(|execution| text(&execution)));
    }
}

fn word(approved: bool) -> &'static str {
    if approved { "approved" } else { "denied" }
}
