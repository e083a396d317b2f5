//! The arguments of the commands that make a log or an export.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::run::DurabilityMode;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ImportArgs {
    /// A file written by `taskreel export`; `-` is stdin
    #[arg(required = true)]
    pub(crate) file: Option<PathBuf>,
    /// Durability of the new log: `strict` survives a power failure, `os` only the end of the process
    ///
    /// It is not taken from the file: no hash covers the file's first line.
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) durability: Option<DurabilityMode>,
    /// Let the group of the new log's files read it; without this its owner alone can
    #[arg(long)]
    pub(crate) group_readable: bool,
    #[cfg(feature = "import-protolink")]
    #[command(subcommand)]
    pub(crate) from: Option<ImportFrom>,
}

/// Another system whose files are imported.
#[cfg(feature = "import-protolink")]
#[derive(Debug, Subcommand)]
pub(crate) enum ImportFrom {
    /// Take in the tasks, runs and sessions that Protolink has kept in a database file; exit 1 if some could not be
    ///
    /// The file is only read. What was taken in before is left out, so the command can be repeated; what has changed in the
    /// file since then is reported and not taken in again. A task that was at work waits for a person from then on, since it
    /// is not known which of its calls took effect. If the file is damaged or not Protolink's, the log stays as it was.
    #[command(after_help = "Example: taskreel import protolink runs.db --data-dir ./taskreel-log")]
    Protolink(ImportProtolinkArgs),
}

#[cfg(feature = "import-protolink")]
#[derive(Debug, Args)]
pub(crate) struct ImportProtolinkArgs {
    /// A file written by protolink's `SQLiteStorage` or `SQLiteRunStore`
    pub(crate) file: PathBuf,
    /// Agent to which all of it belongs from then on [default: the agent that is recorded for each task, the namespace of
    /// each session]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SalvageArgs {
    /// Directory of the damaged log
    pub(crate) dir: PathBuf,
    /// The export to write: a file that does not exist yet
    pub(crate) out: PathBuf,
}
