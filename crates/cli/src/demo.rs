//! `demo`: generated tasks with tools and a scripted model, to watch, kill and resume.

pub(crate) mod drive;
pub(crate) mod plan;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use proto_events::id::{Category, Position, StreamId};
use proto_events::model::TaskState;
use proto_events::task::Task;
use taskreel::System;
use taskreel_log::api::{EventReader, EventStore, StoredRecord, StreamInfo};
use taskreel_log::read::{Delivery, fold_stream};
use taskreel_log::sled::SledStore;
use taskreel_log::views::{TaskRow, event_rows, task_row};

use crate::args::run::LogArgs;
use crate::args::{DemoArgs, Global};
use crate::demo::plan::{DemoTask, Plan};
use crate::dirs::DEMO_DIR;
use crate::print::answer::Answer;
use crate::print::events::EventLines;
use crate::print::list::task_table;
use crate::print::problem::{EXIT_LOG, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};
use crate::signals::{Interrupts, runtime, stop};
use crate::tools::{DelayedModel, LEDGER_FILE};
use crate::{dirs, tools};

/// The agent of the demo's streams.
const AGENT: &str = "demo";

/// The defaults of a new demo.
const DEFAULT: Plan = Plan { seed: 7, tasks: 12 };

pub(crate) fn demo(args: &DemoArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let dir = dirs::to_write(global, DEMO_DIR);
    let interrupts = Interrupts::take_over();
    let store =
        if args.resume { dirs::open_existing(&dir)? } else { dirs::open_or_make(&dir, LogArgs::default())? };
    if let Some(problem) = interrupts.now("run the same command again: nothing was executed") {
        store.close()?;
        return Err(problem);
    }
    let begun = existing_plan(&store, args, &dir)?;
    let plan = begun.unwrap_or(Plan {
        seed: args.seed.unwrap_or(DEFAULT.seed),
        tasks: args.tasks.unwrap_or(DEFAULT.tasks),
    });
    let tasks = plan.tasks();
    let left = unfinished(&store, &tasks)?;
    if begun.is_some() && left == 0 {
        note(&format!("the demo in {} is complete; there is nothing to resume", dir.display()));
        let lost = summary(&store, screen)?;
        store.close()?;
        next_steps(&dir, lost.as_deref());
        return Ok(Answer::Yes);
    }
    match begun {
        Some(_) => {
            note(&format!("resuming the demo in {}: {left} of {} tasks are left", dir.display(), plan.tasks));
        }
        None => note(&format!(
            "{} made-up tasks, seed {}, log in {}; kill it at any time and run the same command again",
            plan.tasks,
            plan.seed,
            dir.display()
        )),
    }
    let (pace, kill_at) = (Duration::from_millis(args.pace), args.kill_at);
    let demo = DemoRun { dir: &dir, tasks: &tasks, pace, kill_at, interrupts };
    let runtime = runtime()?;
    let answer = runtime.block_on(demo.run(Arc::new(store), screen));
    runtime.shutdown_background();
    answer
}

/// Returns the demo already in this log, after checking it against the arguments.
fn existing_plan(store: &SledStore, args: &DemoArgs, dir: &Path) -> Result<Option<Plan>, Problem> {
    let foreign =
        |what: String, why: &str| Problem::new(EXIT_USAGE, what, why, "use a new directory with --data-dir");
    let Some(plan) = Plan::of_log(store)? else {
        if !store.list_streams(Category::Task.prefix(), None, 1)?.is_empty() {
            let what = format!("the log in {} does not belong to a demo", dir.display());
            return Err(foreign(what, "it has tasks, but none of a demo"));
        }
        if args.resume {
            return Err(Problem::no_log(dir, "its log has no tasks: no demo was started"));
        }
        return Ok(None);
    };
    let other = |name: &str, asked: u64, stored: u64| {
        let what = format!("the log in {} belongs to another demo", dir.display());
        foreign(what, &format!("it was started with --{name} {stored}, not {asked}"))
    };
    match (args.seed, args.tasks) {
        (Some(seed), _) if seed != plan.seed => Err(other("seed", seed, plan.seed)),
        (_, Some(tasks)) if tasks != plan.tasks => Err(other("tasks", tasks.into(), plan.tasks.into())),
        _ => Ok(Some(plan)),
    }
}

/// Returns the number of tasks that are not finished.
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
struct DemoRun<'a> {
    dir: &'a Path,
    tasks: &'a [DemoTask],
    pace: Duration,
    kill_at: Option<u64>,
    interrupts: Interrupts,
}

