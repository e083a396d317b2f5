//! The program of an MCP server and all that it starts: one process group, which ends with its connection.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

/// Waits until its standard input ends, which it does when this process lets go of it or dies in any way. Then the group may end by
/// itself for half a second, is asked to for two, and is killed.
#[cfg(unix)]
const GUARD: &str = r#"
read -r _
wait_for() { n=0; while [ "$n" -lt "$1" ]; do kill -0 "-$2" 2>/dev/null || exit 0; sleep 0.1; n=$((n+1)); done; }
wait_for 5 "$1"
kill -TERM "-$1" 2>/dev/null
wait_for 20 "$1"
kill -KILL "-$1" 2>/dev/null
"#;

/// The longest wait for the group to end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A running server.
pub(crate) struct ServerProcess {
    child: Child,
    /// The program that ends the group. Without it only the child is killed.
    guard: Option<Child>,
}

impl ServerProcess {
    /// Watches over a child that leads a group of its own.
    pub(crate) fn new(child: Child) -> Self {
        let guard = child.id().and_then(guard_of);
        Self { child, guard }
    }

    /// Ends the group, and waits until it has ended.
    pub(crate) async fn stop(&mut self) {
        let Some(guard) = &mut self.guard else { return };
        drop(guard.stdin.take());
        let ended = async { tokio::join!(self.child.wait(), guard.wait()) };
        if tokio::time::timeout(END_WITHIN, ended).await.is_err() {
            tracing::warn!("the program of an MCP server does not end");
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The guard ends the group, once its input is closed with the child's.
        if self.guard.is_none() {
            let _ = self.child.start_kill();
        }
    }
}

#[cfg(unix)]
fn guard_of(group: u32) -> Option<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", GUARD, "guard", &group.to_string()]).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = command.spawn();
    started.inspect_err(|error| tracing::warn!(%error, "what an MCP server starts may outlive it")).ok()
}

#[cfg(not(unix))]
fn guard_of(_: u32) -> Option<Child> {
    None
}

/// Makes a program the leader of a group of its own, with its input and output for us.
pub(crate) fn in_own_group(command: &mut Command) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    #[cfg(unix)]
    command.process_group(0);
}
