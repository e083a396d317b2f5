//! `tui`: the inspector for the terminal. It shows a log in a directory, behind a server or in an export, live or not.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | the state of the screen, without a terminal: keys and answers in, questions out |
//! | [`view`] | the screen drawn from the state |
//! | [`read`] | the answers, from the views that the command line prints |
//! | [`data`], [`ask`] | what is read, and the questions and answers |
//! | [`rows`], [`tree`], [`wrap`], [`line`], [`marks`] | rows of lists, contents and texts in rows, safe lines, marks and colours |
//! | [`run`], [`stage`] | the loop and its threads, the terminal; the end of the log is looked at by [`crate::watch`] |
//! | [`keys`], [`clipboard`], [`link`], [`browse`] | keys, OSC 52, addresses, the browser |

pub(crate) mod ask;
pub(crate) mod browse;
pub(crate) mod clipboard;
pub(crate) mod data;
pub(crate) mod keys;
pub(crate) mod line;
pub(crate) mod link;
pub(crate) mod marks;
pub(crate) mod model;
pub(crate) mod read;
pub(crate) mod rows;
pub(crate) mod run;
pub(crate) mod stage;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
pub(crate) mod view;
pub(crate) mod wrap;

use std::io::IsTerminal as _;
use std::sync::Arc;

use taskreel_log::api::EventReader;
use taskreel_log::jsonl::JsonLines;

use crate::args::Global;
use crate::args::inspect::TuiArgs;
use crate::opened_log::{LogLocation, OpenedLog};
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::print::screen::Screen;
use crate::tui::ask::Ask;
use crate::tui::marks::Marks;
use crate::tui::model::Model;
use crate::tui::model::parts::LogSource;

/// Shows the log until the user quits.
///
/// # Errors
/// [`Problem`] if stdin or stdout is not a terminal, the log cannot be read, or a signal ended it.
pub(crate) fn tui(args: &TuiArgs, global: &Global, screen: &Screen) -> Result<Answer, Problem> {
    let refused = |why: &str| {
        let hint =
            "`taskreel ls`, `show` and `events` print to a file or a pipe; `taskreel inspect` shows pages";
        Problem::new(EXIT_USAGE, "the terminal inspector cannot be shown", why, hint)
    };
    if screen.json {
        return Err(refused("it prints nothing for programs, and --json was given"));
    }
    if !screen.is_terminal() || !std::io::stdin().is_terminal() {
        return Err(refused("stdin and stdout are not both a terminal"));
    }
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        return Err(refused("TERM=dumb: this terminal cannot be drawn on"));
    }
    let opened = OpenedLog::new(&args.from, global)?;
    let other = args.with.as_deref().map(JsonLines::open).transpose();
    let other =
        other.map_err(|error| Problem::export(&error, args.with.as_deref().unwrap_or("".as_ref())))?;
    let other: Option<Arc<dyn EventReader>> = other.map(|log| Arc::new(log) as _);
    let marks = Marks { is_unicode: screen.is_unicode(), is_coloured: screen.is_coloured() };
    let source = LogSource {
        name: opened.name.clone(),
        used: opened.used,
        url: match &opened.place {
            LogLocation::Server(_) => Some(opened.name.clone()),
            LogLocation::Dir(..) | LogLocation::File(_) => None,
        },
        note: opened.note.clone(),
        other: args.with.as_ref().map(|path| path.display().to_string()),
        typed: Arc::clone(&opened.typed),
    };
    let mut model = Model::new((80, 24), marks, jiff::tz::TimeZone::system(), source);
    if let Some(id) = &args.id {
        model.ask(Ask::Find(id.clone(), args.at));
    }
    run::run(model, &opened, other.as_ref(), global)
}
