//! Two runs compared step by step: messages, calls by tool and arguments, and the states where a run rests. Ids and times
//! do not count.

use std::collections::HashSet;
use std::ops::ControlFlow;

use proto_events::call::{Call, CallEvent, CallKind, CallStatus, Verdict};
use proto_events::codec::AnyEvent;
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonText, JsonValue};
use proto_events::model::{Message, TaskState};
use proto_events::task::{Task, TaskEvent};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::audit::json::{call_kind, number, object, text, text_or_null};
use crate::audit::words::{parts, status_text};
use crate::read::fold::fold_stream;
use crate::views::view::{EventRow, event_rows};

/// The largest table of pairs that is compared for the longest common sequence. Of longer runs, what lies between their
/// equal beginnings and ends is paired in order.
const PAIRS_MAX: usize = 4_000_000;

/// The shortest id of a run that is looked for inside texts.
const OWN_ID_BYTES_MIN: usize = 8;

/// The word that stands for an id of the run in arguments and results.
const OWN_ID: &str = "<id>";

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunStep {
    /// The version of its first event.
    pub version: Version,
    /// `message`, `state`, or the kind of the call.
    pub kind: &'static str,
    /// The tool, the model, the agent, the role of a message, or the state.
    pub target: String,
    /// The arguments of a call, or the words of a message, without ids of the run.
    pub args: String,
    /// The outcome of a call in words, without ids of the run; empty for other steps.
    pub outcome: String,
    /// The call's id.
    pub call_id: Option<String>,
}

impl RunStep {
    /// Whether both are the same step, whatever came of them.
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, &self.target, &self.args) == (other.kind, &other.target, &other.args)
    }

    /// Returns the step as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("version", number(self.version.0)),
            ("kind", text(self.kind)),
            ("target", text(&self.target)),
            ("args", text(&self.args)),
            ("outcome", text(&self.outcome)),
            ("call_id", text_or_null(self.call_id.as_deref())),
        ])
    }
}

/// A step of one run beside that of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlignedStep {
    /// A step of both runs, with the same outcome.
    Same(RunStep, RunStep),
    /// A step of both runs on the same target, with other arguments or another outcome.
    Changed(RunStep, RunStep),
    /// Only the first run has the step.
    First(RunStep),
    /// Only the second run has the step.
    Second(RunStep),
}

impl AlignedStep {
    /// Returns the word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Same(..) => "same",
            Self::Changed(..) => "changed",
            Self::First(_) => "first-only",
            Self::Second(_) => "second-only",
        }
    }

    /// Returns the step of the first run and that of the second.
    pub const fn sides(&self) -> (Option<&RunStep>, Option<&RunStep>) {
        match self {
            Self::Same(first, second) | Self::Changed(first, second) => (Some(first), Some(second)),
            Self::First(first) => (Some(first), None),
            Self::Second(second) => (None, Some(second)),
        }
    }
}

