//! The arguments of the commands that start a system.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use taskreel_log::api::Durability;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Seed of the generated tasks [default: 7]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Number of tasks [default: 12]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tasks: Option<u32>,
    /// Duration of a tool or of a model's reply, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub(crate) pace: u64,
    /// Kill this process (SIGKILL) once the event at this position of the log is on disk; a few later events
    /// may be on disk too
    #[arg(long, value_name = "POSITION", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) kill_at: Option<u64>,
    /// Resume the demo in the directory; fail if it is missing
    #[arg(long)]
    pub(crate) resume: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// File with the tasks; `-` is stdin
    pub(crate) file: PathBuf,
    /// Script of the model's replies: a JSON array of replies, or a JSON object with such an array for each
    /// prompt
    ///
    /// A reply is an action such as `{"type": "final", "content": "hi"}`, a text, or an error such as
    /// `{"raise": "RuntimeError", "message": "down"}`. An array is used up in the order of the calls. In an
    /// object, the first key that occurs in the newest user message selects the replies, one for each step.
    /// Without a script, `infer` parts end in an error with code `no_llm`.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Keep no conversations: each `infer` part begins with an empty history
    #[arg(long)]
    pub(crate) stateless: bool,
}

/// The settings with which a log is opened or made.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct LogArgs {
    /// Durability of a new log: `strict` survives a power failure, `os` only the end of the process
    ///
    /// A log keeps the durability that it was created with. If it is not `strict`, each command that opens
    /// the log prints a note.
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) durability: Option<DurabilityMode>,
    /// Let the group of the log's files read it; a new log can be read by its owner alone
    #[arg(long)]
    pub(crate) group_readable: bool,
    /// Cache of the log's database in MiB [default: an eighth of the memory, between 64 and 128]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub(crate) cache_mb: Option<u32>,
}

/// The durability of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityMode {
    /// Acknowledged events are on disk, after fdatasync [default]
    Strict,
    /// Acknowledged events were handed to the operating system, which may write them later
    Os,
}

impl From<DurabilityMode> for Durability {
    fn from(mode: DurabilityMode) -> Self {
        match mode {
            DurabilityMode::Strict => Self::Strict,
            DurabilityMode::Os => Self::Os,
        }
    }
}
