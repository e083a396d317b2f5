//! The commands that only read: they open the log without a trace, find the stream and print it.

pub(crate) mod artifact;
mod at_server;
pub(crate) mod attention;
pub(crate) mod draw;
#[cfg(unix)]
pub(crate) mod follow;
#[cfg(unix)]
mod follow_server;
#[cfg(test)]
#[cfg(unix)]
mod follow_tests;
pub(crate) mod inspect;
pub(crate) mod open;
mod open_log;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod transcript;

use std::path::{Path, PathBuf};

use taskreel::files::{LocalFileStore, StoredFiles};
use taskreel_log::api::EventReader;
use taskreel_log::artifacts::KeptFiles;
use taskreel_log::audit::{Scope, VerifyReport, verify_extract};
use taskreel_log::jsonl::JsonLines;
use taskreel_log::sled::{Head, SledDamaged};
use taskreel_log::views::{Point, Selection, find};

use crate::args::condition::WhereArgs;
use crate::args::filters::{FilterArgs, KindsOf};
use crate::args::read::{
    CallsArgs, EventsArgs, ExportArgs, LsArgs, ReplayArgs, ShowArgs, StateArgs, StatsArgs,
};
use crate::args::{DiffArgs, ExplainArgs, Global, VerifyArgs};
use crate::look::open_log::{OpenLog, open_file};
use crate::print::answer::Answer;
use crate::print::events::{EventLines, EventsOf};
use crate::print::list::ListOptions;
use crate::print::problem::{EXIT_LOG, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};
use crate::print::{audit, compare, list};
use crate::{dirs, print};

pub(crate) fn ls(args: &LsArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let line = match (args.sessions, args.tools) {
        (true, _) => "taskreel.session/1",
        (_, true) => "taskreel.tool/1",
        _ => "taskreel.task/1",
    };
    let only = args.only.over(line)?;
    OpenLog::show(&args.from, global, |log| {
        let next = log.typed("show");
        let options = ListOptions { states: args.state.clone(), only, limit: args.limit, next };
        let then = log.at_point(args.point.at)?;
        if args.sessions {
            list::sessions(then.reader(), &options, screen)
        } else if args.tools {
            list::tools(then.reader(), &options, screen)
        } else {
            list::tasks(then.reader(), &options, screen)
        }
    })
}

pub(crate) fn show(args: &ShowArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let next = format!("{} {}", log.typed("events"), args.id);
        let (stream, then) = log.find_at(&args.id, args.point.at)?;
        print::show(then.reader(), &stream, &next, screen)
    })
}

pub(crate) fn events(args: &EventsArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let filters = &args.filters;
    let selection = selection(filters, &args.only)?;
    OpenLog::show(&args.from, global, |log| {
        let (of, then) = match &args.id {
            None => (EventsOf::All, log.at_point(args.point.at)?),
            Some(id) => {
                let (stream, then) = log.find_at(id, args.point.at)?;
                (EventsOf::Stream(stream), then)
            }
        };
        // Lines for people say what only earlier events tell.
        let is_by_itself = screen.json && args.point.at.is_none() && !selection.needs_order();
        let mut lines = EventLines::for_events(&of, selection, filters.limit());
        if let (OpenLog::Server { log, .. }, Some(condition), true) =
            (log, &args.only.condition, is_by_itself)
            && at_server::print_where(log, &of, condition, &mut lines, screen)?
        {
            return print::end_of_events(&mut lines, screen);
        }
        print::events(then.reader(), &of, &mut lines, screen)
    })
}

pub(crate) fn state(args: &StateArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let (stream, then) = log.find_at(&args.id, args.point.at)?;
        print::state(then.reader(), &stream, screen)
    })
}

pub(crate) fn replay(args: &ReplayArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let only = args.id.as_deref().map(|id| log.find(id)).transpose()?;
        audit::replay(log.reader(), only.as_ref(), screen)
    })
}

/// Returns the events that are taken.
fn selection(filters: &FilterArgs, only: &WhereArgs) -> Result<Selection, Problem> {
    let condition = only.over("taskreel.event/1")?;
    Ok(Selection::new(filters.filter(KindsOf::Events)?).with_condition(condition))
}

/// Opens the file stores in folders for reading, if there are any, in both layouts: nothing in a log says which one a program has.
fn file_stores(dirs: &[PathBuf]) -> Result<Option<StoredFiles>, Problem> {
    let mut stores = Vec::new();
    for dir in dirs {
        let store = LocalFileStore::existing(dir).map_err(|error| {
            let what = format!("cannot look at the file store in {}", dir.display());
            Problem::new(
                EXIT_USAGE,
                what,
                error.to_string(),
                "give the folder that the program keeps its files in",
            )
        })?;
        stores.extend([store.clone(), store.layout_of_0_2_0()]);
    }
    Ok((!stores.is_empty()).then(|| StoredFiles::new(stores)))
}