impl DemoRun<'_> {
    async fn run(&self, store: Arc<SledStore>, screen: &mut Screen) -> Result<Answer, Problem> {
        let from = Position(store.head()?.0 + 1);
        let model = DelayedModel { script: Plan::model(self.tasks), pace: self.pace };
        let log = Arc::clone(&store) as Arc<dyn EventStore>;
        let builder = System::builder(self.dir).name(AGENT).log(store).infer(model);
        let system = tools::register(builder, self.pace, self.dir)
            .start()
            .await
            .map_err(|error| Problem::system(&error, None))?;
        let watched = self.watch(&system, from, screen).await;
        // Before the log is closed, since this reads it.
        let shown = match watched {
            Ok(()) => summary(log.as_ref(), screen),
            Err(problem) => Err(problem),
        };
        let stopped = stop(system).await;
        let lost = shown?;
        stopped?;
        if let Some(kill_at) = self.kill_at {
            note(&format!("the demo ended before it reached event {kill_at}"));
        }
        next_steps(self.dir, lost.as_deref());
        Ok(Answer::Yes)
    }

    /// Drives the tasks and prints each event as it becomes durable, until all tasks are done and printed.
    async fn watch(&self, system: &System, from: Position, screen: &mut Screen) -> Result<(), Problem> {
        let mut events = system.subscribe(from);
        let mut lines = EventLines::to_watch();
        let mut printed = Position(from.0 - 1);
        let mut end = None;
        let mut driven = std::pin::pin!(drive::all(system, self.tasks).fuse());
        let next = format!("`{}` resumes it", dirs::typed("demo --resume", self.dir, DEMO_DIR));
        let mut interrupt = std::pin::pin!(self.interrupts.first(&next));
        while end.is_none_or(|end| printed < end) {
            tokio::select! {
                done = &mut driven, if end.is_none() => {
                    done.map_err(|error| Problem::system(&error, None))?;
                    end = Some(system.log().head()?);
                }
                delivery = events.next() => match delivery {
                    Some(Ok(Delivery::Record(stored))) => {
                        // A start is the program's own; a demo shows its tasks.
                        let own = [Some(Category::System), Some(Category::Agent), Some(Category::Registry)];
                        if !own.contains(&stored.record.stream.category()) {
                            print(&stored, &mut lines, screen)?;
                        }
                        printed = stored.last_position();
                        self.kill_if_asked(printed, screen);
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error.into()),
                    None => return Err(ended_early()),
                },
                problem = &mut interrupt => return Err(problem),
            }
        }
        Ok(())
    }

    /// Kills this process at the requested position: no cleanup, no last write to the log.
    fn kill_if_asked(&self, at: Position, screen: &mut Screen) {
        if self.kill_at.is_none_or(|kill_at| at.0 < kill_at) {
            return;
        }
        let _ = screen.flush();
        note(&format!(
            "killed at event {at}; `{}` resumes it",
            dirs::typed("demo --resume", self.dir, DEMO_DIR)
        ));
        let pid = std::process::id().to_string();
        let _ = std::process::Command::new("kill").args(["-9", &pid]).status();
        // Without a `kill` command: as sudden, with another exit code.
        std::process::abort();
    }
}

fn ended_early() -> Problem {
    Problem::new(
        EXIT_LOG,
        "the log ended while the demo was running",
        "its writer stopped, probably because a write failed",
        "check that the disk has free space, then run the same command again",
    )
}

fn print(stored: &StoredRecord, lines: &mut EventLines, screen: &mut Screen) -> Result<(), Problem> {
    for row in event_rows(stored) {
        lines.print(&row, screen)?;
    }
    screen.flush()
}

/// Prints the tasks' states and returns the first task that waits for a person.
fn summary(reader: &dyn EventReader, screen: &mut Screen) -> Result<Option<String>, Problem> {
    let infos: Vec<StreamInfo> = taskreel_log::views::streams(reader, Category::Task.prefix())?;
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

/// Prints the commands to type next; `lost` is the task whose payment has an unknown outcome.
fn next_steps(dir: &Path, lost: Option<&str>) {
    let typed = |command: &str| dirs::typed(command, dir, DEMO_DIR);
    if let Some(id) = lost {
        note(&format!("look:   {}   (its payment was never confirmed)", typed(&format!("show {id}"))));
    }
    let again = other(dir);
    note(&format!(
        "replay: {}\n\
         paid:   {}   (each payment once, however often the demo was killed)\n\
         again:  {}   (then once more with --resume)",
        typed("replay --all"),
        dir.join(LEDGER_FILE).display(),
        dirs::typed("demo --kill-at 40", &again, DEMO_DIR)
    ));
}

/// Returns a directory for another demo beside this one.
fn other(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_os_string();
    name.push("-2");
    dir.with_file_name(name)
}
