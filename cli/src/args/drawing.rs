//! The arguments of the commands that draw a run.

use clap::Args;

use crate::args::condition::WhereArgs;
use crate::args::source::ReadFrom;

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// A task: its id, a unique prefix of the id (4 characters or more), the name of its stream, or @last for the task that
    /// changed last
    pub(crate) id: String,
    /// Show only this many levels below the task
    #[arg(long, value_name = "LEVELS")]
    pub(crate) depth: Option<usize>,
    /// Show only what failed or has an unknown outcome, and what caused it
    #[arg(long)]
    pub(crate) failed_only: bool,
    /// Show only what the end of the task waited for, and what caused it
    #[arg(long)]
    pub(crate) critical_path: bool,
    /// Do not shorten long texts
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}