/// Returns the steps of a task, in their order.
///
/// # Errors
/// [`ReadError`] if its stream cannot be read.
pub fn run_steps(reader: &dyn EventReader, stream: &StreamId) -> Result<Vec<RunStep>, ReadError> {
    let task = fold_stream::<Task>(reader, stream, None)?.state;
    let mut reading = Reading { own: own_ids(&task, stream), task, steps: Vec::new() };
    for_each_page_of(reader, stream, Version(1), |page| {
        page.iter().flat_map(event_rows).for_each(|row| reading.take(&row));
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(reading.steps)
}

/// Returns the ids that differ between two runs of the same work: those of the task, of its calls and of its items.
fn own_ids(task: &Task, stream: &StreamId) -> HashSet<String> {
    let calls = task.calls().iter();
    let of_calls =
        calls.flat_map(|call| [call.request.call_id.clone(), call.request.idempotency_key.clone()]);
    let approvals = task.approvals().iter().map(|approval| approval.request.approval_id.clone());
    let items = task.messages().iter().filter_map(|message| message.id.clone());
    let all = of_calls.chain(approvals).chain(items).chain([stream.id(), stream.to_string()]);
    all.filter(|id| !id.is_empty()).collect()
}

struct Reading {
    task: Task,
    own: HashSet<String>,
    steps: Vec<RunStep>,
}

impl Reading {
    fn take(&mut self, row: &EventRow) {
        let Ok(AnyEvent::Task(event)) = &row.event else { return };
        match event {
            TaskEvent::Submitted(posted) => {
                posted.messages.iter().for_each(|message| self.message(row, message));
            }
            TaskEvent::MessageAppended(message) => self.message(row, message),
            TaskEvent::StateChanged { to, .. } if to.is_terminal() || *to == TaskState::InputRequired => {
                self.push(row, "state", to.as_str().to_owned(), String::new());
            }
            TaskEvent::Call(CallEvent::Requested(request)) => {
                let args = self.without_ids(&request.args);
                let outcome = self.task.calls().get(&request.call_id).map(|call| self.outcome(call));
                self.push(row, call_kind(request.kind), request.target.clone(), args);
                if let Some(step) = self.steps.last_mut() {
                    step.call_id = Some(request.call_id.clone());
                    step.outcome = outcome.unwrap_or_default();
                }
            }
            _ => {}
        }
    }

    fn message(&mut self, row: &EventRow, message: &Message) {
        let role = message.role.clone().unwrap_or_else(|| "nobody".to_owned());
        let said = self.without_own(parts(&message.parts));
        self.push(row, "message", role, said);
    }

    fn push(&mut self, row: &EventRow, kind: &'static str, target: String, args: String) {
        let version = row.version;
        self.steps.push(RunStep { version, kind, target, args, outcome: String::new(), call_id: None });
    }

    fn outcome(&self, call: &Call) -> String {
        let told = match &call.status {
            CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result))
                if call.request.kind == CallKind::Tool =>
            {
                format!("{}: {}", call.status.as_str(), self.without_ids(result))
            }
            _ => status_text(call),
        };
        self.without_own(told)
    }

    /// Returns a text without the run's own ids; an id as short as a word may be one.
    fn without_own(&self, text: String) -> String {
        let ids = self.own.iter().filter(|id| id.len() >= OWN_ID_BYTES_MIN);
        ids.fold(
            text,
            |text, id| if text.contains(id.as_str()) { text.replace(id.as_str(), OWN_ID) } else { text },
        )
    }

    /// Returns JSON in which each string that is an id of the run is replaced.
    fn without_ids(&self, json: &JsonText) -> String {
        let mut tree = json.tree();
        let mut todo = vec![&mut tree];
        while let Some(value) = todo.pop() {
            match value {
                JsonValue::String(said) if self.own.contains(said.as_str()) => {
                    *value = JsonValue::String(OWN_ID.to_owned());
                }
                JsonValue::Array(items) => todo.extend(items),
                JsonValue::Object(fields) => todo.extend(fields.values_mut()),
                _ => {}
            }
        }
        tree.to_string()
    }
}

/// Aligns the steps of two runs: equal steps in their order, as many as there can be, and between them steps on the same
/// target.
pub fn align_steps(first: &[RunStep], second: &[RunStep]) -> Vec<AlignedStep> {
    let is_like = |(a, b): &(&RunStep, &RunStep)| a.is_like(b);
    let before = first.iter().zip(second).take_while(is_like).count();
    let (rest, other) = (first.get(before..).unwrap_or_default(), second.get(before..).unwrap_or_default());
    let after = rest.iter().rev().zip(other.iter().rev()).take_while(is_like).count();
    let middle = (
        rest.get(..rest.len() - after).unwrap_or_default(),
        other.get(..other.len() - after).unwrap_or_default(),
    );
    let mut aligned: Vec<AlignedStep> =
        first.iter().zip(second).take(before).map(|(a, b)| pair(a, b)).collect();
    between(middle.0, middle.1, &mut aligned);
    let ends = rest.iter().skip(middle.0.len()).zip(other.iter().skip(middle.1.len()));
    aligned.extend(ends.map(|(a, b)| pair(a, b)));
    aligned
}

fn pair(first: &RunStep, second: &RunStep) -> AlignedStep {
    let same = first.is_like(second) && first.outcome == second.outcome;
    let (first, second) = (first.clone(), second.clone());
    if same { AlignedStep::Same(first, second) } else { AlignedStep::Changed(first, second) }
}

/// Aligns what lies between equal beginnings and ends.
fn between(first: &[RunStep], second: &[RunStep], aligned: &mut Vec<AlignedStep>) {
    let (mut a, mut b) = (0, 0);
    for (next_a, next_b) in common(first, second).into_iter().chain([(first.len(), second.len())]) {
        gap(first.get(a..next_a).unwrap_or_default(), second.get(b..next_b).unwrap_or_default(), aligned);
        if let (Some(one), Some(other)) = (first.get(next_a), second.get(next_b)) {
            aligned.push(pair(one, other));
        }
        (a, b) = (next_a + 1, next_b + 1);
    }
}

