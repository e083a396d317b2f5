//! `diff` of two runs: their steps side by side, aligned by tool and arguments.

use proto_events::id::StreamId;
use proto_events::json::JsonText;
use taskreel_log::audit::json::{number, object, text};
use taskreel_log::views::{AlignedStep, PromptPair, RunStep};

use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, count};

/// The numbers of steps: the same, changed, only in the first run, only in the second one.
#[derive(Default)]
struct Counts {
    same: u64,
    changed: u64,
    first: u64,
    second: u64,
}

impl Counts {
    fn from_steps(steps: &[AlignedStep]) -> Self {
        let mut counts = Self::default();
        for step in steps {
            match step {
                AlignedStep::Same(..) => counts.same += 1,
                AlignedStep::Changed(..) => counts.changed += 1,
                AlignedStep::First(_) => counts.first += 1,
                _ => counts.second += 1,
            }
        }
        counts
    }

    fn is_same(&self) -> bool {
        self.changed + self.first + self.second == 0
    }
}

/// Prints the aligned steps of two runs, and whether the model was shown the same, under these names; the answer is "no" if they differ.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn steps(
    (first, second): (&StreamId, &StreamId),
    names: (&str, &str),
    (steps, prompts): (&[AlignedStep], &[PromptPair]),
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let counts = Counts::from_steps(steps);
    if screen.json {
        for step in steps {
            screen.json_line(&step_json(step))?;
        }
        screen.json_line(&object([
            ("schema", text("taskreel.diff-runs/1")),
            ("first", text(first.as_str())),
            ("second", text(second.as_str())),
            ("same", number(counts.same)),
            ("changed", number(counts.changed)),
            ("first_only", number(counts.first)),
            ("second_only", number(counts.second)),
        ]))?;
    } else {
        let names = (screen.plain(names.0), screen.plain(names.1));
        let title = format!("{} beside {}", screen.bold(&names.0), screen.bold(&names.1));
        screen.line(&title)?;
        for (at, step) in steps.iter().enumerate() {
            print_step(step, screen)?;
            if let Some(pair) = prompts.iter().find(|pair| pair.step == at) {
                print_detail("      model    ", &pair.words(), screen)?;
            }
        }
        screen.line(&format!(
            "{} the same, {} changed, {} only in {}, {} only in {}",
            count(counts.same, "step is", "steps are"),
            counts.changed,
            counts.first,
            names.0,
            counts.second,
            names.1
        ))?;
    }
    screen.flush()?;
    Ok(if counts.is_same() { Answer::Yes } else { Answer::No })
}

fn step_json(step: &AlignedStep) -> JsonText {
    let side = |side: Option<&RunStep>| side.map_or_else(JsonText::null, RunStep::to_json);
    let (first, second) = step.sides();
    object([
        ("schema", text("taskreel.step/1")),
        ("change", text(step.as_str())),
        ("first", side(first)),
        ("second", side(second)),
    ])
}

fn print_step(step: &AlignedStep, screen: &mut Screen) -> Result<(), Problem> {
    let mark = match step {
        AlignedStep::Same(..) => '=',
        AlignedStep::Changed(..) => '~',
        AlignedStep::First(_) => '-',
        _ => '+',
    };
    let place = |side: Option<&RunStep>| side.map_or_else(String::new, |step| format!("v{}", step.version));
    let (first, second) = step.sides();
    let head = format!("{mark} {:<6} {:<6}", place(first), place(second));
    let Some(shown) = first.or(second) else { return Ok(()) };
    print_detail(&head, &request_text(shown), screen)?;
    match step {
        AlignedStep::Changed(first, second) => {
            if request_text(first) != request_text(second) {
                print_detail("      beside   ", &request_text(second), screen)?;
            }
            if first.outcome != second.outcome {
                print_detail("    - came to  ", &first.outcome, screen)?;
                print_detail("    + came to  ", &second.outcome, screen)?;
            } else if !first.outcome.is_empty() {
                print_detail("      came to  ", &first.outcome, screen)?;
            }
            Ok(())
        }
        _ if shown.outcome.is_empty() => Ok(()),
        _ => print_detail("      came to  ", &shown.outcome, screen),
    }
}

fn print_detail(head: &str, said: &str, screen: &mut Screen) -> Result<(), Problem> {
    let said = screen.fit(said, head.len() + 1);
    screen.line(format!("{head} {said}").trim_end())
}

fn request_text(step: &RunStep) -> String {
    format!("{} {} {}", step.kind, step.target, step.args)
}
