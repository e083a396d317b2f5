//! `trace`, `seq` and `graph`: a run as it came about.

use proto_events::id::{Category, StreamId};
use taskreel_log::views::{causes, sequence, trace as traced};

use crate::args::Global;
use crate::args::drawing::{GraphArgs, GraphFormat, SeqArgs, SeqFormat, TraceArgs};
use crate::look::OpenLog;
use crate::print::answer::Answer;
use crate::print::diagram;
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
    let log = OpenLog::open_beginning(&args.from, global)?;
    let stream = log.find(&args.id).and_then(task)?;
    let shown = Shown {
        depth: args.depth,
        is_failed_only: args.failed_only,
        is_critical_only: args.critical_path,
        condition,
    };
    let next = log.typed("event");
    let printed = print(&traced(log.reader(), &stream)?, &shown, &next, screen);
    log.end(printed)
}

pub(crate) fn seq(args: &SeqArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let log = OpenLog::open_beginning(&args.from, global)?;
    let stream = log.find(&args.id)?;
    let drawn = sequence(log.reader(), &stream)?;
    let width = diagram::width(args.width.width, screen);
    let printed = match args.format {
        _ if screen.json => diagram::sequence_lines(&stream, &drawn, screen),
        SeqFormat::Text => diagram::sequence(&drawn, width, screen),
        SeqFormat::Mermaid => diagram::whole(&taskreel_log::views::sequence_mermaid(&drawn), screen),
        SeqFormat::Svg => diagram::whole(
            &taskreel_log::views::sequence_svg(&drawn, width, &diagram::title(&stream)),
            screen,
        ),
    };
    log.end(printed)
}

pub(crate) fn graph(args: &GraphArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let log = OpenLog::open_beginning(&args.from, global)?;
    let stream = log.find(&args.id)?;
    let events = causes(log.reader(), &stream)?;
    let width = diagram::width(args.width.width, screen);
    let title = diagram::title(&stream);
    let printed = match args.format {
        _ if screen.json => diagram::causes_lines(&stream, &events, screen),
        GraphFormat::Text => diagram::causes(&events, width, screen),
        GraphFormat::Dot => diagram::whole(&taskreel_log::views::causes_dot(&events, &title), screen),
        GraphFormat::Mermaid => diagram::whole(&taskreel_log::views::causes_mermaid(&events), screen),
        GraphFormat::Svg => diagram::whole(&taskreel_log::views::causes_svg(&events, width, &title), screen),
    };
    log.end(printed)
}
