//! The choice of the log's directory, and opening the log in it: for writing, or for reading without a trace.

use std::path::{Path, PathBuf};

use taskreel_log::api::{Durability, EventReader, OpenNote};
#[cfg(unix)]
use taskreel_log::sled::is_held;
use taskreel_log::sled::{LogHeader, ReadOnlyLog, ReadOnlyOptions, SledOptions, SledStore};
#[cfg(unix)]
use taskreel_log::socket::{SocketError, SocketReader, SteadyReader};
use taskreel_log::views::shell_word;

use crate::args::Global;
use crate::args::run::LogArgs;
use crate::print::problem::{EXIT_NO, Problem};
use crate::print::screen::note;

/// The default log directory of `run`.
pub(crate) const LOG_DIR: &str = "taskreel-log";

/// The default log directory of `demo`.
pub(crate) const DEMO_DIR: &str = "taskreel-demo";

/// Returns the directory to write into.
pub(crate) fn to_write(global: &Global, default: &str) -> PathBuf {
    global.data_dir.clone().unwrap_or_else(|| PathBuf::from(default))
}

/// Returns the directory to read from: the given one, otherwise the first default that exists.
pub(crate) fn to_read(global: &Global) -> PathBuf {
    global.data_dir.clone().unwrap_or_else(|| {
        [LOG_DIR, DEMO_DIR]
            .into_iter()
            .map(PathBuf::from)
            .find(|dir| dir.exists())
            .unwrap_or_else(|| PathBuf::from(LOG_DIR))
    })
}

/// Returns the full command line of `taskreel COMMAND` for this directory. If a log of `run` exists, the
/// reading commands would choose it, so the demo's directory is then named.
pub(crate) fn typed(command: &str, dir: &Path, default: &str) -> String {
    let hidden = default == DEMO_DIR && Path::new(LOG_DIR).exists();
    if dir == Path::new(default) && !hidden {
        format!("{} {command}", program())
    } else {
        typed_with(command, "--data-dir", dir)
    }
}

/// Returns the full command line with an option that names a path.
pub(crate) fn typed_with(command: &str, option: &str, path: &Path) -> String {
    format!("{} {command} {option} {}", program(), shell_word(&path.display().to_string()))
}

/// Returns the words that start this program: `cargo run` if cargo started it, otherwise its name.
pub(crate) fn program() -> &'static str {
    let by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").is_some();
    let release = std::env::current_exe().is_ok_and(|exe| exe.iter().any(|part| part == "release"));
    match (by_cargo, release) {
        (true, true) => "cargo run --release --",
        (true, false) => "cargo run --",
        (false, _) => "taskreel",
    }
}

/// A log in a directory that is open for reading. Nothing in the directory is changed by it.
pub(crate) enum ReadLog {
    /// A private copy of the log as it was when the command began.
    Copy(Box<ReadOnlyLog>),
    /// The socket of the program that has the log open; a private copy once the program has ended.
    #[cfg(unix)]
    LocalSocket(Box<SteadyReader>),
}

impl ReadLog {
    /// Returns the reader of the log.
    pub(crate) fn reader(&self) -> &dyn EventReader {
        match self {
            Self::Copy(log) => &**log,
            #[cfg(unix)]
            Self::LocalSocket(log) => &**log,
        }
    }

    /// Whether a program had the log open when this was opened.
    #[cfg(unix)]
    pub(crate) fn is_live(&self) -> bool {
        match self {
            Self::Copy(log) => log.is_live(),
            Self::LocalSocket(_) => true,
        }
    }

    /// Returns the failure after which the program that has the log open takes no appends, as far as it can be asked: a
    /// program behind a shut socket cannot be.
    pub(crate) fn poisoned(&self) -> Option<String> {
        match self {
            Self::Copy(_) => None,
            #[cfg(unix)]
            Self::LocalSocket(log) => log.socket().poisoned().ok().flatten(),
        }
    }

    /// Returns the header of the log.
    pub(crate) fn header(&self) -> LogHeader {
        match self {
            Self::Copy(log) => log.header(),
            #[cfg(unix)]
            Self::LocalSocket(log) => log.header(),
        }
    }

    fn open_notes(&self) -> &[OpenNote] {
        match self {
            Self::Copy(log) => log.open_notes(),
            #[cfg(unix)]
            Self::LocalSocket(_) => &[],
        }
    }
}

/// Opens the log in `dir` for a command that only reads: through the socket of the program that has it open, else a
/// private copy.
pub(crate) fn open_to_read(dir: &Path, global: &Global) -> Result<ReadLog, Problem> {
    open_by(dir, reading(global))
}

/// Opens the log in `dir` as [`open_to_read`] does, for a command that looks at it once: of a closed one only a part is copied.
pub(crate) fn open_to_look(dir: &Path, global: &Global) -> Result<ReadLog, Problem> {
    open_by(dir, reading(global).in_place())
}

