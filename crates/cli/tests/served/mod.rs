//! Servers for the tests: `taskreel serve` as a process, and requests to it.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::binary::{Place, Ran, end};

/// The time within which anything that a test waits for must have come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The number of servers that were started.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A server that runs; it is killed when the test ends early.
pub(crate) struct Served {
    child: Option<Child>,
    out: Option<BufReader<ChildStdout>>,
    /// Diagnostics go to a file: nobody reads a pipe meanwhile.
    err: std::path::PathBuf,
    pub(crate) address: SocketAddr,
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Served {
    /// Starts a server and waits until it has said where it listens.
    pub(crate) fn start(place: &Place, line: &str, env: &[(&str, &str)]) -> Self {
        Self::start_as(place, ("serve", "agents"), line, env)
    }

    /// Starts a command that serves, and waits until it has said where the handler listens.
    pub(crate) fn start_as(
        place: &Place,
        (command, handler): (&str, &str),
        line: &str,
        env: &[(&str, &str)],
    ) -> Self {
        let mut command = place.command([command, "--json"].into_iter().chain(line.split_whitespace()));
        command.envs(env.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
        // Several servers may share the place.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let err = place.path().join(format!("diagnostics-{number}"));
        command.stderr(std::fs::File::create(&err).unwrap());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut served = Self { child: Some(child), out: Some(out), err, address };
        served.address = served.said(handler);
        served
    }

    /// Reads the address of a handler that the server says next.
    fn said(&mut self, handler: &str) -> SocketAddr {
        let mut line = String::new();
        self.out.as_mut().unwrap().read_line(&mut line).unwrap();
        let Ok(said) = serde_json::from_str::<serde_json::Value>(&line) else {
            panic!("{line:?} {}", std::fs::read_to_string(&self.err).unwrap());
        };
        assert_eq!(
            (said["schema"].as_str(), said["face"].as_str()),
            (Some("taskreel.serve/1"), Some(handler))
        );
        SocketAddr::from(([127, 0, 0, 1], u16::try_from(said["port"].as_u64().unwrap()).unwrap()))
    }

    /// Returns the registry's own port, which the server says second.
    pub(crate) fn second(&mut self) -> Self {
        self.of("registry")
    }

    /// Returns the port of its own of a handler that the server says next.
    pub(crate) fn of(&mut self, handler: &str) -> Self {
        let address = self.said(handler);
        Self { child: None, out: None, err: self.err.clone(), address }
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Returns the diagnostics so far.
    pub(crate) fn told(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.err).unwrap()).into_owned()
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Ran {
        let mut rest = Vec::new();
        self.out.take().unwrap().read_to_end(&mut rest).unwrap();
        let ended = end(self.child.take().unwrap()).0;
        Ran(std::process::Output { stdout: rest, stderr: std::fs::read(&self.err).unwrap(), ..ended })
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request, and returns the status and the body of its answer; nothing where the connection was closed.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = self.connect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // A server that ends may reset the connection.
        let _ = stream.read_to_string(&mut answer);
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().unwrap(), body.to_owned()))
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.send("GET", path, "", "").unwrap()
    }
}

/// Returns a task that calls a tool.
pub(crate) fn task(id: &str, tool: &str, args: &str) -> String {
    format!(
        r#"{{"id":"{id}","messages":[{{"id":"m-{id}","role":"user","parts":[{{"type":"tool_call","content":{{"tool_name":"{tool}","args":{args},"call_id":"c-{id}"}}}}]}}]}}"#
    )
}

/// Waits until this holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Returns the kinds of the events of the programs that had the log open.
pub(crate) fn kinds(place: &Place) -> Vec<String> {
    let events = place.run("events system-0 --json").ended(0).json();
    events.iter().map(|event| event.get("kind").unwrap().as_str().unwrap().to_owned()).collect()
}
