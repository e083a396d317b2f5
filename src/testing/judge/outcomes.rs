//! Outcomes out of nothing: an attempt of a tool that returned something was executed.

use std::collections::BTreeSet;

use proto_events::call::{CallEvent, CallKind, FailureClass};
use proto_events::decider::Decider;
use proto_events::envelope::RecordedEvent;
use proto_events::task::{Task, TaskEvent};

use crate::testing::ledger::Execution;

/// Returns the faults of a task. `own` holds the executions of its calls, before the cut and after it.
pub(crate) fn faults<'a>(
    events: &[RecordedEvent<TaskEvent>],
    own: impl Iterator<Item = &'a Execution>,
) -> Vec<String> {
    let executed: BTreeSet<_> =
        own.map(|execution| (execution.call_id.as_str(), execution.attempt)).collect();
    let (mut task, mut probed, mut faults) = (Task::default(), BTreeSet::new(), Vec::new());
    for recorded in events {
        if let TaskEvent::Call(event) = &recorded.event {
            if let CallEvent::Reconciled { call_id, .. } = event {
                probed.insert(call_id.as_str());
            }
            let call = task.calls().get(event.call_id());
            // The ledger has the executions of tools and handlers.
            let is_seen =
                call.is_some_and(|call| matches!(call.request.kind, CallKind::Tool | CallKind::Handler));
            let returned = returned(event).filter(|_| is_seen && !probed.contains(event.call_id()));
            if let Some(attempt) = returned.filter(|attempt| !executed.contains(&(event.call_id(), *attempt)))
            {
                let id = event.call_id();
                faults
                    .push(format!("attempt {attempt} of `{id}` returned, but was never executed: {event:?}"));
            }
        }
        task.evolve(&recorded.event, &recorded.metadata);
    }
    faults
}

/// Returns the attempt that returned something, as the event says.
fn returned(event: &CallEvent) -> Option<u32> {
    match event {
        CallEvent::Succeeded { attempt, .. } | CallEvent::Asked { attempt, .. } => Some(*attempt),
        CallEvent::Failed { attempt, failure, .. } | CallEvent::RetryScheduled { attempt, failure, .. }
            if failure.class == FailureClass::AfterEffect =>
        {
            Some(*attempt)
        }
        _ => None,
    }
}
