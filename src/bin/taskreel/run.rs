//! `run`: real Protolink tasks, executed with the demo's tools.

mod input;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proto_events::model::{PostedTask, TaskState};
use taskreel::infer::Scripted;
use taskreel::inspect::cli::problem::{EXIT_UNKNOWN, EXIT_USAGE};
use taskreel::inspect::cli::screen::note;
use taskreel::inspect::cli::{Problem, Screen, Verdict};
use taskreel::store::{Durability, EventStore};
use taskreel::{Error, System, TaskHandle, TaskSnapshot};

use self::input::read_tasks;
use crate::args::{Global, RunArgs};
use crate::dirs::{self, LOG_DIR};
use crate::running::{interrupted, interruption, runtime, stop};
use crate::tools;

/// What an interrupted run is told.
const GO_ON: &str = "run the same command again: tasks that name their id go on, and nothing is done twice";

pub(crate) fn run(args: &RunArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    // Everything that can be wrong with the input is found before the log is touched.
    let inputs = read_tasks(&read_text(&args.file)?, &name_of(&args.file))?;
    let script = args.script.as_deref().map(read_script).transpose()?;
    let dir = dirs::to_write(global, LOG_DIR);
    let store = Arc::new(dirs::open_or_make(&dir, args.durability.map(Durability::from))?);
    let runtime = runtime()?;
    let work = Work { dir: &dir, inputs, script, stateless: args.stateless };
    let answer = runtime.block_on(work.run(store, screen));
    runtime.shutdown_background();
    answer
}

fn name_of(file: &Path) -> String {
    if file == Path::new("-") { "stdin".to_owned() } else { file.display().to_string() }
}

fn read_text(file: &Path) -> Result<String, Problem> {
    let read = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => EXIT_UNKNOWN,
            _ => EXIT_USAGE,
        };
        let hint = "name a file that can be read and is UTF-8, or `-` for stdin";
        Problem::new(code, format!("cannot read {}", name_of(file)), error.to_string(), hint)
    })
}

fn read_script(file: &Path) -> Result<Scripted, Problem> {
    Scripted::from_json(&read_text(file)?).map_err(|error| {
        Problem::new(
            EXIT_USAGE,
            format!("the script {} cannot be used; nothing was executed", name_of(file)),
            error.to_string(),
            "`taskreel run --help` says what a script may hold",
        )
    })
}

struct Work<'a> {
    dir: &'a Path,
    inputs: Vec<PostedTask>,
    script: Option<Scripted>,
    stateless: bool,
}

impl Work<'_> {
    async fn run(self, store: Arc<dyn EventStore>, screen: &mut Screen) -> Result<Verdict, Problem> {
        let system = self.start(store).await.map_err(|error| Problem::system(&error, None))?;
        let answer = tokio::select! {
            answer = execute(&system, self.inputs, screen) => answer,
            () = interrupted() => Err(interruption(GO_ON)),
        };
        let stopped = stop(system).await;
        let verdict = answer?;
        stopped?;
        Ok(verdict)
    }

    async fn start(&self, store: Arc<dyn EventStore>) -> Result<System, Error> {
        let mut builder = System::builder(self.dir).store(store);
        if let Some(script) = &self.script {
            builder = builder.infer(script.clone());
        }
        if self.stateless {
            builder = builder.stateless();
        }
        tools::register(builder, Duration::ZERO, self.dir).start().await
    }
}

/// Submits all, waits for all, prints all in the order of the input.
async fn execute(system: &System, inputs: Vec<PostedTask>, screen: &mut Screen) -> Result<Verdict, Problem> {
    let mut verdict = Verdict::Yes;
    let mut handles: Vec<TaskHandle> = Vec::new();
    for input in inputs {
        let id = input.id.clone();
        match system.submit(input).await {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                verdict = Verdict::No;
                note(&Problem::system(&error, Some(&id)).to_string());
            }
        }
    }
    for handle in handles {
        match handle.finished().await {
            Ok(rested) => {
                screen.json_thing(&rested.to_json())?;
                screen.flush()?;
                if told_badly(&rested) {
                    verdict = Verdict::No;
                }
            }
            Err(error) => {
                verdict = Verdict::No;
                note(&Problem::system(&error, Some(handle.id())).to_string());
            }
        }
    }
    Ok(verdict)
}

/// Says on stderr what did not go well; the task itself is on stdout.
fn told_badly(rested: &TaskSnapshot) -> bool {
    let task = rested.task();
    match rested.state() {
        TaskState::Failed | TaskState::Canceled => {
            let why = task.error().unwrap_or_else(|| "no reason is given".to_owned());
            note(&format!("task {} {}: {why}", task.id(), rested.state()));
            true
        }
        TaskState::InputRequired => {
            note(&format!("task {} waits for a person", task.id()));
            false
        }
        _ => false,
    }
}
