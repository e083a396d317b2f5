//! Showing later what an agent did, from the log alone: nothing here can call a tool or a model, since it has none. Writes
//! a log, closes it, and looks at the directory that is left: is it whole (`verify`), do the events lead to the states
//! (`replay`), what did each step change (`diff`), what was sent to whom. `cargo run --example audit -- ./log` looks at a log
//! of yours instead.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use taskreel::audit::diff::diff_tasks;
use taskreel::audit::replay::replay_all;
use taskreel::audit::verify::{Scope, verify_within};
use taskreel::infer::{Entry, Scripted};
use taskreel::proto_events::id::Version;
use taskreel::proto_events::task::Task;
use taskreel::store::fold::fold_stream;
use taskreel::store::{EventReader, EventStore, Head, SledOptions, SledStore};
use taskreel::{JsonSchema, Part, System};

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

/// A task that pays, in a log in this directory.
async fn work(dir: &Path) -> Result<(), Failure> {
    let ask = json!({"type": "tool_call", "tool": "pay", "args": {"cents": 1250}});
    let answer = json!({"type": "final", "content": "Paid 12.50."});
    let model = Scripted::by_prompt([("pay".to_owned(), vec![Entry::json(&ask), Entry::json(&answer)])]);
    let system = System::builder(dir).tool("pay", "Pays", pay).infer(model).start().await?;
    system.session("bills").send(Part::infer("Please pay the bill")).await?.finished().await?;
    Ok(system.shutdown().await?)
}

/// Everything from here on takes an `EventReader`, which cannot write.
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

    // A page of the list of streams; the next one begins behind the last of this.
    for stream in log.list_streams("task-", None, 100)?.into_iter().map(|info| info.stream) {
        println!("\n{stream}");
        let whole = fold_stream::<Task>(log, &stream, None)?;
        let mut before = Task::default();
        for version in 1..=whole.version.0 {
            // A task as it was after any of its events: this is what `System::state_at` shows of a running system.
            let after = fold_stream::<Task>(log, &stream, Some(Version(version)))?.state;
            for change in diff_tasks(&before, &after) {
                println!(
                    "  {version:>3} {} {} {}: {}",
                    change.area.as_str(),
                    change.which,
                    change.how.as_str(),
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
    // How far the log reached when it was closed, read before opening it: a log that was cut off shorter is told by it.
    let head = Head::read(&dir)?;
    // A log that is not there is not made.
    let log = SledStore::open_with(&dir, SledOptions { create: false, ..SledOptions::default() })?;
    look(&log, head.as_ref())?;
    Ok(log.close()?)
}