pub(crate) fn verify(args: &VerifyArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let stores = file_stores(&args.files)?;
    let files = stores.as_ref().map(|stores| stores as &dyn KeptFiles);
    if let Some(path) = &args.from.file {
        if let Some(found) = verify_extract(path).map_err(|error| Problem::export(&error, path))? {
            return print_extract(&found, args, screen);
        }
        // Damage is to be listed, not refused.
        let log = JsonLines::open_damaged(path).map_err(|error| Problem::export(&error, path))?;
        let only = args.id.as_deref().map(|id| find(&log, id)).transpose()?;
        let scope =
            Scope { only: only.as_ref(), root: args.root, file: Some(&log), files, ..Scope::default() };
        return audit::verify_log(&log, &scope, screen);
    }
    if args.from.server.url.is_some() {
        let log = OpenLog::open_whole(&args.from, global)?;
        let only = args.id.as_deref().map(|id| log.find(id)).transpose()?;
        let head = log.head();
        let scope = Scope { only: only.as_ref(), head, root: args.root, files, ..Scope::default() };
        return audit::verify_log(log.reader(), &scope, screen);
    }
    let dir = dirs::to_read(global);
    // Read first: a program that has the log open may rewrite it at any time.
    let head = Head::read(&dir).ok().flatten();
    let log = match OpenLog::open_whole(&args.from, global) {
        Err(problem) if problem.code == EXIT_LOG => {
            return verify_damaged((&dir, global), args, (head.as_ref(), files), problem, screen);
        }
        opened => opened?,
    };
    let only = args.id.as_deref().map(|id| log.find(id)).transpose()?;
    let (head, root) = (head.as_ref(), args.root);
    let scope = Scope { only: only.as_ref(), head, root, files, ..Scope::default() };
    audit::verify_log(log.reader(), &scope, screen)
}

/// Prints what was found in an extract, which is verified as a whole.
fn print_extract(found: &VerifyReport, args: &VerifyArgs, screen: &mut Screen) -> Result<Answer, Problem> {
    if !args.files.is_empty() {
        let why = "an extract is examined record by record, without the files beside the log";
        let hint = "verify the log or a whole export of it with --files";
        return Err(Problem::new(
            EXIT_USAGE,
            "the files beside the log of an extract are not examined",
            why,
            hint,
        ));
    }
    if args.id.is_some() || args.root.is_some() {
        let why =
            "the file is an extract, which a filtered `export` writes: it lacks the other records of the log";
        let hint =
            "verify the extract without an id and without --root, or verify the log or a whole export of it";
        return Err(Problem::new(EXIT_USAGE, "an extract shows no whole stream and no root", why, hint));
    }
    audit::verified(found, screen)
}

/// Verifies a log that cannot be opened, as far as the database can read it: one fault is known already, but
/// all are wanted.
fn verify_damaged(
    (dir, global): (&Path, &Global),
    args: &VerifyArgs,
    (head, files): (Option<&Head>, Option<&dyn KeptFiles>),
    refused: Problem,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let Ok(log) = SledDamaged::open_with(dir, &dirs::reading(global)) else { return Err(refused) };
    let Ok(only) = args.id.as_deref().map(|id| find(&log, id)).transpose() else { return Err(refused) };
    note(&refused.to_string());
    let (root, refused) = (args.root, Some(refused.why.as_str()));
    let scope = Scope { only: only.as_ref(), head, root, refused, files, ..Scope::default() };
    audit::verify_log(&log, &scope, screen)
}

/// Compares two versions of one stream, or of one in two logs; without `a` the first one is the newest.
///
/// # Errors
/// [`Problem`] if a log cannot be read, or the reader of the output is gone.
fn diff_versions(
    args: &DiffArgs,
    a: Option<Point>,
    global: &Global,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let other = args.with.as_deref().map(open_file).transpose()?;
        let stream = log.find(&args.id)?;
        let other = other.as_ref().map(|other| other as &dyn EventReader);
        compare::diff(log.reader(), other, &stream, (a, args.b), args.patch, screen)
    })
}

pub(crate) fn explain(args: &ExplainArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let stream = log.find(&args.id)?;
        compare::explain(log.reader(), &stream, args.at, screen)
    })
}

pub(crate) fn calls(args: &CallsArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let filter = args.filters.filter(KindsOf::Calls)?;
    let condition = args.only.over("taskreel.call/1")?;
    OpenLog::show(&args.from, global, |log| {
        let only = args.id.as_deref().map(|id| log.find(id)).transpose()?;
        let typed = |command: &str| log.typed_to_decide(command);
        let arguments = |command: &str| log.arguments_to_decide(command);
        let typed: &dyn Fn(&str) -> String = if screen.json { &arguments } else { &typed };
        let taken = (&filter, condition.as_ref(), args.filters.limit());
        print::calls(log.reader(), only.as_ref(), taken, typed, screen)
    })
}

pub(crate) fn export(args: &ExportArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let stores = file_stores(&args.files)?;
    let log = OpenLog::open_whole(&args.from, global)?;
    let (id, durability) = match &log {
        OpenLog::Dir { log, .. } => (log.header().id, log.header().durability.name().to_owned()),
        OpenLog::File { log, .. } => (log.header().id, log.header().durability.clone()),
        OpenLog::Server { log, .. } => (log.about().id, log.about().durability.name().to_owned()),
    };
    let filter = args.filters.filter(KindsOf::Events)?;
    let mut gaps = audit::Gaps::new(stores.as_ref());
    if filter.is_empty() && args.only.condition.is_none() && args.filters.limit().is_none() {
        return audit::export_log(log.reader(), id, &durability, &mut gaps, screen);
    }
    let (selection, limit) = (selection(&args.filters, &args.only)?, args.filters.limit());
    audit::extract_log(log.reader(), (id, &durability), selection, limit, &mut gaps, screen)
}

pub(crate) fn stats(args: &StatsArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let filter = args.filters.filter(KindsOf::Calls)?;
    let condition = args.only.over("taskreel.stats/1")?;
    OpenLog::show(&args.from, global, |log| {
        print::stats(log.reader(), (filter, condition.as_ref()), args.filters.limit(), screen)
    })
}
