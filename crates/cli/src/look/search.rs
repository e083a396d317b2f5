//! `search`: a text in messages, arguments and results.

use taskreel_log::views::{Selection, pattern, pattern_of_text};

use crate::args::Global;
use crate::args::filters::KindsOf;
use crate::args::search::SearchArgs;
use crate::look::open_log::OpenLog;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::print::screen::Screen;
use crate::print::search::{SearchRequest, search as print};

pub(crate) fn search(args: &SearchArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    if args.asked.is_empty() {
        let why = "an empty text stands everywhere";
        return Err(Problem::new(
            EXIT_USAGE,
            "there is nothing to search for",
            why,
            "`taskreel events --all` lists all",
        ));
    }
    let asked = if args.regex { pattern(&args.asked, false) } else { pattern_of_text(&args.asked) };
    let asked = asked.map_err(|error| Problem::pattern(&error, &args.asked))?;
    let condition = args.only.over("taskreel.hit/1")?;
    let selection = Selection::new(args.filters.filter(KindsOf::Events)?);
    let (limit, is_counted) = (args.filters.limit(), args.count);
    OpenLog::show(&args.from, global, |log| {
        let of = args.id.as_deref().map(|id| log.find(id)).transpose()?;
        let next = log.typed("event");
        let wanted = SearchRequest { asked, selection, condition, limit, is_counted };
        print(log.reader(), of.as_ref(), wanted, &next, screen)
    })
}
