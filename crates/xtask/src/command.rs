//! Programs that a task runs, from the root of the repository.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a task ended without its result.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl std::fmt::Display for Failure {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

impl Failure {
    /// Returns the failure to do something with a file.
    pub(crate) fn of_file<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Self + 'a {
        move |error| Self(format!("cannot {what} {}: {error}", path.display()))
    }
}

/// A program with its arguments.
#[derive(Debug)]
pub(crate) struct Program(Command);

/// Returns cargo with arguments that have no spaces of their own.
pub(crate) fn cargo(arguments: &str) -> Program {
    program(env!("CARGO"), arguments.split(' '))
}

/// Returns a program of this name. A relative path begins at the root of the repository.
pub(crate) fn program<A: AsRef<OsStr>>(
    name: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
) -> Program {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root());
    Program(command)
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .components()
        .collect::<PathBuf>()
        .ancestors()
        .nth(2)
        .map_or_else(PathBuf::new, Path::to_owned)
}

/// Returns the folder of all builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

impl Program {
    /// Sets a variable of its environment.
    pub(crate) fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be run or fails.
    pub(crate) fn run(&mut self) -> Result<(), Failure> {
        let status = self.0.status().map_err(|error| self.unstarted(&error))?;
        if status.success() { Ok(()) } else { Err(Failure(format!("{:?} failed: {status}", self.0))) }
    }

    /// Runs the program and returns what it prints.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be run or fails.
    pub(crate) fn output(&mut self) -> Result<Vec<u8>, Failure> {
        let ran = self.0.stderr(Stdio::inherit()).output().map_err(|error| self.unstarted(&error))?;
        if ran.status.success() {
            Ok(ran.stdout)
        } else {
            Err(Failure(format!("{:?} failed: {}", self.0, ran.status)))
        }
    }

    /// Whether the program is installed.
    pub(crate) fn exists(mut self) -> bool {
        self.0.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    }

    fn unstarted(&self, error: &std::io::Error) -> Failure {
        Failure(format!("cannot run {}: {error}", self.0.get_program().display()))
    }
}
