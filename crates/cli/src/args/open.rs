//! The arguments of `open`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// A file written by `taskreel export`; it may be cut or damaged
    pub(crate) file: PathBuf,
}
