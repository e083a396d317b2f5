//! The arguments of the commands that draw a run.

use clap::{Args, ValueEnum};

use crate::args::condition::WhereArgs;
use crate::args::point::AtArgs;
use crate::args::source::ReadFrom;

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// A task, or a session for all of its tasks: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    pub(crate) id: String,
    /// Show only this many levels below the task or session
    #[arg(long, value_name = "LEVELS")]
    pub(crate) depth: Option<usize>,
    /// Show only what failed or has an unknown outcome, and what caused it
    #[arg(long)]
    pub(crate) failed_only: bool,
    /// Show only what the end of the task or session waited for, and what caused it
    #[arg(long)]
    pub(crate) critical_path: bool,
    /// Do not shorten long texts
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) point: AtArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

/// The form in which a sequence diagram is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeqFormat {
    /// Lines of characters
    Text,
    /// The language of Mermaid
    Mermaid,
    /// A picture, which refers to nothing outside
    Svg,
}

/// The form in which a causation graph is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// Lines of characters
    Text,
    /// The language of Graphviz
    Dot,
    /// The language of Mermaid
    Mermaid,
    /// A picture, which refers to nothing outside
    Svg,
}

/// The size of a diagram.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WidthArgs {
    /// Width in columns [default: that of the terminal, else 120]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1_000))]
    pub(crate) width: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct SeqArgs {
    /// A task or session: its id, a unique prefix of the id (4 characters or more), the name of its stream, or @last for the
    /// task that changed last
    pub(crate) id: String,
    /// Form of the diagram
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = SeqFormat::Text)]
    pub(crate) format: SeqFormat,
    #[command(flatten)]
    pub(crate) width: WidthArgs,
    #[command(flatten)]
    pub(crate) point: AtArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// A task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of its stream, or @last for
    /// the task that changed last
    pub(crate) id: String,
    /// Form of the graph
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = GraphFormat::Text)]
    pub(crate) format: GraphFormat,
    #[command(flatten)]
    pub(crate) width: WidthArgs,
    #[command(flatten)]
    pub(crate) point: AtArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}
