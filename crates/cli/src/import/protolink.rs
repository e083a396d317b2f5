//! `import protolink`: takes in the tasks, runs and sessions of a Protolink program's database. The whole file is read and
//! checked before the log is opened; both readings see the same state of it.

mod database;
mod items;

use std::path::Path;
use std::sync::Arc;

use proto_events::id::StreamId;
use proto_events::json::JsonText;
use taskreel::{Error, KeptStream, Operator, TakenIn};
use taskreel_log::api::EventStore;
use taskreel_log::audit::json::{number, object, text};

use crate::args::run::LogArgs;
use crate::args::{Global, ImportProtolinkArgs};
use crate::dirs;
use crate::dirs::LOG_DIR;
use crate::import::protolink::database::Database;
use crate::import::protolink::items::{ImportItem, ItemError};
use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, count, note};
use crate::signals::{Interrupts, runtime};

/// The principal in the records of an import.
const PRINCIPAL: &str = "import protolink";

/// Items that are handed to the log together: they are in memory.
const TOGETHER: usize = 256;

/// Bytes of items after which they are handed over (16 MiB), unless a single one is larger.
const TOGETHER_BYTES: usize = 16 * 1024 * 1024;

/// The number of items by what became of them.
#[derive(Default)]
struct Sums {
    new: u64,
    known: u64,
    changed: u64,
    refused: u64,
}

pub(super) fn import(
    args: &ImportProtolinkArgs,
    global: &Global,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let dir = dirs::to_write(global, LOG_DIR);
    let interrupts = Interrupts::take_over();
    let again = "type the same command again: what was imported is left out then";
    let stopped = || interrupts.now(again).map_or(Ok(()), |problem| Err(ItemError::Problem(problem)));
    let database = Database::open(&args.file)?;
    let checkpoints = database.checkpoints().map_err(|unread| unread.problem(&args.file))?;
    let agent = args.agent.as_deref();
    // Nothing is written unless all of it can be read.
    items::each(&database, agent, |_| stopped()).map_err(|failed| item_problem(failed, &args.file))?;
    let runtime = runtime()?;
    let store: Arc<dyn EventStore> = Arc::new(dirs::open_or_make(&dir, LogArgs::default())?);
    let operator = Operator::new(Arc::clone(&store));
    let take = |found: &mut Vec<ImportItem>, sums: &mut Sums, screen: &mut Screen| -> Result<(), ItemError> {
        take_in(&runtime, &operator, std::mem::take(found), sums, screen).map_err(ItemError::Problem)
    };
    let (mut waiting, mut bytes, mut sums) = (Vec::new(), 0, Sums::default());
    let done = items::each(&database, agent, |found| {
        stopped()?;
        bytes += found.kept.as_ref().map_or(0, |kept| kept.source.len());
        waiting.push(found);
        if waiting.len() < TOGETHER && bytes < TOGETHER_BYTES {
            return Ok(());
        }
        bytes = 0;
        take(&mut waiting, &mut sums, screen)
    })
    .and_then(|()| take(&mut waiting, &mut sums, screen));
    let finished = runtime.block_on(operator.finish());
    let closed = store.close();
    done.map_err(|failed| item_problem(failed, &args.file))?;
    finished.map_err(|error| Problem::system(&error, None))?;
    closed?;
    print_sums(&sums, checkpoints, &dir, screen)?;
    interrupts.now("nothing is left to do: the import is complete").map_or(Ok(()), Err)?;
    Ok(if sums.changed + sums.refused > 0 { Answer::No } else { Answer::Yes })
}

fn item_problem(failed: ItemError, file: &Path) -> Problem {
    match failed {
        ItemError::Unread(unread) => unread.problem(file),
        ItemError::Problem(problem) => problem,
    }
}

/// Hands items over to the log and prints what became of each.
fn take_in(
    runtime: &tokio::runtime::Runtime,
    operator: &Operator,
    found: Vec<ImportItem>,
    sums: &mut Sums,
    screen: &mut Screen,
) -> Result<(), Problem> {
    let mut kept: Vec<KeptStream> = Vec::new();
    let mut rows = Vec::new();
    for ImportItem { kind, agent, id, kept: item } in found {
        let refused = item.map(|item| kept.push(item)).err();
        rows.push((kind, agent, id, refused));
    }
    let results = runtime.block_on(operator.take_in(&kept, PRINCIPAL));
    let mut results = results.map_err(|error| Problem::system(&error, None))?.into_iter();
    for (kind, agent, id, refused) in rows {
        let result = match refused {
            Some(why) => Err(why),
            None => results.next().unwrap_or(Ok(TakenIn::Known)).map_err(|error: Error| error.to_string()),
        };
        print_item((kind, &agent, &id), result, sums, screen)?;
    }
    Ok(())
}

fn print_item(
    (kind, agent, id): (&str, &str, &str),
    result: Result<TakenIn, String>,
    sums: &mut Sums,
    screen: &mut Screen,
) -> Result<(), Problem> {
    let (outcome, why, sum) = match result {
        Ok(TakenIn::New) => ("new", None, &mut sums.new),
        Ok(TakenIn::Known) => ("known", None, &mut sums.known),
        Ok(TakenIn::Changed) => {
            let why =
                "it was imported before, and the file has changed since; the log keeps what was imported";
            ("changed", Some(why.to_owned()), &mut sums.changed)
        }
        Ok(_) => {
            let why = "the log has one of this name that is not from an import, or that went on during one";
            ("refused", Some(why.to_owned()), &mut sums.refused)
        }
        Err(why) => ("refused", Some(why), &mut sums.refused),
    };
    *sum += 1;
    if screen.json {
        let stream = if kind == "task" { StreamId::task(agent, id) } else { StreamId::session(agent, id) };
        return screen.json_line(&object([
            ("schema", text("taskreel.imported/1")),
            ("kind", text(kind)),
            ("agent", text(agent)),
            ("id", text(id)),
            ("stream", stream.map_or_else(|_| JsonText::null(), |stream| text(stream.as_str()))),
            ("outcome", text(outcome)),
            ("why", why.as_deref().map_or_else(JsonText::null, text)),
        ]));
    }
    match why {
        Some(why) => screen.line(&screen.plain(&format!("{outcome}: {kind} `{id}` of {agent}: {why}"))),
        None => Ok(()),
    }
}

fn print_sums(sums: &Sums, checkpoints: u64, dir: &Path, screen: &mut Screen) -> Result<(), Problem> {
    let Sums { new, known, changed, refused } = *sums;
    if screen.json {
        screen.json_line(&object([
            ("schema", text("taskreel.import-protolink/1")),
            ("new", number(new)),
            ("known", number(known)),
            ("changed", number(changed)),
            ("refused", number(refused)),
            ("checkpoints", number(checkpoints)),
            ("data_dir", text(&dir.display().to_string())),
        ]))?;
    } else {
        screen.line(&format!(
            "imported {} into {}; {known} known, {changed} changed, {refused} refused",
            count(new, "task or session", "tasks and sessions"),
            dir.display()
        ))?;
    }
    screen.flush()?;
    if checkpoints > 0 {
        let runs = count(checkpoints, "checkpoint", "checkpoints");
        note(&format!(
            "{runs} of durable runs stay in the file: only Protolink itself can resume these runs"
        ));
    }
    note(&format!("next: {}", dirs::typed("ls", dir, LOG_DIR)));
    Ok(())
}
