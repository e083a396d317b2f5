//! Shared by `demo` and `run`: a runtime, and the ways to stop.

use std::time::Duration;

use taskreel::System;

use crate::print::problem::{EXIT_INTERRUPTED, EXIT_NO, Problem};

/// The time that an interrupted command waits for calls in flight before it leaves them to the next start.
const STOP_WITHIN: Duration = Duration::from_millis(500);

/// Returns the runtime for calls.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| {
        Problem::new(
            EXIT_NO,
            "the command could not start",
            format!("the runtime could not be created: {error}"),
            "check the limits on threads and files of this user (ulimit -a)",
        )
    })
}

/// Stops a system. Calls that take longer than `STOP_WITHIN` are abandoned, as in a crash, and recovered at
/// the next start.
pub(crate) async fn stop(system: System) -> Result<(), Problem> {
    let log = system.log();
    if let Ok(stopped) = tokio::time::timeout(STOP_WITHIN, system.shutdown()).await {
        return stopped.map_err(|error| Problem::system(&error, None));
    }
    let closed = tokio::task::spawn_blocking(move || log.close()).await;
    match closed {
        Ok(closed) => closed.map_err(Problem::from),
        // Closing panicked; what was acknowledged is on disk all the same.
        Err(_) => Ok(()),
    }
}

/// Completes when the user presses ctrl-C.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler ctrl-C ends the process at once, which loses nothing.
        std::future::pending::<()>().await;
    }
}

/// Returns the error of an interrupted command; `next` is its advice.
pub(crate) fn interruption(next: &str) -> Problem {
    Problem::new(EXIT_INTERRUPTED, "interrupted", "ctrl-C was pressed; acknowledged events are on disk", next)
}
