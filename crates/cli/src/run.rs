//! `run`: executes Protolink tasks with the demo's tools, as they are read.

pub(crate) mod drive;
pub(crate) mod input;
pub(crate) mod pieces;

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proto_events::model::PostedTask;
use proto_events::task::Task;
use taskreel::infer::Scripted;
use taskreel::{Error, System};
use taskreel_log::api::{EventStore, ReadError};
use taskreel_log::read::fold_stream;
use taskreel_log::sled::SledStore;
use tokio::sync::mpsc;

use crate::args::{Global, RunArgs};
use crate::dirs::LOG_DIR;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_UNKNOWN, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};
use crate::run::drive::Driver;
use crate::run::input::{BadInput, Input, Tasks, read_all};
use crate::signals::{Interrupts, runtime, stop};
use crate::{dirs, tools};

/// The size of a file up to which all of it is checked before anything is executed. A larger one and stdin are executed
/// as they are read, so that the first result does not wait for the last task.
const CHECKED_BYTES_MAX: u64 = 4 << 20;

/// The number of actors that stay awake: the actors of the tasks at work and of their conversations, and some more. A task that has
/// ended is not asked for again, and its actor would keep its memory for a minute.
const LIVE_ACTORS: usize = 512;

/// The number of tasks that are read before they can be submitted.
const READ_AHEAD: usize = 64;

/// The advice after a signal that came before the first task was submitted.
const NOT_BEGUN: &str = "run the same command again: nothing was executed";

pub(crate) fn run(args: &RunArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    if is_stdin(&args.file) && args.script.as_deref().is_some_and(is_stdin) {
        let why = "the tasks and the script are both to be read from it";
        let hint = "give one of them as a file";
        return Err(Problem::new(EXIT_USAGE, "stdin can be read once", why, hint));
    }
    let name = name_of(&args.file);
    let mut input = open_input(&args.file, &name)?;
    let script = args.script.as_deref().map(read_script).transpose()?;
    let runtime = runtime()?;
    let interrupts = Interrupts::take_over();
    // Faults of the first task are found before the log is touched.
    let first = match runtime.block_on(first_of(&mut input, &interrupts))? {
        Some(Ok(first)) => first,
        Some(Err(bad)) => return Err(bad.refused("nothing was executed")),
        None => return Err(nothing_to_run(&name)),
    };
    let dir = dirs::to_write(global, LOG_DIR);
    let store = Arc::new(dirs::open_or_make(&dir, args.log)?);
    if let Some(problem) = interrupts.now(NOT_BEGUN) {
        store.close()?;
        return Err(problem);
    }
    let run = RunInput { dir: &dir, script, stateless: args.stateless };
    let answer = runtime.block_on(run.run(store, (first, input), &interrupts, screen));
    runtime.shutdown_background();
    answer
}

/// Waits for the first task of the input.
async fn first_of(
    input: &mut Input,
    interrupts: &Interrupts,
) -> Result<Option<Result<PostedTask, BadInput>>, Problem> {
    tokio::select! {
        biased;
        problem = interrupts.first(NOT_BEGUN) => Err(problem),
        first = input.recv() => Ok(first),
    }
}

fn name_of(file: &Path) -> String {
    if is_stdin(file) { "stdin".to_owned() } else { file.display().to_string() }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn nothing_to_run(name: &str) -> Problem {
    let hint = "give one task as JSON, an array of tasks, or one task a line";
    Problem::new(EXIT_USAGE, format!("{name} has no task"), "it is empty", hint)
}

/// Begins to read the input, on a thread of its own: a terminal or a pipe blocks until more is written.
fn open_input(file: &Path, name: &str) -> Result<Input, Problem> {
    let (send, input) = mpsc::channel(READ_AHEAD);
    let owned = name.to_owned();
    if is_stdin(file) {
        return spawn(move || feed(Tasks::new(std::io::stdin().lock(), &owned), &send)).map(|()| input);
    }
    let opened = File::open(file).and_then(|file| file.metadata().map(|about| (file, about)));
    let (opened, about) = opened.map_err(|error| unreadable(name, &error))?;
    if !about.is_file() || about.len() > CHECKED_BYTES_MAX {
        return spawn(move || feed(Tasks::new(BufReader::new(opened), &owned), &send)).map(|()| input);
    }
    let all = read_all(BufReader::new(opened), name).map_err(|bad| bad.refused("nothing was executed"))?;
    // The sending ends where nobody takes the tasks any more.
    let feed = move || drop(all.into_iter().find_map(|task| send.blocking_send(Ok(task)).err()));
    spawn(feed).map(|()| input)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
    let spawned = std::thread::Builder::new().name("input".to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| unreadable("the input", &error))
}

/// Passes on the tasks of an input until it ends, cannot be used, or nobody takes them.
fn feed<R: std::io::BufRead>(mut tasks: Tasks<R>, send: &mpsc::Sender<Result<PostedTask, BadInput>>) {
    loop {
        let (item, is_last) = match tasks.next() {
            Ok(Some((task, _))) => (Ok(task), false),
            Ok(None) => return,
            Err(bad) => (Err(bad), true),
        };
        if send.blocking_send(item).is_err() || is_last {
            return;
        }
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> Problem {
    let code = if error.kind() == ErrorKind::NotFound { EXIT_UNKNOWN } else { EXIT_USAGE };
    let hint = "name a file that can be read and is UTF-8, or `-` for stdin";
    Problem::new(code, format!("cannot read {name}"), error.to_string(), hint)
}

pub(crate) fn read_script(file: &Path) -> Result<Scripted, Problem> {
    let mut text = String::new();
    let read = if is_stdin(file) {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|read| text = read)
    };
    read.map_err(|error| unreadable(&name_of(file), &error))?;
    Scripted::from_json(&text).map_err(|error| {
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
    script: Option<Scripted>,
    stateless: bool,
}

impl RunInput<'_> {
    async fn run(
        self,
        store: Arc<SledStore>,
        input: (PostedTask, Input),
        interrupts: &Interrupts,
        screen: &mut Screen,
    ) -> Result<Answer, Problem> {
        let read = name_newer(store.as_ref())?;
        let system = self.start(store).await.map_err(|error| Problem::system(&error, None))?;
        let executed = Driver::new(&system, screen).drive(input, interrupts).await;
        let stopped = stop(system).await;
        let answer = executed?;
        stopped?;
        Ok(answer.and(read))
    }

    async fn start(&self, store: Arc<SledStore>) -> Result<System, Error> {
        let mut builder = System::builder(self.dir).log(store).live_actors(LIVE_ACTORS);
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
