//! Shows later what an agent did, from the log alone: nothing here can call a tool or a model, since there is
//! none. Writes a log, closes it and examines the directory: is it intact (`verify`), do the events lead to
//! the states (`replay`), what did each step change (`diff`), what was sent to whom. `cargo run --example
//! audit -- ./log` examines a log of yours instead.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use taskreel::infer::{Entry, Scripted};
use taskreel::proto_events::id::Version;
use taskreel::proto_events::task::Task;
use taskreel::{JsonSchema, Part, System};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::audit::{Scope, diff_tasks, replay_all, verify_within};
use taskreel_log::read::fold_stream;
use taskreel_log::sled::{Head, SledOptions, SledStore};

type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize, JsonSchema)]
struct Payment {
    cents: u64,
}

#[derive(Serialize)]
struct Receipt {
    paid: u64,
}

async fn pay(ask: Payment) -> Result<Receipt, std::io::Error> {
    Ok(Receipt { paid: ask.cents })
}

/// Runs a task that pays, with its log in this directory.
async fn work(dir: &Path) -> Result<(), Failure> {
    let ask = json!({"type": "tool_call", "tool": "pay", "args": {"cents": 1250}});
    let answer = json!({"type": "final", "content": "Paid 12.50."});
    let model = Scripted::by_prompt([("pay".to_owned(), vec![Entry::json(&ask), Entry::json(&answer)])]);
    let system = System::builder(dir).tool("pay", "Pays", pay).infer(model).start().await?;
    system.session("bills").send(Part::infer("Please pay the bill")).await?.finished().await?;
    Ok(system.shutdown().await?)
}

/// Examines a log through an `EventReader`, which cannot write.
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
fn look(log: &dyn EventReader, head: Option<&Head>) -> Result<(), Failure> {
    let scope = Scope { head, ..Scope::default() };
    let found = verify_within(log, &scope, &mut |_progress| {});
    println!("verify: {} events in {} streams, {} faults", found.events, found.streams, found.faults());
    for finding in &found.findings {
        println!("  {}: {}", finding.kind, finding.what);
    }
    for unchecked in &found.unchecked {
        println!("  not checked: {unchecked}");
    }
    let replayed = replay_all(log)?;
    let same = replayed.mismatch.is_none();
    println!(
        "replay: {} tasks and {} sessions built again, all the same: {same}",
        replayed.tasks, replayed.sessions
    );

    // A page of the list of streams; the next page begins after its last stream.
    for stream in log.list_streams("task-", None, 100)?.into_iter().map(|info| info.stream) {
        println!("\n{stream}");
        let whole = fold_stream::<Task>(log, &stream, None)?;
        let mut before = Task::default();
        for version in 1..=whole.version.0 {
            // A task as it was after any of its events, as `System::state_at` shows it of a running system.
            let after = fold_stream::<Task>(log, &stream, Some(Version(version)))?.state;
            for change in diff_tasks(&before, &after) {
                println!(
                    "  {version:>3} {} {} {}: {}",
                    change.area.as_str(),
                    change.which,
                    change.kind.as_str(),
                    change.words
                );
            }
            before = after;
        }
        for call in whole.state.calls().iter() {
            let request = &call.request;
            println!(
                "  {} was sent {} time(s) under key {:.8}…",
                request.target, call.attempts, request.idempotency_key
            );
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let scratch = tempfile::tempdir()?;
    let given = std::env::args_os().nth(1).map(std::path::PathBuf::from);
    let dir = if let Some(dir) = given {
        dir
    } else {
        let dir = scratch.path().join("log");
        work(&dir).await?;
        dir
    };
    // The end of the log when it was closed, read before opening it: it reveals a log that was cut short.
    let head = Head::read(&dir)?;
    // A log that does not exist is not created.
    let log = SledStore::open_with(&dir, SledOptions { create: false, ..SledOptions::default() })?;
    look(&log, head.as_ref())?;
    Ok(log.close()?)
}
