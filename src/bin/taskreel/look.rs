//! The commands that only read: open the log, find what is meant, print it, let go.

use std::path::{Path, PathBuf};

use proto_events::id::Version;
use taskreel::inspect::cli::{self, EventsOf, ListOptions, Problem, Screen, Verdict};
use taskreel::inspect::find::find;
use taskreel::store::{EventReader, EventStore, SledStore};

use crate::args::{EventsArgs, Global, LsArgs, ReplayArgs, ShowArgs, StateArgs};
use crate::dirs;

/// A log that is open for one look.
struct Look {
    dir: PathBuf,
    store: SledStore,
}

impl Look {
    fn open(global: &Global) -> Result<Self, Problem> {
        let dir = dirs::to_read(global);
        let store = dirs::open_existing(&dir)?;
        Ok(Self { dir, store })
    }

    fn typed(&self, command: &str) -> String {
        // Without a word the directory was the default that was found first.
        let default = if Path::new(dirs::LOG_DIR).exists() { dirs::LOG_DIR } else { dirs::DEMO_DIR };
        dirs::typed(command, &self.dir, default)
    }

    /// Lets go, so that the next process can open the log at once.
    fn close<T>(self, answer: Result<T, Problem>) -> Result<T, Problem> {
        let closed = self.store.close();
        let answer = answer?;
        closed?;
        Ok(answer)
    }
}

pub(crate) fn ls(args: &LsArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(global)?;
    let options = ListOptions { states: args.state.clone(), limit: args.limit, next: look.typed("show") };
    let answer = if args.sessions {
        cli::sessions(&look.store, &options, screen)
    } else {
        cli::tasks(&look.store, &options, screen)
    };
    look.close(answer)
}

pub(crate) fn show(args: &ShowArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(global)?;
    let next = format!("{} {}", look.typed("events"), args.id);
    let answer = find(&look.store, &args.id)
        .map_err(Problem::from)
        .and_then(|stream| cli::show(&look.store, &stream, &next, screen));
    look.close(answer)
}

pub(crate) fn events(args: &EventsArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(global)?;
    let of = match &args.id {
        None => Ok(EventsOf::All),
        Some(id) => find(&look.store, id).map(EventsOf::Stream).map_err(Problem::from),
    };
    let answer = of.and_then(|of| cli::events(&look.store, &of, screen));
    look.close(answer)
}

pub(crate) fn state(args: &StateArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(global)?;
    let answer = find(&look.store, &args.id)
        .map_err(Problem::from)
        .and_then(|stream| cli::state(&look.store, &stream, args.at.map(Version), screen));
    look.close(answer)
}

pub(crate) fn replay(args: &ReplayArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(global)?;
    let reader: &dyn EventReader = &look.store;
    let only = args.id.as_deref().map(|id| find(reader, id)).transpose();
    let answer = only.map_err(Problem::from).and_then(|only| cli::replay(reader, only.as_ref(), screen));
    look.close(answer)
}

pub(crate) fn verify(global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(global)?;
    let answer = cli::verify_log(&look.store, screen);
    look.close(answer)
}

pub(crate) fn export(global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let look = Look::open(global)?;
    let answer = cli::export_log(&look.store, &dirs::durability(&look.dir), screen);
    look.close(answer)
}
