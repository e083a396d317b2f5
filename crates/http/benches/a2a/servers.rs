//! The servers that are loaded, each a process of its own, and our system without one.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use taskreel::handler::HandlerContext;
use taskreel::tool::ToolError;
use taskreel::{Builder, Message, Part, System, Task, TaskState};
use taskreel_http::{A2a, Server};

use crate::load::{Load, Place, Rate};
use crate::report::{Failure, scratch};
use crate::rust_peer;

/// The variable that says which server a process is: `rust`, or the directory of the log of ours.
pub(crate) const SERVE: &str = "TASKREEL_BENCH_SERVE";

/// A side of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Rust,
    Python,
}

impl Side {
    /// Returns the name by which it is chosen.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "http",
            Self::Rust => "rust",
            Self::Python => "python",
        }
    }

    /// Returns the name in the rows.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ours => "our server",
            Self::Rust => "official Rust, memory",
            Self::Python => "SDK for Python, SQLite",
        }
    }

    /// Starts the server; `None`, with a note, where it cannot be had.
    pub(crate) fn start(self) -> Result<Option<Running>, Failure> {
        let dir = dir()?;
        let mut command = match self {
            Self::Ours => of_bench(dir.path().as_os_str())?,
            Self::Rust => of_bench("rust".as_ref())?,
            Self::Python => {
                let Some(python) = std::env::var_os("TASKREEL_A2A_SDK") else {
                    println!("left out: TASKREEL_A2A_SDK names no Python with A2A's SDK");
                    return Ok(None);
                };
                let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/a2a/server.py");
                let mut command = Command::new(python);
                command.arg(script).arg(dir.path().join("tasks.db"));
                command
            }
        };
        let (process, line) = Process::start(&mut command)?;
        let address = line.trim_start_matches("http://").parse()?;
        let path = if self == Self::Python { "/rpc" } else { "/" };
        Ok(Some(Running { _process: process, place: Place { address, path }, _dir: dir }))
    }
}

fn of_bench(side: &std::ffi::OsStr) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(SERVE, side);
    Ok(command)
}

/// A server that runs.
pub(crate) struct Running {
    _process: Process,
    place: Place,
    _dir: tempfile::TempDir,
}

impl Running {
    pub(crate) fn place(&self) -> Place {
        self.place
    }
}

/// The variable that makes our agent's work a recorded call.
const AGENT: &str = "TASKREEL_BENCH_AGENT";

/// Returns a system on a durable log, whose agent says what it heard. What it says follows from the message alone, as at the other
/// sides, whose agents have no record of their work beside the task: it is a responder, and its answer is on disk before it is told.
/// As a handler the same code is a call: its intent is on disk before it begins, and its outcome follows in a second write.
fn builder(dir: &Path) -> Builder {
    let builder = System::builder(dir);
    if std::env::var_os(AGENT).is_some_and(|agent| agent == "handler") {
        return builder.handler(|_: HandlerContext, message: Message| async move {
            Ok::<_, ToolError>(heard(&message))
        });
    }
    builder.responder(|_: &Task, message: &Message| heard(message))
}

fn heard(message: &Message) -> String {
    let heard = message.parts.first().and_then(|part| part.content().to_str()).unwrap_or_default();
    format!("heard {heard}")
}

fn dir() -> Result<tempfile::TempDir, Failure> {
    Ok(tempfile::tempdir_in(scratch())?)
}

/// Serves until the standard input ends.
pub(crate) fn serve(side: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let ended =
            || tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        if side == "rust" {
            println!("{}", rust_peer::serve().await?);
            ended().await??;
            return Ok(());
        }
        let system = builder(Path::new(side)).start().await?;
        let handler = Arc::new(A2a::new(system.clone()));
        let serving = Server::new().mount("/", handler).start("127.0.0.1:0").await?;
        println!("{}", serving.address());
        ended().await??;
        serving.stop().await?;
        Ok(system.shutdown().await?)
    })
}

/// A process that ends when its standard input does.
struct Process(Child);

impl Process {
    /// Starts the process and returns its first line.
    fn start(command: &mut Command) -> Result<(Self, String), Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("the process has no output")?;
        let process = Self(child);
        BufReader::new(out).read_line(&mut line)?;
        Ok((process, line.trim().to_owned()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}

/// Loads our system without HTTP: as many callers at once as there are connections.
pub(crate) fn own(load: Load) -> Result<Rate, Failure> {
    let dir = dir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let system = builder(dir.path()).start().await?;
        let begin = Instant::now() + load.time / 10;
        let end = begin + load.time;
        let callers: Vec<_> =
            (0..load.connections).map(|_| tokio::spawn(caller(system.clone(), begin, end))).collect();
        let mut times = Vec::new();
        for caller in callers {
            times.extend(caller.await??);
        }
        system.shutdown().await?;
        Ok(Rate::of(times, load.time))
    })
}

async fn caller(system: System, begin: Instant, end: Instant) -> Result<Vec<f64>, Failure> {
    let mut times = Vec::new();
    while Instant::now() < end {
        let asked = Instant::now();
        let done = system.submit(Part::text("hello")).await?.finished().await?;
        // What a server does with it.
        let text = done.to_json();
        if done.state() != TaskState::Completed || text.as_str().is_empty() {
            return Err(format!("the task is {}", done.state()).into());
        }
        let now = Instant::now();
        if (begin..end).contains(&now) {
            times.push((now - asked).as_secs_f64() * 1_000.0);
        }
    }
    Ok(times)
}
