//! Runs the built binary in a folder of its own.
#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use proto_events::id::ExpectedVersion;
use proto_events::json::JsonValue as Value;
use taskreel_log::api::{Append, AppendPart, EventStore as _};
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{draft, id};
use tempfile::TempDir;

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
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskreel"));
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
        Ran(self.command(line.split_whitespace()).stdin(Stdio::null()).output().unwrap())
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
        Ran(child.wait_with_output().unwrap())
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

/// Runs a command that reads to its end. One that follows the log has none: it is asked to end once it has shown an event.
pub(crate) fn read(command: &mut Command, line: &str) -> Ran {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if !line.starts_with("tail") {
        return Ran(command.output().unwrap());
    }
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let mut rest = first.into_bytes();
    out.read_to_end(&mut rest).unwrap();
    let ended = child.wait_with_output().unwrap();
    Ran(Output { stdout: rest, ..ended })
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
