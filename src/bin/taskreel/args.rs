//! What can be typed.

mod deciding;

pub(crate) use deciding::{AbandonArgs, ApproveArgs, Decider, DenyArgs, ReconcileArgs};

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use taskreel::TaskState;
use taskreel::inspect::cli::ColorWish;
use taskreel::store::Durability;

/// Durable, replayable AI-agent tasks: run them, watch them, kill them, go on, replay the log.
#[derive(Debug, Parser)]
#[command(name = "taskreel", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Data goes to stdout, everything else to stderr.\n\
Exit codes: 0 done; 1 the answer is no (a task failed, a difference, a fault);\n\
2 wrong usage or input; 3 no such task, file or log; 4 the log is held by another process;\n\
5 not a log that can be read; 130 interrupted.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Directory of the log [default: ./taskreel-log, for `demo` ./taskreel-demo]
    #[arg(long, value_name = "DIR", env = "TASKREEL_DATA_DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// One line of JSON for each thing, lossless, times in UTC
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Colours: always, never, or auto (on a terminal; `NO_COLOR`, `CLICOLOR_FORCE`, `TERM=dumb` are heeded)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Color::Auto, global = true)]
    #[arg(hide_possible_values = true)]
    pub(crate) color: Color,
    /// What is logged to stderr, such as `info` or `taskreel=debug,warn` [default: `RUST_LOG`, else nothing]
    #[arg(long, value_name = "FILTER", global = true)]
    pub(crate) log_level: Option<String>,
    /// How it is logged: lines of text, or one JSON object a line [default: text]
    ///
    /// Without a level, from here or from `RUST_LOG`, it is `info`.
    #[arg(long, value_name = "FORMAT", value_enum, global = true)]
    pub(crate) log_format: Option<LogFormat>,
}

/// How logging looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line, its spans in it
    Json,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless the environment says no
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl From<Color> for ColorWish {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a made-up set of tasks through tools and a scripted model; no key, no network
    ///
    /// Among them are a failure, a cancel, and a payment whose outcome nobody knows. Kill it in the middle and start
    /// it again: it goes on where it was, and pays nothing twice (see the file `effects.ledger` in its directory).
    Demo(DemoArgs),
    /// Execute Protolink tasks with the demo's tools, print what became of them
    ///
    /// FILE holds one task, an array of tasks, or one task a line (NDJSON). All of it is read and checked before
    /// anything is executed. Tools: add, echo, upper, fail, typefail, lookup, none, slow, pay.
    Run(RunArgs),
    /// List tasks, sessions, or the tools that keep something
    Ls(LsArgs),
    /// Show one task or session: its path, its calls, its outputs; or what one tool keeps
    Show(ShowArgs),
    /// Print events, oldest first
    Events(EventsArgs),
    /// Print a task as Protolink writes it, as it was after any of its events
    State(StateArgs),
    /// Rebuild states from zero and compare them with the live fold; exit 1 at the first difference
    Replay(ReplayArgs),
    /// Examine the log: format, durability, holder, sizes, cost of a sync, HEAD, chain; what to do about each finding
    ///
    /// Works while another process has the log open, and then says what it could not look at. Exit 1 on any finding.
    Doctor,
    /// Check that the log hangs together: hashes, versions, lifecycles, calls, index, HEAD; exit 1 on any fault
    ///
    /// Goes on behind what cannot be read. At the end stands what could not be checked.
    Verify(VerifyArgs),
    /// Tell what changed between two versions of a task or session, or between two logs; exit 1 on any difference
    ///
    /// A and B count its events. With --with FILE, A is a version in this log and B one in the other. What is left
    /// out is the newest. A after B is told backwards.
    Diff(DiffArgs),
    /// Tell what recovery would do with every open call, had the process died after a version
    ///
    /// By the code that recovers. Nothing is sent, nothing is written.
    Explain(ExplainArgs),
    /// List the calls that wait: open, unknown, or for approval; why each waits, and what to type
    ///
    /// The oldest first. In flight, in a back-off or for a place: a process that takes the task up goes on with them. For
    /// approval, or because nobody knows their outcome: a person decides, with `approve`, `deny`, `reconcile`, `abandon`.
    Calls(CallsArgs),
    /// Approve a call that waits for it; its task goes on when its host starts again
    ///
    /// The approval is good for the very arguments that `taskreel calls` shows.
    #[command(after_help = "Example: taskreel approve order-17 approval_20261121120000_0a1b2c --by ada")]
    Approve(ApproveArgs),
    /// Deny a call that waits for approval
    ///
    /// A model that asked for it is told and goes on without it; a task whose own part it is fails.
    #[command(
        after_help = "Example: taskreel deny order-17 approval_20261121120000_0a1b2c --reason 'over the limit'"
    )]
    Deny(DenyArgs),
    /// Say what became of a call whose outcome is unknown
    ///
    /// Look at its target first. If the task waits for it, it goes on when its host starts again: with the result, or
    /// by calling again what did not happen.
    #[command(
        after_help = "Examples:\n  taskreel reconcile call_20261121120000_0a1b2c3d --landed '{\"receipt\":12}'\n  \
                            taskreel reconcile call_20261121120000_0a1b2c3d --did-not-happen"
    )]
    Reconcile(ReconcileArgs),
    /// Look no further what became of a call whose outcome is unknown
    ///
    /// If the task waits for it, a model is told and goes on without it; a part ends in an error.
    #[command(
        after_help = "Example: taskreel abandon call_20261121120000_0a1b2c3d --reason 'the account is closed'"
    )]
    Abandon(AbandonArgs),
    /// Sum up all calls: how many, errors, times, tokens; by tool, by model, by session
    ///
    /// Times are p50, p95 and p99 of the calls that succeeded or failed, from the dispatch of their last attempt to their
    /// outcome, by the times of the log's records. Tokens are those that providers report. All figures are exact.
    Stats(StatsArgs),
    /// Write the whole log to stdout as NDJSON, stored bytes and hashes included
    Export(ExportArgs),
    /// Make a new log out of an export, byte for byte, after checking all of it
    ///
    /// Into a new or an empty directory. A file in which anything is wrong imports nothing. What was imported can be
    /// gone on with, and exported again as the same file.
    Import(ImportArgs),
}

