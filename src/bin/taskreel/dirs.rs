//! Which directory is meant, and opening the log in it.

use std::path::{Path, PathBuf};

use taskreel::inspect::calls::shell_word;
use taskreel::inspect::cli::Problem;
use taskreel::inspect::cli::screen::note;
use taskreel::store::{Durability, SledOptions, SledStore};

use crate::args::Global;

/// Where `run` keeps its log if nobody says.
pub(crate) const LOG_DIR: &str = "taskreel-log";

/// Where `demo` keeps its log if nobody says.
pub(crate) const DEMO_DIR: &str = "taskreel-demo";

/// The directory to write into.
pub(crate) fn to_write(global: &Global, default: &str) -> PathBuf {
    global.data_dir.clone().unwrap_or_else(|| PathBuf::from(default))
}

/// The directory to read from: as said, else the first default that is there.
pub(crate) fn to_read(global: &Global) -> PathBuf {
    global.data_dir.clone().unwrap_or_else(|| {
        [LOG_DIR, DEMO_DIR]
            .into_iter()
            .map(PathBuf::from)
            .find(|dir| dir.exists())
            .unwrap_or_else(|| PathBuf::from(LOG_DIR))
    })
}

/// `taskreel COMMAND` as it is to be typed for this directory. A log of `run` beside the demo's is what the reading
/// commands would take, so the demo's is then named.
pub(crate) fn typed(command: &str, dir: &Path, default: &str) -> String {
    let hidden = default == DEMO_DIR && Path::new(LOG_DIR).exists();
    if dir == Path::new(default) && !hidden {
        format!("{} {command}", program())
    } else {
        typed_with(command, "--data-dir", dir)
    }
}

/// The same with an option that names a path.
pub(crate) fn typed_with(command: &str, option: &str, path: &Path) -> String {
    format!("{} {command} {option} {}", program(), shell_word(&path.display().to_string()))
}

/// How this program was called, as it is to be typed again: whoever has not installed it uses `cargo run`.
pub(crate) fn program() -> &'static str {
    let by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").is_some();
    let release = std::env::current_exe().is_ok_and(|exe| exe.iter().any(|part| part == "release"));
    match (by_cargo, release) {
        (true, true) => "cargo run --release --",
        (true, false) => "cargo run --",
        (false, _) => "taskreel",
    }
}

/// Opens a log that must be there already. Where none is, nothing is made.
pub(crate) fn open_existing(dir: &Path) -> Result<SledStore, Problem> {
    refuse_nothing(dir)?;
    open(dir, SledOptions { create: false, ..SledOptions::default() })
}

/// Refuses a directory that is not there, or empty.
pub(crate) fn refuse_nothing(dir: &Path) -> Result<(), Problem> {
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Problem::no_log(dir, "the directory does not exist"))
        }
        Ok(true) => Err(Problem::no_log(dir, "the directory is empty")),
        _ => Ok(()),
    }
}

/// Opens a log, making it where there is none.
pub(crate) fn open_or_make(dir: &Path, durability: Option<Durability>) -> Result<SledStore, Problem> {
    open(dir, SledOptions { durability, ..SledOptions::default() })
}

fn open(dir: &Path, options: SledOptions) -> Result<SledStore, Problem> {
    let store = SledStore::open_with(dir, options).map_err(|error| Problem::open(&error, dir))?;
    // Whoever looks at a log that promises less is told so, whatever the command.
    if let Some(warning) = store.durability().warning() {
        note(&format!("note: {warning}"));
    }
    for told in store.notes() {
        note(&format!("note: {told}"));
    }
    Ok(store)
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
