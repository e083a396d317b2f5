//! Shared by `demo` and `run`: a runtime, and the ways to stop. The other commands end at the first signal.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taskreel::System;
use taskreel_log::sled::remove_private_copies;
use tokio::sync::watch;

use crate::print::problem::{EXIT_INTERRUPTED, EXIT_NO, Problem};
use crate::print::screen::{count, note};

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

/// Stops a system in order: the log ends with `Stopped`. Calls that take longer than `STOP_WITHIN` are interrupted, and
/// recovered at the next start as after a crash.
pub(crate) async fn stop(system: System) -> Result<(), Problem> {
    let left = system.shutdown_within(STOP_WITHIN).await.map_err(|error| Problem::system(&error, None))?;
    if !left.interrupted.is_empty() {
        let calls = count(left.interrupted.len() as u64, "call", "calls");
        note(&format!("{calls} in flight did not end in time; the next start handles them as after a crash"));
    }
    Ok(())
}

/// The signals that ask this process to end: SIGINT, SIGTERM and SIGHUP alike.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    first: watch::Receiver<Option<&'static str>>,
}

impl Interrupts {
    /// Begins to listen, within a runtime. The first signal is left to [`Interrupts::first`], a second one ends the
    /// process at once, which loses nothing that was acknowledged. A signal that this process was started with as ignored
    /// (`nohup`) stays ignored.
    pub(crate) fn listen() -> Self {
        let (tell, first) = watch::channel(None);
        tokio::spawn(async move {
            let mut signals = signals::Signals::listen();
            let name = signals.next().await;
            tell.send_replace(Some(name));
            signals.next().await;
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        });
        Self { first }
    }

    /// Waits for the first signal and returns the command's error; `next` is its advice.
    pub(crate) async fn first(&self, next: &str) -> Problem {
        let mut first = self.first.clone();
        let Ok(name) = first.wait_for(Option::is_some).await.map(|name| name.unwrap_or_default()) else {
            // The listener has ended with its runtime; no signal can come.
            return std::future::pending().await;
        };
        let why = format!("{name} was received; acknowledged events are on disk");
        Problem::new(EXIT_INTERRUPTED, "interrupted", why, next)
    }
}

/// The sign that this process is about to exit because of a signal.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Ends this process at the first signal, for commands without anything to finish: the private copies of a log are removed,
/// the exit code is that of an interruption.
pub(crate) fn end_at_signals() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
            // Without a handler a signal ends the process at once, and the next command removes its copies.
            return;
        };
        // Registered before this returns, so that no copy is made without it.
        let mut signals = {
            let _within = runtime.enter();
            signals::Signals::listen()
        };
        let wait = move || {
            runtime.block_on(signals.next());
            ENDS.store(true, Ordering::Release);
            remove_private_copies();
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        };
        if let Err(error) = std::thread::Builder::new().name("signals".to_owned()).spawn(wait) {
            note(&format!("note: a signal does not end this command: no thread could be started ({error})"));
        }
    });
}

/// Waits for the end if this process is about to exit because of a signal: what failed meanwhile failed because of that.
pub(crate) fn await_end() {
    while ENDS.load(Ordering::Acquire) {
        std::thread::park();
    }
}

#[cfg(unix)]
mod signals {
    //! The signals of Unix.

    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// The signals that are listened to.
    pub(super) struct Signals([Option<Signal>; 3]);

    impl Signals {
        pub(super) fn listen() -> Self {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            // Without a handler a signal ends the process at once, which loses nothing.
            Self(kinds.map(|kind| (!is_ignored(kind)).then(|| signal(kind).ok()).flatten()))
        }

        /// Waits for the next signal and returns its name.
        pub(super) async fn next(&mut self) -> &'static str {
            async fn one(signal: &mut Option<Signal>) {
                let received = match signal {
                    Some(signal) => signal.recv().await.is_some(),
                    None => false,
                };
                if !received {
                    std::future::pending::<()>().await;
                }
            }
            let [interrupt, terminate, hangup] = &mut self.0;
            tokio::select! {
                () = one(interrupt) => "SIGINT",
                () = one(terminate) => "SIGTERM",
                () = one(hangup) => "SIGHUP",
            }
        }
    }

    /// Whether this process was started with the signal ignored, as far as the system tells.
    fn is_ignored(kind: SignalKind) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
        let bit = u32::try_from(kind.as_raw_value() - 1).ok().and_then(|bit| 1_u64.checked_shl(bit));
        bit.is_some_and(|bit| mask & bit != 0)
    }
}

#[cfg(not(unix))]
mod signals {
    //! The one signal of the other systems.

    /// The signals that are listened to.
    pub(super) struct Signals;

    impl Signals {
        pub(super) fn listen() -> Self {
            Self
        }

        /// Waits for the next signal and returns its name.
        pub(super) async fn next(&mut self) -> &'static str {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
            "ctrl-C"
        }
    }
}
