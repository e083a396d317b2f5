//! The time limit of a run, or its task's deadline, held against the time that passed: no correction of the clock lengthens it while one process
//! works, and only one that shows a later time shortens it.

use std::time::Duration;

use proto_events::decider::Decider;
use proto_events::envelope::{RecordedEvent, Timestamp};
use proto_events::model::BudgetLimit;
use proto_events::task::{Task, TaskEvent};

use crate::testing::system::ClockStep;

/// The difference of two times of one moment: an event has the time at which its command was decided.
const TOLERANCE: Duration = Duration::from_millis(50);

/// Returns the faults of a task's first run, as far as one process has carried it out.
pub(crate) fn faults(events: &[RecordedEvent<TaskEvent>], steps: &[ClockStep]) -> Vec<String> {
    let (mut task, mut began, mut faults) = (Task::default(), None, Vec::new());
    for recorded in events {
        let now = steady(recorded, steps);
        if let (1, Some(began), Some(limit)) = (task.runs(), began, limit(&task)) {
            let passed = now.since(began);
            let shown = task.run().map(|run| recorded.metadata.at.since(run.began)).unwrap_or_default();
            if task.run().is_some() && passed > limit + TOLERANCE {
                let event = &recorded.event;
                faults.push(format!("a run with {limit:?} goes on after {passed:?}: {event:?}"));
            }
            if let TaskEvent::StateChanged { budget: Some(over), .. } = &recorded.event
                && over.limit == BudgetLimit::RuntimeSeconds
                && passed.max(shown) + TOLERANCE < limit
            {
                faults.push(format!("a run with {limit:?} was out of time after {passed:?}"));
            }
        }
        let too_early = early_deadline(&task, began, recorded, now);
        task.evolve(&recorded.event, &recorded.metadata);
        if let Some(fault) =
            too_early.filter(|_| task.error().is_some_and(|error| error.contains("deadline")))
        {
            faults.push(fault);
        }
        if began.is_none() && task.run().is_some() {
            began = Some(now);
        }
    }
    faults
}

/// Returns the fault that it is if the task fails with this event because its deadline has passed.
fn early_deadline(
    task: &Task,
    began: Option<Timestamp>,
    recorded: &RecordedEvent<TaskEvent>,
    now: Timestamp,
) -> Option<String> {
    let (run, deadline) = (task.run().filter(|_| task.runs() == 1)?, deadline(task)?);
    let passed = now.since(began?).max(recorded.metadata.at.since(run.began));
    let is_early = passed + TOLERANCE < deadline.since(run.began);
    is_early.then(|| format!("a task due at {deadline} failed for it {passed:?} after it began"))
}

/// Returns the longest time for which the run may work.
fn limit(task: &Task) -> Option<Duration> {
    let seconds = task.run_budget()?.ok()?.max_runtime_seconds;
    let of_work = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let began = task.run().map(|run| run.began);
    let of_task = deadline(task).zip(began).map(|(deadline, began)| deadline.since(began));
    of_work.into_iter().chain(of_task).min()
}

fn deadline(task: &Task) -> Option<Timestamp> {
    task.run_budget()?.ok()?.deadline().ok()?
}

/// Returns an event's time without the corrections before it.
fn steady(recorded: &RecordedEvent<TaskEvent>, steps: &[ClockStep]) -> Timestamp {
    let before = steps.iter().filter(|(head, _)| *head < recorded.position);
    let off: i64 = before.map(|(_, millis)| millis * 1_000).sum();
    Timestamp(recorded.metadata.at.0.saturating_sub(off))
}
