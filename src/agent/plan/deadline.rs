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
    if !names_a_limit(task.metadata().get("run_context")?.as_str()) {
        return None;
    }
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

/// Whether a limit of time stands anywhere in the text: almost no run has one, and every run is asked.
fn names_a_limit(context: &str) -> bool {
    const KEY: &str = "\"max_runtime_seconds\"";
    let is_set = |(at, _): (usize, &str)| {
        let value = context.get(at + KEY.len()..).unwrap_or_default();
        let value = value.trim_start().strip_prefix(':').map(str::trim_start);
        value.is_none_or(|value| !value.starts_with("null"))
    };
    context.match_indices(KEY).any(is_set)
}

fn budget(task: &Task) -> Option<Budget> {
    let context = task.metadata().get("run_context").map(JsonText::to_value)?;
    Budget::from_json(context.get("budget")?).ok()
}

#[cfg(test)]
mod tests {
    use super::names_a_limit;

    #[test]
    fn a_limit_that_is_null_is_none_and_any_other_is_looked_at() {
        assert!(!names_a_limit(r#"{"budget": {"max_steps": 2}}"#));
        assert!(!names_a_limit(r#"{"budget": {"max_runtime_seconds": null}}"#));
        assert!(names_a_limit(r#"{"budget": {"max_runtime_seconds" : 2.5}}"#));
        assert!(names_a_limit(
            r#"{"x": {"max_runtime_seconds":null}, "budget": {"max_runtime_seconds": "3"}}"#
        ));
    }
}
