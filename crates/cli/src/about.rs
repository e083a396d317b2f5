//! The program's words about itself: its version, its manual pages, completions for shells, and the schemas of its output.

pub(crate) mod complete;
pub(crate) mod ids;
pub(crate) mod lines_of_commands;
pub(crate) mod man;
pub(crate) mod schema;

use std::sync::OnceLock;

use clap::CommandFactory as _;

use crate::args::Cli;

/// Returns the version, the revision that the program was built from, and the features of the library in it.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let features: Vec<_> =
            taskreel::FEATURES.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
        let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
        let (release, revision) = (env!("CARGO_PKG_VERSION"), env!("TASKREEL_REVISION"));
        format!("{release}\nrevision {revision}\nfeatures {features}")
    })
}

/// Returns the whole command line, with its long version and the sources of completions.
pub(crate) fn command() -> clap::Command {
    ids::with_candidates(Cli::command().long_version(version()))
}
