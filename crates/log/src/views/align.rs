//! Two runs aligned step by step: equal steps in their order, and between them steps on the same target.

use std::collections::{HashMap, VecDeque};

use crate::views::common_steps::common;
use crate::views::steps::RunStep;

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
    /// Returns its name.
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

/// Aligns the steps of two runs: equal steps in their order, and between them steps on the same target. The equal steps are
/// as many as there can be, unless two long runs differ in much; then they are those between steps that each has once.
pub fn align_steps(first: &[RunStep], second: &[RunStep]) -> Vec<AlignedStep> {
    let (one, other) = numbered(first, second);
    let mut aligned = Vec::new();
    let (mut a, mut b) = (0, 0);
    for (next_a, next_b) in common(&one, &other).into_iter().chain([(first.len(), second.len())]) {
        let skipped = (first.get(a..next_a), second.get(b..next_b));
        gap(skipped.0.unwrap_or_default(), skipped.1.unwrap_or_default(), &mut aligned);
        if let (Some(one), Some(other)) = (first.get(next_a), second.get(next_b)) {
            aligned.push(pair(one, other));
        }
        (a, b) = (next_a + 1, next_b + 1);
    }
    aligned
}

fn pair(first: &RunStep, second: &RunStep) -> AlignedStep {
    let same = first.key() == second.key() && first.outcome == second.outcome;
    let (first, second) = (first.clone(), second.clone());
    if same { AlignedStep::Same(first, second) } else { AlignedStep::Changed(first, second) }
}

/// Returns a number for each step of both runs: steps that are the same, whatever came of them, have the same one.
fn numbered(first: &[RunStep], second: &[RunStep]) -> (Vec<usize>, Vec<usize>) {
    let mut known = HashMap::new();
    let mut number = |step| {
        let next = known.len();
        *known.entry(RunStep::key(step)).or_insert(next)
    };
    (first.iter().map(&mut number).collect(), second.iter().map(&mut number).collect())
}

/// Aligns steps of which none is equal: each with the next one on the same target, if there is one.
fn gap(first: &[RunStep], second: &[RunStep], aligned: &mut Vec<AlignedStep>) {
    let mut places: HashMap<(&str, &str), VecDeque<usize>> = HashMap::new();
    for (at, step) in second.iter().enumerate() {
        places.entry((step.kind, &step.target)).or_default().push_back(at);
    }
    let mut next = 0;
    for one in first {
        let of_target = places.get_mut(&(one.kind, one.target.as_str()));
        let found = of_target.and_then(|places| {
            while places.front().is_some_and(|at| *at < next) {
                places.pop_front();
            }
            places.pop_front()
        });
        match found {
            None => aligned.push(AlignedStep::First(one.clone())),
            Some(at) => {
                aligned.extend(second.iter().take(at).skip(next).cloned().map(AlignedStep::Second));
                aligned.extend(second.get(at).map(|other| pair(one, other)));
                next = at + 1;
            }
        }
    }
    aligned.extend(second.iter().skip(next).cloned().map(AlignedStep::Second));
}

#[cfg(test)]
mod tests {
    use proto_events::id::Version;

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

    /// Returns the numbers of steps that are the same, changed, and on one side only.
    fn counts(first: &str, second: &str) -> (usize, usize, usize) {
        let aligned = align_steps(&steps(first), &steps(second));
        let count = |word: &str| aligned.iter().filter(|step| step.as_str() == word).count();
        (count("same"), count("changed"), count("first-only") + count("second-only"))
    }

    #[test]
    fn in_long_runs_each_difference_is_one_change_and_all_between_them_stays_the_same() {
        // Steps that stand once, and a run in which none does.
        let unique: Vec<String> = (0..5_000).map(|number| format!("look:{number}")).collect();
        let repeated: Vec<String> =
            (0..5_000).map(|number| format!("look:{}", number * number % 7)).collect();
        for run in [unique, repeated] {
            let mut other = run.clone();
            other.insert(4_990, "new:1".to_owned());
            other[2_500] = "look:changed".to_owned();
            other.insert(3, "new:2".to_owned());
            let found = counts(&run.join(" "), &other.join(" "));
            assert_eq!(found, (4_999, 1, 2), "{:?}", run.first());
        }
    }

    #[test]
    fn long_runs_that_differ_in_much_are_aligned_at_the_steps_that_each_has_once() {
        let run = |odd: &str| {
            let step = |number: usize| {
                if number.is_multiple_of(3) { format!("look:{number}") } else { format!("{odd}:{number}") }
            };
            (0..6_000).map(step).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(counts(&run("a"), &run("b")), (2_000, 0, 8_000));
    }
}
