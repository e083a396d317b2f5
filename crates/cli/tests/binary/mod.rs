//! Runs the built binary in a folder of its own.
#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use proto_events::id::ExpectedVersion;
use proto_events::json::JsonValue as Value;
use taskreel_log::api::{Append, AppendPart, EventStore as _};
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{draft, id};
use tempfile::TempDir;

/// The time within which each process that a test waits for must have ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a command that starts a program as a terminal would: with the signals that end it, also where the tests run as a job
/// in the background or under `nohup`, which ignore some of them.
pub(crate) fn program(name: &str) -> Command {
    if ignored_signals() & 0b100_0000_0000_0011 == 0 {
        return Command::new(name);
    }
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", name]);
    command
}

/// Returns the signals that this process ignores, each as the bit of its number less one.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.map_or(0, |ignored| u64::from_str_radix(ignored.trim(), 16).unwrap())
}

/// Waits for the end of a process, which has what it says collected.
#[track_caller]
pub(crate) fn end(child: Child) -> Ran {
    Ran(in_time(child.id(), || child.wait_with_output().unwrap()))
}

/// Waits for the end of a process, and returns its exit code.
#[track_caller]
pub(crate) fn exit_code(child: &mut Child) -> Option<i32> {
    in_time(child.id(), || child.wait().unwrap().code())
}

/// Runs what waits for a process; the process is killed, and the test fails, after two minutes.
#[track_caller]
fn in_time<T>(id: u32, wait: impl FnOnce() -> T) -> T {
    let words = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default().replace('\0', " ");
    let (done, is_done) = channel::<()>();
    let watch = std::thread::spawn(move || {
        let is_late = is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        is_late && Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap().success()
    });
    let waited = wait();
    drop(done);
    assert!(!watch.join().unwrap(), "was waited for for {PATIENCE:?}, and killed: {words}");
    waited
}

/// A folder in which the binary runs, without those parts of the caller's environment that affect its output.
pub(crate) struct Place {
    dir: TempDir,
    /// The cache folder, in which logs are copied for reading.
    cache: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the names of the copies that readers have left.
    pub(crate) fn copies(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.cache.path().join("taskreel")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub(crate) fn command<I, A>(&self, args: I) -> Command
    where
        I: IntoIterator<Item = A>,
        A: AsRef<OsStr>,
    {
        let mut command = program(env!("CARGO_BIN_EXE_taskreel"));
        command.args(args).current_dir(self.path()).env("LC_ALL", "C.UTF-8");
        command.env("XDG_CACHE_HOME", self.cache.path());
        for name in ["TASKREEL_DATA_DIR", "NO_COLOR", "CLICOLOR_FORCE", "RUST_LOG"] {
            command.env_remove(name);
        }
        for name in
            ["TASKREEL_TOKEN", "TASKREEL_TOKEN_FILE", "TASKREEL_AUTH_FILE", "NOTIFY_SOCKET", "WATCHDOG_USEC"]
        {
            command.env_remove(name);
        }
        command
    }

    /// Runs the binary to its end; the arguments are the words of `line`.
    pub(crate) fn run(&self, line: &str) -> Ran {
        run(&mut self.command(line.split_whitespace()))
    }

    /// Runs a command that reads, as [`read`] does.
    pub(crate) fn read(&self, line: &str) -> Ran {
        read(&mut self.command(line.split_whitespace()), line)
    }

    /// Runs `taskreel run -` with more arguments and these tasks on stdin.
    pub(crate) fn run_tasks(&self, tasks: &str, more: &str) -> Ran {
        let args = ["run", "-"].into_iter().chain(more.split_whitespace());
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that refuses its arguments ends before it has read its input.
        match child.stdin.take().unwrap().write_all(tasks.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
            _ => {}
        }
        end(child)
    }

    /// Returns names and contents of all files directly in a folder.
    pub(crate) fn files(&self, folder: &str) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = std::fs::read_dir(self.path().join(folder))
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let content = std::fs::read(entry.path()).unwrap_or_default();
                (entry.file_name().to_string_lossy().into_owned(), content)
            })
            .collect();
        files.sort();
        files
    }
}

/// Runs a command to its end, without input.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Ran {
    end(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Runs a command that reads to its end. One that follows the log has none: it is asked to end once it has shown an event.
pub(crate) fn read(command: &mut Command, line: &str) -> Ran {
    if !line.starts_with("tail") {
        return run(command);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let mut rest = first.into_bytes();
    out.read_to_end(&mut rest).unwrap();
    Ran(Output { stdout: rest, ..end(child).0 })
}

/// The output of a finished process.
pub(crate) struct Ran(pub(crate) Output);

impl Ran {
    pub(crate) fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{}{}", self.out(), self.err());
        self
    }

    /// Asserts an error of three lines that contains all these words.
    #[track_caller]
    pub(crate) fn told(self, words: &[&str]) -> Self {
        let err = self.err();
        let lines: Vec<_> = err.lines().collect();
        let error = lines.iter().position(|line| line.starts_with("error: ")).expect("an error is told");
        assert!(lines[error + 1].starts_with("  why: "), "{err}");
        assert!(lines[error + 2].starts_with("  try: "), "{err}");
        for word in words {
            assert!(err.contains(word), "`{word}` is not in\n{err}");
        }
        self
    }

    /// Returns every line of stdout as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        let out = self.out();
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Appends a task whose first event has a kind or a version that this release does not know.
pub(crate) fn add_newer(place: &Place, name: &str, kind: u16, schema: u8) {
    add_to(&place.path().join("taskreel-log"), name, kind, schema);
}

/// Appends such a task to the log in a directory.
pub(crate) fn add_to(log: &Path, name: &str, kind: u16, schema: u8) {
    let store = SledStore::open(log).unwrap();
    let mut draft = draft(&format!("task-taskreel/{name}"), 1, b"of a later release");
    (draft.set_id, draft.epoch) = (id(99), store.fence().epoch);
    (draft.events[0].kind, draft.events[0].schema) = (kind, schema);
    let (fence, set_id, stream) = (store.fence(), draft.set_id, draft.stream.clone());
    let part = AppendPart { stream, expected: ExpectedVersion::NoStream, record: draft.encode().unwrap() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.append(Append { fence, set_id, parts: vec![part] })).unwrap();
    store.close().unwrap();
}

/// Three tasks: one succeeds, one fails, one asks the model.
pub(crate) const TASKS: &str = r#"{"id":"sum-0001","messages":[{"id":"m1","role":"user","parts":[{"type":"tool_call","content":{"tool_name":"add","args":{"a":3,"b":4},"call_id":"c1"}}]}]}
{"id":"bad-0001","messages":[{"id":"m2","role":"user","parts":[{"type":"tool_call","content":{"tool_name":"fail","args":{"message":"no"},"call_id":"c2"}}]}]}
{"id":"ask-0001","messages":[{"id":"m3","role":"user","parts":[{"type":"infer","content":{"prompt":"what is it?"}}]}]}
"#;

/// The model's replies to the third task.
pub(crate) const SCRIPT: &str = r#"{"what is it": [{"type":"tool_call","tool":"lookup","args":{"city":"Oslo"}}, {"type":"final","content":"20 degrees"}]}"#;

/// Returns a place with a small log: one task completed, one failed, one that asked the model.
pub(crate) fn small_log() -> Place {
    let place = Place::new();
    std::fs::write(place.path().join("script.json"), SCRIPT).unwrap();
    place.run_tasks(TASKS, "--script script.json").ended(1);
    place
}
