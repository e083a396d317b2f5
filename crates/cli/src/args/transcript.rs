//! The arguments of `transcript`.

use clap::{Args, ValueEnum};

use crate::args::condition::WhereArgs;
use crate::args::point::AtArgs;
use crate::args::source::ReadFrom;

/// The form in which a conversation is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TalkFormat {
    /// Lines with times, wrapped to the terminal
    Text,
    /// Markdown; what was said stands in blocks that show it as it is
    Md,
    /// JSON objects, one per message, as with --json
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct TranscriptArgs {
    /// A session, or a task for its turns in its session: its id, a unique prefix of the id (4 characters or more), the name of
    /// its stream, or @last for the task that changed last
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// Form of the conversation
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TalkFormat::Text)]
    pub(crate) format: TalkFormat,
    /// Leave out calls and their results
    #[arg(long)]
    pub(crate) no_tools: bool,
    /// Do not shorten long results
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) point: AtArgs,
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}
