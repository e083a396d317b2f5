//! `run`: executes Protolink tasks with the demo's tools.

pub(crate) mod input;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proto_events::model::{PostedTask, TaskState};
use proto_events::task::Task;
use taskreel::infer::Scripted;
use taskreel::{Error, System, TaskHandle, TaskSnapshot};
use taskreel_log::api::{Durability, EventStore, ReadError};
use taskreel_log::read::fold_stream;

use crate::args::{Global, RunArgs};
use crate::dirs::LOG_DIR;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_UNKNOWN, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};
use crate::run::input::read_tasks;
use crate::running::{interrupted, interruption, runtime, stop};
use crate::{dirs, tools};

/// The advice after an interrupted run.
const GO_ON: &str = "run the same command again: tasks with an id continue, and nothing is done twice";

pub(crate) fn run(args: &RunArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    // All faults of the input are found before the log is touched.
    let inputs = read_tasks(&read_text(&args.file)?, &name_of(&args.file))?;
    let script = args.script.as_deref().map(read_script).transpose()?;
    let dir = dirs::to_write(global, LOG_DIR);
    let store = Arc::new(dirs::open_or_make(&dir, args.durability.map(Durability::from))?);
    let runtime = runtime()?;
    let input = RunInput { dir: &dir, inputs, script, stateless: args.stateless };
    let answer = runtime.block_on(input.run(store, screen));
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
            "`taskreel run --help` describes the format of a script",
        )
    })
}

struct RunInput<'a> {
    dir: &'a Path,
    inputs: Vec<PostedTask>,
    script: Option<Scripted>,
    stateless: bool,
}

impl RunInput<'_> {
    async fn run(self, store: Arc<dyn EventStore>, screen: &mut Screen) -> Result<Answer, Problem> {
        let read = name_newer(store.as_ref())?;
        let system = self.start(store).await.map_err(|error| Problem::system(&error, None))?;
        let executed = tokio::select! {
            executed = execute(&system, self.inputs, screen) => executed,
            () = interrupted() => Err(interruption(GO_ON)),
        };
        let stopped = stop(system).await;
        let answer = executed?;
        stopped?;
        Ok(answer.and(read))
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

/// Names on stderr the open tasks that a newer release wrote: they are not resumed, all others are.
fn name_newer(store: &dyn EventStore) -> Result<Answer, Problem> {
    let mut answer = Answer::Yes;
    for stream in store.open_work()? {
        if let Err(error @ ReadError::Newer { .. }) = fold_stream::<Task>(store, &stream, None) {
            note(&format!("{stream} is not resumed: {error}"));
            answer = Answer::Newer;
        }
    }
    Ok(answer)
}

/// Submits all tasks, waits for all, and prints all in the order of the input.
async fn execute(system: &System, inputs: Vec<PostedTask>, screen: &mut Screen) -> Result<Answer, Problem> {
    let mut answer = Answer::Yes;
    let mut handles: Vec<TaskHandle> = Vec::new();
    for input in inputs {
        let id = input.id.clone();
        match system.submit(input).await {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                answer = Answer::No;
                note(&Problem::system(&error, Some(&id)).to_string());
            }
        }
    }
    for handle in handles {
        match handle.finished().await {
            Ok(rested) => {
                screen.json_value(&rested.to_json())?;
                screen.flush()?;
                if report_unfinished(&rested) {
                    answer = Answer::No;
                }
            }
            Err(error) => {
                answer = Answer::No;
                note(&Problem::system(&error, Some(handle.id())).to_string());
            }
        }
    }
    Ok(answer)
}

/// Reports on stderr a task that ended badly or waits, and returns whether it ended badly; the task itself is
/// on stdout.
fn report_unfinished(rested: &TaskSnapshot) -> bool {
    let task = rested.task();
    match rested.state() {
        TaskState::Failed | TaskState::Canceled => {
            let why = task.error().unwrap_or_else(|| "no reason was given".to_owned());
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
