//! The arguments of the commands by which the program says what it is.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// A shell that can be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages; created if it is missing
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The command, such as `show`; without one the schemas of all commands
    pub(crate) command: Option<String>,
}
