//! The log that a reading command reads: a directory, an export, or one behind a server.

use std::path::PathBuf;

use clap::Args;

/// The log to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReadFrom {
    /// Read an exported log instead of a directory
    #[arg(id = FROM_FILE, long = "file", value_name = "FILE", conflicts_with = AT_URL)]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// The server that has the log.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServerArgs {
    /// Use the log behind a server, through its live API, instead of a directory
    ///
    /// URL is the server's address, such as `http://127.0.0.1:8080`. A bearer token is read from `TASKREEL_TOKEN` or by
    /// --token-file.
    #[arg(id = AT_URL, long = "url", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Read the server's bearer token from this file instead of `TASKREEL_TOKEN`
    #[arg(long, value_name = "FILE", requires = AT_URL)]
    pub(crate) token_file: Option<PathBuf>,
}

/// The id of the reading commands' `--file` in clap.
pub(crate) const FROM_FILE: &str = "from_file";

/// The id of `--url` in clap.
pub(crate) const AT_URL: &str = "at_url";
