//! `trace`, `seq` and `graph`: a run as it came about.

use proto_events::id::{Category, StreamId};
use taskreel_log::views::{
    causes, causes_dot, causes_mermaid, causes_svg, sequence, sequence_mermaid, sequence_svg, trace as traced,
};

use crate::args::Global;
use crate::args::draw::{GraphArgs, GraphFormat, SeqArgs, SeqFormat, TraceArgs};
use crate::look::open_log::OpenLog;
use crate::print::answer::Answer;
use crate::print::diagram;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::print::screen::Screen;
use crate::print::trace::{TraceOptions, trace as print};

/// Refuses a stream that makes no calls.
fn task_or_session(stream: StreamId) -> Result<StreamId, Problem> {
    if matches!(stream.category(), Some(Category::Task | Category::Session)) {
        return Ok(stream);
    }
    let why = "only tasks and sessions make calls";
    Err(Problem::new(EXIT_USAGE, format!("{stream} has no trace"), why, "`taskreel ls` lists the tasks"))
}

pub(crate) fn trace(args: &TraceArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let shown = TraceOptions {
        depth: args.depth,
        is_failed_only: args.failed_only,
        is_critical_only: args.critical_path,
        condition: args.only.over("taskreel.trace/1")?,
    };
    OpenLog::show(&args.from, global, |log| {
        let (stream, then) = log.find_at(&args.id, args.point.at)?;
        let traced = traced(then.reader(), &task_or_session(stream)?)?;
        print(&traced, &shown, &log.typed("event"), screen)
    })
}

pub(crate) fn seq(args: &SeqArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let (stream, then) = log.find_at(&args.id, args.point.at)?;
        let drawn = sequence(then.reader(), &stream)?;
        let width = diagram::width(args.width.width, screen);
        match args.format {
            _ if screen.json => diagram::sequence_lines(&stream, &drawn, screen),
            SeqFormat::Text => diagram::sequence(&drawn, width, screen),
            SeqFormat::Mermaid => diagram::print_document(&sequence_mermaid(&drawn), screen),
            SeqFormat::Svg => {
                diagram::print_document(&sequence_svg(&drawn, width, &diagram::title(&stream)), screen)
            }
        }
    })
}

pub(crate) fn graph(args: &GraphArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let (stream, then) = log.find_at(&args.id, args.point.at)?;
        let events = causes(then.reader(), &stream)?;
        let (width, title) = (diagram::width(args.width.width, screen), diagram::title(&stream));
        match args.format {
            _ if screen.json => diagram::causes_lines(&stream, &events, screen),
            GraphFormat::Text => diagram::causes(&events, width, screen),
            GraphFormat::Dot => diagram::print_document(&causes_dot(&events, &title), screen),
            GraphFormat::Mermaid => diagram::print_document(&causes_mermaid(&events), screen),
            GraphFormat::Svg => diagram::print_document(&causes_svg(&events, width, &title), screen),
        }
    })
}
