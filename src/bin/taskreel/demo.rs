//! `demo`: made-up tasks through tools and a scripted model, to watch, to kill, to go on with.

mod drive;
mod plan;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use proto_events::id::{Position, StreamId};
use proto_events::model::TaskState;
use proto_events::task::Task;
use taskreel::System;
use taskreel::inspect::cli::problem::{EXIT_LOG, EXIT_USAGE};
use taskreel::inspect::cli::screen::note;
use taskreel::inspect::cli::{EventLines, Problem, Screen, Verdict, task_table};
use taskreel::inspect::view::{TaskRow, event_rows, task_row};
use taskreel::store::fold::fold_stream;
use taskreel::store::{Delivery, EventReader, EventStore, SledStore, StoredRecord, StreamInfo};

use self::plan::{DemoTask, Plan};
use crate::args::{DemoArgs, Global};
use crate::dirs::{self, DEMO_DIR};
use crate::running::{interrupted, interruption, runtime, stop};
use crate::tools::{self, LEDGER_FILE, Paced};

/// The agent of the demo's streams.
const AGENT: &str = "demo";

/// What a demo that begins has, unless it is told otherwise.
const DEFAULT: Plan = Plan { seed: 7, tasks: 12 };

pub(crate) fn demo(args: &DemoArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let dir = dirs::to_write(global, DEMO_DIR);
    let store = if args.resume { dirs::open_existing(&dir)? } else { dirs::open_or_make(&dir, None)? };
    let begun = begun(&store, args, &dir)?;
    let plan = begun.unwrap_or(Plan {
        seed: args.seed.unwrap_or(DEFAULT.seed),
        tasks: args.tasks.unwrap_or(DEFAULT.tasks),
    });
    let tasks = plan.tasks();
    let left = unfinished(&store, &tasks)?;
    if begun.is_some() && left == 0 {
        note(&format!("the demo in {} is complete; there is nothing to go on with", dir.display()));
        let lost = summary(&store, screen)?;
        store.close()?;
        next_steps(&dir, lost.as_deref());
        return Ok(Verdict::Yes);
    }
    match begun {
        Some(_) => note(&format!(
            "going on with the demo in {}: {left} of {} tasks are left",
            dir.display(),
            plan.tasks
        )),
        None => note(&format!(
            "{} made-up tasks, seed {}, log in {}; kill it whenever you like and type it again",
            plan.tasks,
            plan.seed,
            dir.display()
        )),
    }
    let show =
        Show { dir: &dir, tasks: &tasks, pace: Duration::from_millis(args.pace), kill_at: args.kill_at };
    let runtime = runtime()?;
    let answer = runtime.block_on(show.run(Arc::new(store), screen));
    runtime.shutdown_background();
    answer
}

/// The demo that was begun in this log, held against what was asked for.
fn begun(store: &SledStore, args: &DemoArgs, dir: &Path) -> Result<Option<Plan>, Problem> {
    let foreign =
        |what: String, why: &str| Problem::new(EXIT_USAGE, what, why, "name a new directory with --data-dir");
    let Some(plan) = Plan::of_log(store)? else {
        if store.head()?.0 > 0 {
            let what = format!("the log in {} is not a demo's", dir.display());
            return Err(foreign(what, "it holds tasks, but none that a demo made"));
        }
        if args.resume {
            return Err(Problem::no_log(dir, "the log there is empty: no demo was begun"));
        }
        return Ok(None);
    };
    let other = |name: &str, asked: u64, stored: u64| {
        let what = format!("the log in {} holds another demo", dir.display());
        foreign(what, &format!("it was begun with --{name} {stored}, not {asked}"))
    };
    match (args.seed, args.tasks) {
        (Some(seed), _) if seed != plan.seed => Err(other("seed", seed, plan.seed)),
        (_, Some(tasks)) if tasks != plan.tasks => Err(other("tasks", tasks.into(), plan.tasks.into())),
        _ => Ok(Some(plan)),
    }
}

/// How many tasks still have something to do.
fn unfinished(store: &SledStore, tasks: &[DemoTask]) -> Result<usize, Problem> {
    let mut left = 0;
    for task in tasks {
        let stream = stream_of(task)?;
        let stored = fold_stream::<Task>(store, &stream, None)?.state;
        left += usize::from(!stored.exists() || !task.is_done(stored.state(), stored.messages()));
    }
    Ok(left)
}

fn stream_of(task: &DemoTask) -> Result<StreamId, Problem> {
    StreamId::task(AGENT, &task.posted.id).map_err(|error| Problem::system(&error.into(), None))
}

/// A demo that is running.
struct Show<'a> {
    dir: &'a Path,
    tasks: &'a [DemoTask],
    pace: Duration,
    kill_at: Option<u64>,
}