fn open_by(dir: &Path, reading: ReadOnlyOptions) -> Result<ReadLog, Problem> {
    refuse_nothing(dir)?;
    #[cfg(unix)]
    if let Some(socket) = socket(dir) {
        say_notes(socket.header().durability, &[]);
        return Ok(ReadLog::LocalSocket(Box::new(SteadyReader::new(socket, reading))));
    }
    let log = ReadOnlyLog::open_with(dir, &reading).map_err(|error| Problem::open(&error, dir))?;
    let log = ReadLog::Copy(Box::new(log));
    say_notes(log.header().durability, log.open_notes());
    Ok(log)
}

/// Connects to the local socket of the program that has the log in `dir` open; `None` if no socket serves this
/// user. A follower whose link was dropped comes back in this way, also after a restart of the program.
#[cfg(unix)]
pub(crate) fn socket(dir: &Path) -> Option<SocketReader> {
    match SocketReader::connect(dir) {
        Ok(socket) => Some(socket),
        Err(SocketError::Shut { .. } | SocketError::NotAllowed { .. }) => None,
        Err(error) => {
            note(&format!("note: {error}"));
            None
        }
    }
}

/// Connects to the local socket of the program that has the log in `dir` open, for a decision; `None` if no program has it
/// open, or its program takes no decisions.
///
/// # Errors
/// [`Problem`] if the program has a socket that does not serve this process now: it need not be stopped for that.
#[cfg(unix)]
pub(crate) fn socket_to_decide(dir: &Path) -> Result<Option<SocketReader>, Problem> {
    match SocketReader::connect(dir) {
        Ok(socket) => Ok(Some(socket).filter(SocketReader::takes_decisions)),
        Err(SocketError::Shut { .. }) => Ok(None),
        // The socket may be that of a program that is gone.
        Err(_) if !is_held(dir) => Ok(None),
        Err(error) => Err(Problem::at_socket(&error)),
    }
}

/// Opens the log in `dir` once more for a command that has opened it before, without repeating its notes.
pub(crate) fn open_quietly(dir: &Path, global: &Global) -> Result<ReadLog, Problem> {
    let log = ReadOnlyLog::open_with(dir, &reading(global)).map_err(|error| Problem::open(&error, dir))?;
    Ok(ReadLog::Copy(Box::new(log)))
}

/// Returns the options for private copies of a log.
pub(crate) fn reading(global: &Global) -> ReadOnlyOptions {
    let options = ReadOnlyOptions::default().announce(|bytes| {
        let gib = bytes >> 30;
        note(&format!("note: the log is copied before it is read: {bytes} bytes (over {gib} GiB)"));
    });
    match &global.scratch {
        Some(folder) => options.scratch(folder),
        None => options,
    }
}

/// Opens an existing log; creates nothing.
pub(crate) fn open_existing(dir: &Path) -> Result<SledStore, Problem> {
    refuse_nothing(dir)?;
    open(dir, SledOptions { create: false, ..SledOptions::default() })
}

/// Refuses a directory that does not exist or is empty.
pub(crate) fn refuse_nothing(dir: &Path) -> Result<(), Problem> {
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Problem::no_log(dir, "the directory does not exist"))
        }
        Ok(true) => Err(Problem::no_log(dir, "the directory is empty")),
        _ => Ok(()),
    }
}

/// Opens a log, and creates it if it is missing.
pub(crate) fn open_or_make(dir: &Path, args: LogArgs) -> Result<SledStore, Problem> {
    let mut options =
        SledOptions { durability: args.durability.map(Durability::from), ..SledOptions::default() };
    if let Some(mib) = args.cache_mb {
        options.cache_bytes = u64::from(mib) * 1024 * 1024;
    }
    let store = open(dir, options)?;
    if args.group_readable {
        let_group_read(dir)?;
    }
    Ok(store)
}

/// Lets the group of a log's files read it.
pub(crate) fn let_group_read(dir: &Path) -> Result<(), Problem> {
    taskreel_log::sled::let_group_read(dir).map_err(|error| {
        let hint = "let the owner of the files do it: `chmod -R g+rX` on the directory";
        Problem::new(EXIT_NO, "the group of the log was not let in", error.to_string(), hint)
    })
}

fn open(dir: &Path, options: SledOptions) -> Result<SledStore, Problem> {
    let store = SledStore::open_with(dir, options).map_err(|error| Problem::open(&error, dir))?;
    say_notes(store.durability(), store.open_notes());
    Ok(store)
}

fn say_notes(durability: Durability, notes: &[OpenNote]) {
    // Every command warns about a log that promises less.
    if let Some(warning) = durability.warning() {
        note(&format!("note: {warning}"));
    }
    for text in notes {
        note(&format!("note: {text}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_typed_survives_a_shell() {
        assert!(typed("ls", Path::new("x"), "x").ends_with(" ls"));
        assert!(typed("ls", Path::new("a b'c"), "x").ends_with(" ls --data-dir 'a b'\\''c'"));
    }
}
