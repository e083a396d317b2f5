//! The time that a run may take: a real deadline, not a figure that is looked at between two steps.

use std::time::Duration;

use proto_events::envelope::Timestamp;
use proto_events::json::JsonText;
use proto_events::task::Task;

use super::Question;
use crate::agent::budget::{Budget, BudgetUsage};

/// When the run's time is up, if its budget names one. A budget that cannot be read is refused where it is checked.
pub fn of_run(task: &Task) -> Option<Timestamp> {
    let run = task.run()?;
    let seconds = budget(task)?.max_runtime_seconds?;
    // More than fits is no limit.
    let limit = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
    Some(run.began.plus(limit))
}

/// The last moment at which an attempt of a call may start: its own, or the run's if that comes first.
pub(super) fn of_call(question: &Question<'_>, after: Option<Duration>) -> Option<Timestamp> {
    let own = after.map(|after| question.now.plus(after));
    own.into_iter().chain(question.run_until).min()
}

/// That the run has taken longer than it may, in Protolink's words.
pub(super) fn exceeded(question: &Question<'_>) -> Option<String> {
    let (run, until) = (question.task.run()?, question.run_until?);
    if question.now <= until {
        return None;
    }
    let used = BudgetUsage {
        runtime_seconds: question.now.since(run.began).as_secs_f64(),
        ..BudgetUsage::default()
    };
    budget(question.task)?.check(&used).err().map(|error| error.to_string())
}

fn budget(task: &Task) -> Option<Budget> {
    let context = task.metadata().get("run_context").map(JsonText::to_value)?;
    Budget::from_json(context.get("budget")?).ok()
}
