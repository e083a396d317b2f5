//! `diff`: two versions, or two runs aligned by step.

use std::path::Path;

use proto_events::id::{Category, StreamId};
use taskreel_log::api::EventReader;
use taskreel_log::views::{align_steps, compare_prompts, find, run_steps};

use crate::args::point::parse_point;
use crate::args::{DiffArgs, Global};
use crate::look::diff_versions;
use crate::look::open_log::{OpenLog, open_file};
use crate::print;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::print::screen::Screen;

/// Compares two points of a stream, or two runs if the second argument is not a point. A run whose id looks like a point is named by
/// its stream.
///
/// # Errors
/// [`Problem`] if a log cannot be read, or the reader of the output is gone.
pub(crate) fn diff(args: &DiffArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    match args.a.as_deref().map(|a| (a, parse_point(a).ok())) {
        None => diff_versions(args, None, global, screen),
        Some((_, Some(point))) => diff_versions(args, Some(point), global, screen),
        Some((second, None)) => diff_runs(args, second, global, screen),
    }
}

/// Compares the run `args.id` with the run `second`, which is in the other log if one is named.
///
/// # Errors
/// [`Problem`] if one of the two is not a task, a log cannot be read, or the reader of the output is gone.
fn diff_runs(args: &DiffArgs, second: &str, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    if args.patch || args.b.is_some() {
        return Err(Problem::new(
            EXIT_USAGE,
            "two runs are compared step by step",
            "neither versions nor a JSON Patch belong to such a comparison",
            "`taskreel diff A B` compares two runs, `taskreel diff ID VERSION VERSION` two versions of one",
        ));
    }
    OpenLog::show(&args.from, global, |log| {
        let other = args.with.as_deref().map(open_file).transpose()?;
        let reader = log.reader();
        let other = other.as_ref().map_or(reader, |other| other as &dyn EventReader);
        let streams = (find(reader, &args.id)?, find(other, second)?);
        for stream in [&streams.0, &streams.1] {
            if stream.category() != Some(Category::Task) {
                return Err(Problem::new(
                    EXIT_USAGE,
                    format!("{stream} has no steps"),
                    "only the runs of tasks are compared step by step",
                    "`taskreel ls` lists the tasks",
                ));
            }
        }
        let aligned = align_steps(&run_steps(reader, &streams.0)?, &run_steps(other, &streams.1)?);
        // Lines for programs have the same fields for every step.
        let prompts = if screen.json {
            Vec::new()
        } else {
            compare_prompts((reader, &streams.0), (other, &streams.1), &aligned)
        };
        // The same id may stand in both logs.
        let names = match &args.with {
            None => (streams.0.id(), streams.1.id()),
            Some(with) => {
                let name =
                    |stream: &StreamId, place: &Path| format!("{} of {}", stream.id(), place.display());
                (name(&streams.0, log.path()), name(&streams.1, with))
            }
        };
        print::steps((&streams.0, &streams.1), (&names.0, &names.1), (&aligned, &prompts), screen)
    })
}