/// Where to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReadFrom {
    /// Read an exported log instead of a directory
    #[arg(id = FROM_FILE, long = "file", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// The name under which clap knows `--file` of the reading commands.
pub(crate) const FROM_FILE: &str = "from_file";

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only this task, session or tool: its id, a unique beginning of it (4 characters or more), its stream, or @last
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A task, session or tool: its id, a unique beginning of it (4 characters or more), its stream, or @last
    pub(crate) id: String,
    /// The state after so many of its events
    #[arg(required_unless_present = "with", value_name = "A")]
    pub(crate) a: Option<u64>,
    /// The state after so many of its events, or of those in the other log
    #[arg(value_name = "B")]
    pub(crate) b: Option<u64>,
    /// Compare with the same task or session in this exported log
    #[arg(long, value_name = "FILE")]
    pub(crate) with: Option<PathBuf>,
    /// Print a JSON Patch (RFC 6902) that makes the one out of the other, as `state` prints them
    #[arg(long)]
    pub(crate) patch: bool,
    /// Cut nothing off
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A task, session or tool: its id, a unique beginning of it (4 characters or more), its stream, or @last
    pub(crate) id: String,
    /// Had the process died after so many of its events [default: all]
    #[arg(long, value_name = "VERSION")]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    /// Only of this task: its id, a unique beginning of it (4 characters or more), its stream, or @last
    pub(crate) id: Option<String>,
    /// Cut nothing off
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A file that `taskreel export` wrote; `-` is stdin
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Which tasks to make up [default: 7]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// How many tasks [default: 12]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tasks: Option<u32>,
    /// How long a tool or an answer of the model takes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub(crate) pace: u64,
    /// Kill this process (SIGKILL) as soon as it sees the log's event of this position on disk; a few
    /// more may be there by then
    #[arg(long, value_name = "POSITION", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) kill_at: Option<u64>,
    /// Go on with the demo that was begun in the directory; never begin one
    #[arg(long)]
    pub(crate) resume: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// File with the tasks; `-` is stdin
    pub(crate) file: PathBuf,
    /// What the model answers: a JSON array of replies, or an object of such arrays by prompt
    ///
    /// A reply is an action such as `{"type": "final", "content": "hi"}`, a text, or `{"raise": "RuntimeError",
    /// "message": "down"}`. By prompt: the first key that occurs in the newest user message has the replies, one for
    /// each step. Without a script `infer` parts end in an error of code `no_llm`.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// What a log that is made promises: `strict` survives a power failure, `os` the end of the process only
    ///
    /// A log keeps the durability that it was made with, and every command that opens it says so if it is not strict.
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) durability: Option<DurabilityMode>,
    /// Keep no conversations: every infer part begins with an empty history
    #[arg(long)]
    pub(crate) stateless: bool,
}

/// What a log promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityMode {
    /// Acknowledged is on disk, past fdatasync [default of a new log]
    Strict,
    /// Acknowledged is with the operating system
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

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// List sessions instead of tasks
    #[arg(long, conflicts_with = "state")]
    pub(crate) sessions: bool,
    /// List the tools that keep something between their calls, instead of tasks
    #[arg(long, conflicts_with_all = ["state", "sessions"])]
    pub(crate) tools: bool,
    /// Only tasks in these states, such as failed,input-required
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = parse_state)]
    pub(crate) state: Vec<TaskState>,
    /// The newest so many; 0 is all [default: 50 on a terminal, else all]
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A task, session or tool: its id, a unique beginning of it (4 characters or more), its stream, or @last
    pub(crate) id: String,
    /// Cut nothing off
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// A task, session or tool: its id, a unique beginning of it (4 characters or more), its stream, or @last
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// Those of the whole log
    #[arg(long)]
    pub(crate) all: bool,
    /// Cut nothing off
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    /// A task, session or tool: its id, a unique beginning of it (4 characters or more), its stream, or @last
    pub(crate) id: String,
    /// After so many of its events [default: all]
    #[arg(long, value_name = "VERSION")]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A task, session or tool: its id, a unique beginning of it (4 characters or more), its stream, or @last
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// Everything in the log
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

fn parse_state(text: &str) -> Result<TaskState, String> {
    text.parse().map_err(|_| {
        let all: Vec<_> = TaskState::ALL.iter().map(|state| state.as_str()).collect();
        format!("it is not one of {}", all.join(", "))
    })
}
