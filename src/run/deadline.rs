//! Deadlines of runs and calls. A run's deadline is a point in time, not a figure compared between two steps.

use std::time::Duration;

use proto_events::envelope::Timestamp;
use proto_events::model::{BudgetScope, BudgetUsage, LimitUse, RunBudget};
use proto_events::task::Task;

use crate::run::notes;
use crate::run::question::{Progress, Question};

/// Returns the deadline of the run: the task's, or the earlier moment at which the time that its budget grants is used up.
/// An unreadable budget is refused by the budget check.
pub(crate) fn of_run(task: &Task, scope: BudgetScope) -> Option<Timestamp> {
    of_work(task, scope).into_iter().chain(of_task(task)).min()
}

/// Returns the deadline of the task, which is the same for all its runs.
pub(crate) fn of_task(task: &Task) -> Option<Timestamp> {
    task.run_budget()?.ok()?.deadline().ok()?
}

/// Returns the moment at which the run has used up the time that its budget grants.
fn of_work(task: &Task, scope: BudgetScope) -> Option<Timestamp> {
    let run = task.run()?;
    let seconds = task.run_budget()?.ok()?.max_runtime_seconds?;
    // A duration too large to represent means no limit.
    let limit = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
    Some(run.began.plus(limit.saturating_sub(worked_before(task, scope))))
}

/// Returns the time that earlier runs took from the budget.
fn worked_before(task: &Task, scope: BudgetScope) -> Duration {
    if scope == BudgetScope::Task { task.worked() } else { Duration::ZERO }
}

/// Returns the last moment at which an attempt of a call may start: the earlier of the call's own deadline
/// and the run's.
pub(crate) fn of_call(question: &Question<'_>, after: Option<Duration>) -> Option<Timestamp> {
    let own = after.map(|after| question.steady.plus(after));
    own.into_iter().chain(question.run_until).min()
}

/// The time of a run is over.
#[derive(Debug)]
pub(crate) enum TimeOver {
    /// The time that the budget grants is used up.
    Budget(LimitUse),
    /// The task fails with this text: its deadline has passed, or cannot be read.
    Deadline(String),
}

impl TimeOver {
    /// Returns what this means for the part at which the run is.
    pub(crate) fn progress(self) -> Progress {
        match self {
            Self::Budget(over) => Progress::OverBudget(over),
            Self::Deadline(error) => Progress::Fatal(error),
        }
    }
}

/// Returns what the run has exceeded, if its time is over.
pub(crate) fn exceeded(question: &Question<'_>) -> Option<TimeOver> {
    if let Some(Err(error)) = question.task.run_budget()?.ok().map(RunBudget::deadline) {
        return Some(TimeOver::Deadline(format!("budget: {error}")));
    }
    if question.is_time_up { used_up(question) } else { None }
}

/// Returns what the run has come to by the clock, whether or not its timer has fired: a call that waits for a permit now
/// is not sent any more.
pub(crate) fn reached(question: &Question<'_>) -> Option<TimeOver> {
    let is_reached = question.run_until.is_some_and(|until| until <= question.steady);
    if is_reached { used_up(question) } else { None }
}

fn used_up(question: &Question<'_>) -> Option<TimeOver> {
    let (run, until) = (question.task.run()?, question.run_until?);
    if let Some(deadline) = of_task(question.task).filter(|deadline| *deadline <= until) {
        return Some(TimeOver::Deadline(notes::fatal_deadline(deadline)));
    }
    // The clock may have been set back while no process ran.
    let used = question.steady.since(run.began).max(until.since(run.began) + Duration::from_millis(1));
    let used = used + worked_before(question.task, question.agent.budget_scope);
    let used = BudgetUsage { runtime_seconds: used.as_secs_f64(), ..BudgetUsage::default() };
    question.task.run_budget()?.ok()?.check(&used).err().map(TimeOver::Budget)
}
