//! `open`: what an exported log holds, and the commands to go on with.

use taskreel_log::jsonl::JsonLines;
use taskreel_log::views::log_summary;

use crate::args::open::OpenArgs;
use crate::dirs::typed_with;
use crate::print::answer::Answer;
use crate::print::log_summary::log_summary as print;
use crate::print::problem::Problem;
use crate::print::screen::Screen;

pub(crate) fn open(args: &OpenArgs, screen: &mut Screen) -> Result<Answer, Problem> {
    let failed = |error| Problem::export(&error, &args.file);
    let (log, fault) = JsonLines::open_beginning(&args.file).map_err(failed)?;
    let summary = log_summary(&log)?;
    let typed = |command: &str| typed_with(command, "--file", &args.file);
    print(log.header(), &summary, fault.is_none(), &typed, screen)?;
    fault.map_or(Ok(Answer::Yes), |fault| Err(failed(fault)))
}
