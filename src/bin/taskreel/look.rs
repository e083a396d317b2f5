//! The commands that only read: open the log, find what is meant, print it, let go.

use std::path::{Path, PathBuf};

use proto_events::id::{StreamId, Version};
use taskreel::audit::Scope;
use taskreel::inspect::cli::problem::EXIT_LOG;
use taskreel::inspect::cli::screen::note;
use taskreel::inspect::cli::{self, EventsOf, ListOptions, Problem, Screen, Verdict};
use taskreel::inspect::find::find;
use taskreel::store::{EventReader, EventStore, Head, JsonLines, SledDamaged, SledStore};

use crate::args::{
    CallsArgs, DiffArgs, EventsArgs, ExplainArgs, ExportArgs, Global, LsArgs, ReadFrom, ReplayArgs, ShowArgs,
    StateArgs, StatsArgs, VerifyArgs,
};
use crate::dirs;

/// A log that is open for one look.
enum Look {
    Dir { dir: PathBuf, store: Box<SledStore> },
    File { path: PathBuf, log: JsonLines },
}

impl Look {
    fn open(from: &ReadFrom, global: &Global) -> Result<Self, Problem> {
        let Some(path) = &from.file else {
            let dir = dirs::to_read(global);
            let store = Box::new(dirs::open_existing(&dir)?);
            return Ok(Self::Dir { dir, store });
        };
        Ok(Self::File { path: path.clone(), log: open_file(path)? })
    }

    fn reader(&self) -> &dyn EventReader {
        match self {
            Self::Dir { store, .. } => &**store,
            Self::File { log, .. } => log,
        }
    }

    fn find(&self, id: &str) -> Result<StreamId, Problem> {
        find(self.reader(), id).map_err(Problem::from)
    }

    fn typed(&self, command: &str) -> String {
        match self {
            Self::File { path, .. } => dirs::typed_with(command, "--file", path),
            Self::Dir { dir, .. } => {
                // Without a word the directory was the default that was found first.
                let default = if Path::new(dirs::LOG_DIR).exists() { dirs::LOG_DIR } else { dirs::DEMO_DIR };
                dirs::typed(command, dir, default)
            }
        }
    }

    /// Lets go, so that the next process can open the log at once.
    fn close<T>(self, answer: Result<T, Problem>) -> Result<T, Problem> {
        let closed = match &self {
            Self::Dir { store, .. } => store.close(),
            Self::File { .. } => Ok(()),
        };
        let answer = answer?;
        closed?;
        Ok(answer)
    }
}

fn open_file(path: &Path) -> Result<JsonLines, Problem> {
    JsonLines::open(path).map_err(|error| Problem::export(&error, path))
}

pub(crate) fn ls(args: &LsArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let options = ListOptions { states: args.state.clone(), limit: args.limit, next: look.typed("show") };
    let answer = if args.sessions {
        cli::sessions(look.reader(), &options, screen)
    } else if args.tools {
        cli::tools(look.reader(), &options, screen)
    } else {
        cli::tasks(look.reader(), &options, screen)
    };
    look.close(answer)
}

pub(crate) fn show(args: &ShowArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let next = format!("{} {}", look.typed("events"), args.id);
    let answer = look.find(&args.id).and_then(|stream| cli::show(look.reader(), &stream, &next, screen));
    look.close(answer)
}

pub(crate) fn events(args: &EventsArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let of = match &args.id {
        None => Ok(EventsOf::All),
        Some(id) => look.find(id).map(EventsOf::Stream),
    };
    let answer = of.and_then(|of| cli::events(look.reader(), &of, screen));
    look.close(answer)
}

pub(crate) fn state(args: &StateArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let answer = look
        .find(&args.id)
        .and_then(|stream| cli::state(look.reader(), &stream, args.at.map(Version), screen));
    look.close(answer)
}

pub(crate) fn replay(args: &ReplayArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let only = args.id.as_deref().map(|id| look.find(id)).transpose();
    let answer = only.and_then(|only| cli::replay(look.reader(), only.as_ref(), screen));
    look.close(answer)
}

pub(crate) fn verify(args: &VerifyArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    if let Some(path) = &args.from.file {
        // What is damaged is to be listed, not refused.
        let log = JsonLines::open_damaged(path).map_err(|error| Problem::export(&error, path))?;
        let only = args.id.as_deref().map(|id| find(&log, id)).transpose()?;
        let scope = Scope { only: only.as_ref(), file: Some(&log), ..Scope::default() };
        return cli::verify_log(&log, &scope, screen);
    }
    let dir = dirs::to_read(global);
    // Opening rewrites it, so that it is read before.
    let head = Head::read(&dir).ok().flatten();
    let look = match Look::open(&args.from, global) {
        Err(problem) if problem.code == EXIT_LOG => {
            return verify_damaged(&dir, args, head.as_ref(), problem, screen);
        }
        opened => opened?,
    };
    let only = args.id.as_deref().map(|id| look.find(id)).transpose();
    let answer = only.and_then(|only| {
        let scope = Scope { only: only.as_ref(), head: head.as_ref(), ..Scope::default() };
        cli::verify_log(look.reader(), &scope, screen)
    });
    look.close(answer)
}

/// A log that cannot be opened is gone through as far as the database gives it out: one fault is known already, and whoever
/// asked wants all of them.
fn verify_damaged(
    dir: &Path,
    args: &VerifyArgs,
    head: Option<&Head>,
    refused: Problem,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let Ok(log) = SledDamaged::open(dir) else { return Err(refused) };
    let Ok(only) = args.id.as_deref().map(|id| find(&log, id)).transpose() else { return Err(refused) };
    note(&refused.to_string());
    let scope = Scope { only: only.as_ref(), head, refused: Some(&refused.why), ..Scope::default() };
    cli::verify_log(&log, &scope, screen)
}

pub(crate) fn diff(args: &DiffArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let other = args.with.as_deref().map(open_file).transpose();
    let answer = other.and_then(|other| {
        let stream = look.find(&args.id)?;
        let versions = (args.a.map(Version), args.b.map(Version));
        let other = other.as_ref().map(|other| other as &dyn EventReader);
        cli::diff(look.reader(), other, &stream, versions, args.patch, screen)
    });
    look.close(answer)
}

pub(crate) fn explain(args: &ExplainArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let answer = look
        .find(&args.id)
        .and_then(|stream| cli::explain(look.reader(), &stream, args.at.map(Version), screen));
    look.close(answer)
}

pub(crate) fn calls(args: &CallsArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let only = args.id.as_deref().map(|id| look.find(id)).transpose();
    let answer = only.and_then(|only| {
        let typed = |command: &str| match &look {
            // An export cannot be decided about: its log can.
            Look::File { .. } => format!("{} {command}", dirs::program()),
            Look::Dir { .. } => look.typed(command),
        };
        cli::calls(look.reader(), only.as_ref(), &typed, screen)
    });
    look.close(answer)
}

pub(crate) fn export(args: &ExportArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let durability = match &look {
        Look::Dir { store, .. } => store.durability().name().to_owned(),
        Look::File { log, .. } => log.header().durability.clone(),
    };
    let answer = cli::export_log(look.reader(), &durability, screen);
    look.close(answer)
}

pub(crate) fn stats(args: &StatsArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(&args.from, global)?;
    let answer = cli::stats(look.reader(), screen);
    look.close(answer)
}
