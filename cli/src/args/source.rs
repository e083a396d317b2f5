//! The log that a reading command reads: a directory or an export.

use std::path::PathBuf;

use clap::Args;

/// The log to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReadFrom {
    /// Read an exported log instead of a directory
    #[arg(id = FROM_FILE, long = "file", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// The id of the reading commands' `--file` in clap.
pub(crate) const FROM_FILE: &str = "from_file";
