//! The servers that are loaded, each a process of its own, and our system without one.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use taskreel::{Builder, JsonSchema, PostedTask, System, TaskState};
use taskreel_log::ports::Ports;

use crate::load::{Load, Rate, task};
use crate::report::{Failure, scratch};

/// The variable with the directory of the log, for the process that serves.
pub(crate) const SERVE: &str = "TASKREEL_BENCH_SERVE";

#[derive(Deserialize, JsonSchema)]
struct Two {
    a: i64,
    b: i64,
}

/// Returns a system on a durable log, with the tool `add`.
pub(crate) fn builder(dir: &Path) -> Builder {
    System::builder(dir)
        .tool("add", "Adds two numbers", |two: Two| async move { Ok::<_, Infallible>(two.a + two.b) })
}

fn dir() -> Result<tempfile::TempDir, Failure> {
    Ok(tempfile::tempdir_in(scratch())?)
}

/// Serves until the standard input ends.
pub(crate) fn serve(dir: &OsStr) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let system = builder(Path::new(dir)).start().await?;
        let serving = taskreel_http::serve(system.clone(), "127.0.0.1:0").await?;
        println!("{}", serving.address());
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
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

/// A server of ours.
pub(crate) struct Ours {
    _process: Process,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Ours {
    pub(crate) fn start() -> Result<Self, Failure> {
        let dir = dir()?;
        let mut command = Command::new(std::env::current_exe()?);
        let (process, line) = Process::start(command.env(SERVE, dir.path()))?;
        Ok(Self { _process: process, address: line.parse()?, _dir: dir })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The server of the real Protolink.
pub(crate) struct Theirs {
    _process: Process,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

/// Returns the Python with Protolink; `None`, with a note, where there is none.
pub(crate) fn python() -> Option<std::ffi::OsString> {
    let python = std::env::var_os("TASKREEL_PROTOLINK_064");
    if python.is_none() {
        println!("left out: TASKREEL_PROTOLINK_064 names no Python with protolink 0.6.4");
    }
    python
}

/// Returns the path of a script for the real Protolink.
pub(crate) fn script(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/protolink").join(name)
}

impl Theirs {
    pub(crate) fn start() -> Result<Option<Self>, Failure> {
        let Some(python) = python() else { return Ok(None) };
        let dir = dir()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(python);
        command.arg(script("agent.py")).args(["agent", &address.port().to_string(), "theirs", "http"]);
        command.arg("--state").arg(dir.path().join("state.db")).stderr(Stdio::null());
        let (process, line) = Process::start(&mut command)?;
        if line != "ready" {
            return Err(format!("the agent of Protolink does not start: {line}").into());
        }
        Ok(Some(Self { _process: process, address, _dir: dir }))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
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
        let callers: Vec<_> = (0..load.connections)
            .map(|number| tokio::spawn(caller(system.clone(), number, begin, end)))
            .collect();
        let mut times = Vec::new();
        for caller in callers {
            times.extend(caller.await??);
        }
        system.shutdown().await?;
        Ok(Rate::of(times, load.time))
    })
}

async fn caller(system: System, number: usize, begin: Instant, end: Instant) -> Result<Vec<f64>, Failure> {
    let (mut times, mut sent, mut mint) = (Vec::new(), 0_u64, Ports::default());
    while Instant::now() < end {
        let asked = Instant::now();
        let posted = PostedTask::parse(&task(&format!("load-{number}-{sent}")), &mut mint)?;
        let done = system.submit(posted).await?.finished().await?;
        // What a server does with it.
        let text = done.to_json();
        if done.state() != TaskState::Completed || text.as_str().is_empty() {
            return Err(format!("the task is {}", done.state()).into());
        }
        let now = Instant::now();
        if (begin..end).contains(&now) {
            times.push((now - asked).as_secs_f64() * 1_000.0);
        }
        sent += 1;
    }
    Ok(times)
}

/// The log of a system, for what is read from it.
pub(crate) fn log_dir() -> Result<Arc<tempfile::TempDir>, Failure> {
    Ok(Arc::new(dir()?))
}
