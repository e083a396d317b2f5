//! `event` and `prompt`: one event whole, and what a model was shown.

use taskreel_log::views::{resolve_call, whole_event};

use crate::args::Global;
use crate::args::inspect::{EventArgs, PromptArgs};
use crate::look::open_log::OpenLog;
use crate::print;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_UNKNOWN, Problem};
use crate::print::screen::Screen;
use crate::print::show::at_point;

pub(crate) fn event(args: &EventArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let stream = log.find(&args.id)?;
        let version = at_point(log.reader(), &stream, args.point)?;
        let found = whole_event(log.reader(), &stream, version)?.ok_or_else(|| {
            let what = format!("{stream} has no version {version}");
            let hint = "`taskreel events ID` lists the events";
            Problem::new(EXIT_UNKNOWN, what, "the stream ends before it", hint)
        })?;
        print::whole_event(&found, screen)
    })
}

pub(crate) fn prompt(args: &PromptArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let only = args.task.as_deref().map(|task| log.find(task)).transpose()?;
        let (stream, call_id) = resolve_call(log.reader(), only.as_ref(), &args.call)?;
        print::prompt(log.reader(), &stream, &call_id, screen)
    })
}
