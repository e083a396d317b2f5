//! What `demo` and `run` share: a runtime, and the ways to stop.

use std::time::Duration;

use taskreel::System;
use taskreel::inspect::cli::Problem;
use taskreel::inspect::cli::problem::{EXIT_INTERRUPTED, EXIT_NO};

/// How long an interrupted command waits for calls in flight before it leaves them to the next start.
const STOP_WITHIN: Duration = Duration::from_millis(500);

/// The runtime on which calls run.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| {
        Problem::new(
            EXIT_NO,
            "cannot start",
            format!("no runtime: {error}"),
            "see how many threads and files this user may have (ulimit -a)",
        )
    })
}

/// Stops a system whose work is done, or is to be left: calls that take longer than a moment are abandoned, as in a
/// crash, and dealt with at the next start.
pub(crate) async fn stop(system: System) -> Result<(), Problem> {
    let log = system.log();
    if let Ok(stopped) = tokio::time::timeout(STOP_WITHIN, system.shutdown()).await {
        return stopped.map_err(|error| Problem::system(&error, None));
    }
    let closed = tokio::task::spawn_blocking(move || log.close()).await;
    match closed {
        Ok(closed) => closed.map_err(Problem::from),
        // The closing itself broke; what was acknowledged is on disk all the same.
        Err(_) => Ok(()),
    }
}

/// Ends when the person at the terminal wants it.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler ctrl-C ends the process at once, which loses nothing.
        std::future::pending::<()>().await;
    }
}

/// What an interrupted command ends with; `next` says how to go on.
pub(crate) fn interruption(next: &str) -> Problem {
    Problem::new(
        EXIT_INTERRUPTED,
        "interrupted",
        "somebody pressed ctrl-C; what was acknowledged is on disk",
        next,
    )
}
