//! A runtime for calls, and the ways to stop. A command ends at the first signal, unless it has begun something that it must
//! finish or undo first.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

use taskreel::System;
use taskreel_log::sled::remove_private_copies;
use tokio::sync::watch;

use crate::print::pager;
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

/// The duties of this process when it is asked to end.
#[derive(Default)]
struct ExitDuties {
    /// Whether the first signal is left to the command.
    is_in_order: bool,
    /// The files that were begun and are not complete.
    begun: Vec<PathBuf>,
    /// The functions that are called at the first signal that is left to the command.
    tell: Vec<Box<dyn FnOnce() + Send>>,
}

/// Locked while this process exits at a signal, so that nothing new begins then.
static ENDING: Mutex<ExitDuties> =
    Mutex::new(ExitDuties { is_in_order: false, begun: Vec::new(), tell: Vec::new() });

/// The sign that this process is about to exit because of a signal.
static ENDS: AtomicBool = AtomicBool::new(false);

fn ending() -> MutexGuard<'static, ExitDuties> {
    ENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the channel with the name of the first signal that was left to the command.
fn first_signal() -> &'static watch::Sender<Option<&'static str>> {
    static FIRST: OnceLock<watch::Sender<Option<&'static str>>> = OnceLock::new();
    FIRST.get_or_init(|| watch::Sender::new(None))
}

/// The signals that ask this process to end, SIGINT, SIGTERM and SIGHUP alike, for a command that ends in order.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    first: watch::Receiver<Option<&'static str>>,
}

impl Interrupts {
    /// Leaves the first signal to the command from now on: one that came before has ended the process. A second one ends it
    /// at once, which loses nothing that was acknowledged.
    pub(crate) fn take_over() -> Self {
        let mut ending = ending();
        ending.is_in_order = true;
        Self { first: first_signal().subscribe() }
    }

    /// Says on stderr if SIGINT cannot end this command, as in a job that a script starts in the background.
    pub(crate) fn tell_ignored() {
        if listener::is_interrupt_ignored() {
            note(
                "note: SIGINT (Ctrl+C) is ignored here, as the program that started this one left it; SIGTERM ends it in order",
            );
        }
    }

    /// Returns the command's error if a signal was received; `next` is its advice.
    pub(crate) fn now(&self, next: &str) -> Option<Problem> {
        self.first.borrow().map(|name| interrupted(name, next))
    }

    /// Waits for the first signal and returns the command's error; `next` is its advice.
    pub(crate) async fn first(&self, next: &str) -> Problem {
        let mut first = self.first.clone();
        let Ok(name) = first.wait_for(Option::is_some).await.map(|name| name.unwrap_or_default()) else {
            // No signal can come any more.
            return std::future::pending().await;
        };
        interrupted(name, next)
    }

    /// Calls `tell` at the first signal, which may have come already.
    pub(crate) fn tell(&self, tell: impl FnOnce() + Send + 'static) {
        let mut ending = ending();
        if self.first.borrow().is_some() {
            tell();
        } else {
            ending.tell.push(Box::new(tell));
        }
    }
}

fn interrupted(name: &str, next: &str) -> Problem {
    let why = format!("{name} was received; acknowledged events are on disk");
    Problem::new(EXIT_INTERRUPTED, "interrupted", why, next)
}

/// A file that a command has begun. A signal before it is dropped removes the file.
#[derive(Debug)]
pub(crate) struct UnfinishedFile(Option<PathBuf>);

impl UnfinishedFile {
    /// Notes a file that the command is about to make; one that exists already is not its own.
    pub(crate) fn new(path: &Path) -> Self {
        let own = (!path.exists()).then(|| path.to_owned());
        ending().begun.extend(own.clone());
        Self(own)
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        ending().begun.retain(|path| Some(path) != self.0.as_ref());
    }
}

/// Begins to listen for signals. The first one ends this process: private copies of a log and files that are not complete are
/// removed, the exit code is that of an interruption. A command that [takes over](Interrupts::take_over) ends in order
/// instead. A signal that this process was started with as ignored (`nohup`) stays ignored.
pub(crate) fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
            // Without a handler a signal ends the process at once, and the next command removes its copies.
            return;
        };
        // Registered before this returns, so that nothing is begun without it.
        let mut signals = {
            let _within = runtime.enter();
            listener::Signals::listen()
        };
        let wait = move || {
            let mut name = runtime.block_on(signals.next());
            // The keys of a terminal are the pager's while it shows the output.
            while name == "SIGINT" && pager::is_open() {
                name = runtime.block_on(signals.next());
            }
            let mut ending = ending();
            if ending.is_in_order {
                first_signal().send_replace(Some(name));
                let tell = std::mem::take(&mut ending.tell);
                drop(ending);
                for tell in tell {
                    tell();
                }
                runtime.block_on(signals.next());
                ending = self::ending();
            }
            ENDS.store(true, Ordering::Release);
            remove_private_copies();
            // What cannot be removed is left, as it would be without a handler.
            ending.begun.iter().for_each(|path| drop(std::fs::remove_file(path)));
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
mod listener {
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
            async fn raise(signal: &mut Option<Signal>) {
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
                () = raise(interrupt) => "SIGINT",
                () = raise(terminate) => "SIGTERM",
                () = raise(hangup) => "SIGHUP",
            }
        }
    }

    /// Whether this process was started with SIGINT ignored.
    pub(super) fn is_interrupt_ignored() -> bool {
        is_ignored(SignalKind::interrupt())
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
mod listener {
    //! The one signal of the other systems.

    /// The signals that are listened to.
    pub(super) struct Signals;

    /// Whether this process was started with ctrl-C ignored: not told here.
    pub(super) fn is_interrupt_ignored() -> bool {
        false
    }

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