/// Returns the places of the longest common sequence of equal steps.
fn common(first: &[RunStep], second: &[RunStep]) -> Vec<(usize, usize)> {
    let width = second.len() + 1;
    if first.is_empty() || second.is_empty() || first.len().saturating_mul(width) > PAIRS_MAX {
        return Vec::new();
    }
    // The length of the longest common sequence of what begins at each pair of places.
    let mut longest = vec![0_u32; (first.len() + 1) * width];
    let at = |a: usize, b: usize| a * width + b;
    let of = |longest: &[u32], a: usize, b: usize| longest.get(at(a, b)).copied().unwrap_or_default();
    for (a, one) in first.iter().enumerate().rev() {
        for (b, other) in second.iter().enumerate().rev() {
            let length = if one.is_like(other) {
                of(&longest, a + 1, b + 1) + 1
            } else {
                of(&longest, a + 1, b).max(of(&longest, a, b + 1))
            };
            if let Some(place) = longest.get_mut(at(a, b)) {
                *place = length;
            }
        }
    }
    let (mut a, mut b, mut places) = (0, 0, Vec::new());
    while let (Some(one), Some(other)) = (first.get(a), second.get(b)) {
        if one.is_like(other) {
            places.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if of(&longest, a + 1, b) >= of(&longest, a, b + 1) {
            a += 1;
        } else {
            b += 1;
        }
    }
    places
}

/// Aligns steps of which none is equal: each with the next one on the same target, if there is one.
fn gap(first: &[RunStep], second: &[RunStep], aligned: &mut Vec<AlignedStep>) {
    let mut next = 0;
    for one in first {
        let rest = second.get(next..).unwrap_or_default();
        let found = rest.iter().position(|other| (one.kind, &one.target) == (other.kind, &other.target));
        match found {
            None => aligned.push(AlignedStep::First(one.clone())),
            Some(skipped) => {
                aligned.extend(rest.iter().take(skipped).cloned().map(AlignedStep::Second));
                aligned.extend(rest.get(skipped).map(|other| pair(one, other)));
                next += skipped + 1;
            }
        }
    }
    aligned.extend(second.iter().skip(next).cloned().map(AlignedStep::Second));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<RunStep> {
        let step = |word: &str| {
            let (call, outcome) = word.split_once('=').unwrap_or((word, ""));
            let (target, args) = call.split_once(':').unwrap_or((call, ""));
            RunStep {
                version: Version(1),
                kind: "tool",
                target: target.to_owned(),
                args: args.to_owned(),
                outcome: outcome.to_owned(),
                call_id: None,
            }
        };
        text.split_whitespace().map(step).collect()
    }

    fn aligned(first: &str, second: &str) -> String {
        let told = |step: &AlignedStep| {
            let name = |side: Option<&RunStep>| {
                side.map_or("-".to_owned(), |step| format!("{}:{}", step.target, step.args))
            };
            let (one, other) = step.sides();
            format!("{} {} {}", step.as_str(), name(one), name(other))
        };
        align_steps(&steps(first), &steps(second)).iter().map(told).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn equal_steps_are_found_where_others_stand_between_them() {
        assert_eq!(aligned("a:1 b:2", "a:1 b:2"), "same a:1 a:1; same b:2 b:2");
        assert_eq!(aligned("a:1 c:3", "a:1 b:2 c:3"), "same a:1 a:1; second-only - b:2; same c:3 c:3");
        assert_eq!(
            aligned("x:0 a:1 b:2 y:9", "a:1 z:5 b:2"),
            "first-only x:0 -; same a:1 a:1; second-only - z:5; same b:2 b:2; first-only y:9 -"
        );
        assert_eq!(aligned("", "a:1"), "second-only - a:1");
        assert_eq!(aligned("", ""), "");
    }

    #[test]
    fn other_arguments_or_another_outcome_are_a_change() {
        assert_eq!(
            aligned("a:1 pay:10 b:2", "a:1 pay:99 b:2"),
            "same a:1 a:1; changed pay:10 pay:99; same b:2 b:2"
        );
        assert_eq!(aligned("a:1=x", "a:1=y"), "changed a:1 a:1");
    }

    #[test]
    fn each_step_of_both_runs_stands_once_in_its_order() {
        for (first, second) in [("a b c a b d", "b a d c a"), ("a a a", "a"), ("a b", "b a b a")] {
            let aligned = align_steps(&steps(first), &steps(second));
            let side = |pick: fn(&AlignedStep) -> Option<&RunStep>| -> Vec<RunStep> {
                aligned.iter().filter_map(pick).cloned().collect()
            };
            assert_eq!(side(|step| step.sides().0), steps(first), "{first} {second}");
            assert_eq!(side(|step| step.sides().1), steps(second), "{first} {second}");
        }
    }
}
