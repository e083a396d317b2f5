//! The real packages, each in a Python of its own: scripts that are run, and agents that serve until they are dropped.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A version of Protolink, and the Python that has it.
pub(crate) struct Package {
    pub(crate) version: &'static str,
    python: OsString,
}

/// Returns the versions that can be had: both where `CI=true`.
pub(crate) fn packages() -> Vec<Package> {
    let of = |(version, name): (&'static str, &str)| {
        let python = std::env::var_os(name);
        if python.is_none() {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "{name} names no Python with protolink {version}; `tests/interop/venv` makes one"
            );
            eprintln!("not tried with protolink {version}: {name} is not set");
        }
        python.map(|python| Package { version, python })
    };
    [("0.6.4", "TASKREEL_PROTOLINK_064"), ("0.8.3", "TASKREEL_PROTOLINK_083")]
        .into_iter()
        .filter_map(of)
        .collect()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/protolink").join(name)
}

/// Returns a free port. Another process could take it before it is used; the test fails then.
pub(crate) fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Package {
    /// Runs their client's steps against a server, and returns what each printed.
    pub(crate) async fn client(&self, url: &str, steps: &[&str]) -> Vec<Value> {
        let output = tokio::process::Command::new(&self.python)
            .arg(script("client.py"))
            .arg(url)
            .args(steps)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let made: Vec<Value> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(made.len(), steps.len(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
        made
    }

    /// Starts an agent of theirs at a free port.
    pub(crate) fn agent(&self, name: &str, transport: &str, more: &[&str]) -> Theirs {
        let port = port();
        let scheme = if transport == "websocket" { "ws" } else { "http" };
        let args = ["agent", &port.to_string(), name, transport];
        self.start(&args, more, format!("{scheme}://127.0.0.1:{port}"))
    }

    /// Starts a registry of theirs at a free port.
    pub(crate) fn registry(&self) -> Theirs {
        self.registry_at(port())
    }

    /// Starts a registry of theirs at this port.
    pub(crate) fn registry_at(&self, port: u16) -> Theirs {
        self.start(&["registry", &port.to_string()], &[], format!("http://127.0.0.1:{port}"))
    }

    fn start(&self, args: &[&str], more: &[&str], url: String) -> Theirs {
        let mut command = Command::new(&self.python);
        command.arg(script("agent.py")).args(args).args(more);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready", "protolink {} does not start", self.version);
        Theirs { child, url }
    }
}

/// A process of theirs, which ends when this is dropped.
pub(crate) struct Theirs {
    child: Child,
    pub(crate) url: String,
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // It ends with its standard input.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}
