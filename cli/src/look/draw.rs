//! `trace`: a run as it came about.

use proto_events::id::{Category, StreamId};
use taskreel_log::views::trace as traced;

use crate::args::Global;
use crate::args::drawing::TraceArgs;
use crate::look::OpenLog;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::print::screen::Screen;
use crate::print::trace::{Shown, trace as print};

/// Refuses a stream that is no task.
fn task(stream: StreamId) -> Result<StreamId, Problem> {
    if stream.category() == Some(Category::Task) {
        return Ok(stream);
    }
    let why = "only tasks make calls";
    Err(Problem::new(EXIT_USAGE, format!("{stream} has no trace"), why, "`taskreel ls` lists the tasks"))
}

pub(crate) fn trace(args: &TraceArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let condition = args.only.over("taskreel.trace/1")?;
    let log = OpenLog::open(&args.from, global)?;
    let stream = log.find(&args.id).and_then(task)?;
    let shown = Shown {
        depth: args.depth,
        is_failed_only: args.failed_only,
        is_critical_only: args.critical_path,
        condition,
    };
    let next = log.typed("event");
    print(&traced(log.reader(), &stream)?, &shown, &next, screen)
}