impl Show<'_> {
    async fn run(&self, store: Arc<SledStore>, screen: &mut Screen) -> Result<Verdict, Problem> {
        let from = Position(store.head()?.0 + 1);
        let model = Paced { script: Plan::model(self.tasks), pace: self.pace };
        let log: Arc<dyn EventStore> = store;
        let builder = System::builder(self.dir).agent(AGENT).store(Arc::clone(&log)).infer(model);
        let system = tools::register(builder, self.pace, self.dir)
            .start()
            .await
            .map_err(|error| Problem::system(&error, None))?;
        let watched = self.watch(&system, from, screen).await;
        // Before the log is closed: it is read once more.
        let shown = match watched {
            Ok(()) => summary(log.as_ref(), screen),
            Err(problem) => Err(problem),
        };
        let stopped = stop(system).await;
        let lost = shown?;
        stopped?;
        if let Some(kill_at) = self.kill_at {
            note(&format!("event {kill_at} was never reached: the demo ended before it"));
        }
        next_steps(self.dir, lost.as_deref());
        Ok(Verdict::Yes)
    }

    /// Drives the tasks and prints every event as it becomes durable, until all is done and printed.
    async fn watch(&self, system: &System, from: Position, screen: &mut Screen) -> Result<(), Problem> {
        let mut events = system.subscribe(from);
        let mut lines = EventLines::to_watch();
        let mut printed = Position(from.0 - 1);
        let mut end = None;
        let mut driven = std::pin::pin!(drive::all(system, self.tasks).fuse());
        let mut interrupt = std::pin::pin!(interrupted());
        while end.is_none_or(|end| printed < end) {
            tokio::select! {
                done = &mut driven, if end.is_none() => {
                    done.map_err(|error| Problem::system(&error, None))?;
                    end = Some(system.log().head()?);
                }
                delivery = events.next() => match delivery {
                    Some(Ok(Delivery::Record(stored))) => {
                        print(&stored, &mut lines, screen)?;
                        printed = stored.last_position();
                        self.perhaps_die(printed, screen);
                    }
                    Some(Ok(Delivery::Lagged { .. })) => {}
                    Some(Err(error)) => return Err(error.into()),
                    None => return Err(ended_early()),
                },
                () = &mut interrupt => {
                    let next = dirs::typed("demo --resume", self.dir, DEMO_DIR);
                    return Err(interruption(&format!("`{next}` goes on from here")));
                }
            }
        }
        Ok(())
    }

    /// Kills this process, if it was told to die here: no cleaning up, no last word to the log.
    fn perhaps_die(&self, at: Position, screen: &mut Screen) {
        if self.kill_at.is_none_or(|kill_at| at.0 < kill_at) {
            return;
        }
        let _ = screen.flush();
        note(&format!(
            "killed at event {at}; `{}` goes on from there",
            dirs::typed("demo --resume", self.dir, DEMO_DIR)
        ));
        let pid = std::process::id().to_string();
        let _ = std::process::Command::new("kill").args(["-9", &pid]).status();
        // Where there is no such command: as sudden, with another exit code.
        std::process::abort();
    }
}

fn ended_early() -> Problem {
    Problem::new(
        EXIT_LOG,
        "the log ended while the demo was running",
        "its writer stopped, probably because a write failed",
        "see that the disk has room, then type the same command again",
    )
}

fn print(stored: &StoredRecord, lines: &mut EventLines, screen: &mut Screen) -> Result<(), Problem> {
    for row in event_rows(stored) {
        lines.print(&row, screen)?;
    }
    screen.flush()
}

/// Prints the tasks as they stand; answers the first that waits for a person.
fn summary(reader: &dyn EventReader, screen: &mut Screen) -> Result<Option<String>, Problem> {
    let infos: Vec<StreamInfo> = taskreel::inspect::find::streams(reader, "task-")?;
    let mut rows: Vec<TaskRow> = Vec::new();
    for info in &infos {
        rows.push(task_row(reader, info)?);
    }
    if screen.json {
        for row in &rows {
            screen.json_line(&row.to_json())?;
        }
    } else {
        screen.line("")?;
        task_table(&rows, screen)?;
    }
    screen.flush()?;
    note(&counted(&rows));
    let lost = rows.into_iter().find(|row| row.state == TaskState::InputRequired);
    Ok(lost.map(|row| row.id))
}

fn counted(rows: &[TaskRow]) -> String {
    let count = |state| rows.iter().filter(|row| row.state == state).count();
    format!(
        "\n{} tasks: {} completed, {} failed, {} canceled, {} waiting for a person",
        rows.len(),
        count(TaskState::Completed),
        count(TaskState::Failed),
        count(TaskState::Canceled),
        count(TaskState::InputRequired)
    )
}

/// What to type next; `lost` is the task whose payment nobody knows the outcome of.
fn next_steps(dir: &Path, lost: Option<&str>) {
    let typed = |command: &str| dirs::typed(command, dir, DEMO_DIR);
    if let Some(id) = lost {
        note(&format!("look:   {}   (its payment was never confirmed)", typed(&format!("show {id}"))));
    }
    let again = other(dir);
    note(&format!(
        "replay: {}\n\
         paid:   {}   (every payment once, however often it was killed)\n\
         anew:   {}   (then again with --resume)",
        typed("replay --all"),
        dir.join(LEDGER_FILE).display(),
        dirs::typed("demo --kill-at 40", &again, DEMO_DIR)
    ));
}

/// A directory for another demo beside this one.
fn other(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_os_string();
    name.push("-2");
    dir.with_file_name(name)
}
