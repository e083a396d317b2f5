//! The command line's arguments.

#[cfg(feature = "a2a")]
pub(crate) mod a2a;
pub(crate) mod about;
pub(crate) mod artifact;
pub(crate) mod condition;
pub(crate) mod decide;
pub(crate) mod draw;
pub(crate) mod examine;
pub(crate) mod filters;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod open;
pub(crate) mod point;
pub(crate) mod read;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod source;
pub(crate) mod times;
pub(crate) mod transcript;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::args::about::{CompletionsArgs, ManArgs, SchemaArgs};
use crate::args::artifact::ArtifactArgs;
pub(crate) use crate::args::decide::{
    AbandonArgs, AnswerArgs, ApproveArgs, CancelArgs, DenyArgs, ReconcileArgs,
};
use crate::args::draw::{GraphArgs, SeqArgs, TraceArgs};
pub(crate) use crate::args::examine::{DiffArgs, DoctorArgs, ExplainArgs, VerifyArgs};
pub(crate) use crate::args::import::{ImportArgs, SalvageArgs};
#[cfg(feature = "import-protolink")]
pub(crate) use crate::args::import::{ImportFrom, ImportProtolinkArgs};
#[cfg(feature = "tui")]
use crate::args::inspect::TuiArgs;
use crate::args::inspect::{AttentionArgs, EventArgs, PromptArgs};
#[cfg(feature = "inspector")]
use crate::args::inspect::{InspectArgs, ReportArgs};
use crate::args::open::OpenArgs;
use crate::args::read::{
    CallsArgs, EventsArgs, ExportArgs, LsArgs, ReplayArgs, ShowArgs, StateArgs, StatsArgs, TailArgs,
};
pub(crate) use crate::args::run::{DemoArgs, RunArgs};
use crate::args::search::SearchArgs;
use crate::args::serve::ServeArgs;
use crate::args::transcript::TranscriptArgs;
use crate::print::screen::ColorChoice;

/// Durable, replayable AI-agent tasks: run them, kill and resume them, replay and verify their log.
#[derive(Debug, Parser)]
#[command(name = "taskreel", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Data goes to stdout, everything else to stderr.\n\
Exit codes: 0 done; 1 the answer is no (a failed task, a difference, a fault);\n\
2 wrong usage or input; 3 no such task, session, call or file; 4 another process has the log open,\n\
or the server cannot be reached;\n\
5 no log at the directory, or it cannot be read; 7 a newer release wrote a part of the log;\n\
8 the output could not be written; 130 interrupted (SIGINT, SIGTERM or SIGHUP).")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Directory of the log [default: ./taskreel-log; for `demo`, ./taskreel-demo]
    ///
    /// Without this option, the commands that work on an existing log use ./taskreel-log if it exists, and
    /// otherwise ./taskreel-demo.
    #[arg(long, value_name = "DIR", env = "TASKREEL_DATA_DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Folder for the private copy from which a log is read [default: `taskreel` in the cache folder of the user]
    ///
    /// A command that only reads changes nothing in the directory of the log. Where no program has the log open, or its
    /// local socket is shut, the command copies the log and reads the copy, which is removed at its end.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) scratch: Option<PathBuf>,
    /// Print one JSON object per line, with nothing shortened and times in UTC
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Use colours: always, never, or auto (on a terminal, unless `NO_COLOR`, `CLICOLOR_FORCE` or `TERM=dumb`
    /// decide otherwise)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Color::Auto, global = true)]
    #[arg(hide_possible_values = true)]
    pub(crate) color: Color,
    /// Do not show long output in a pager: without this option `show`, `events`, `transcript` and `search` use
    /// `TASKREEL_PAGER`, `PAGER` or `less -FRX` where stdout is a terminal and the output is longer than it
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
    /// Write diagnostics to stderr at this level, such as `info` or `taskreel=debug,warn` [default:
    /// `RUST_LOG`, else none]
    #[arg(long, value_name = "FILTER", global = true)]
    pub(crate) log_level: Option<String>,
    /// Write diagnostics as lines of text, or as one JSON object per line [default: text]
    ///
    /// If no level is given by --log-level or `RUST_LOG`, the level is `info`.
    #[arg(long, value_name = "FORMAT", value_enum, global = true)]
    pub(crate) log_format: Option<LogFormat>,
}

/// The format of the diagnostics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// JSON lines: one object per entry, with its spans
    Json,
}

/// The use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// Colours on a terminal, unless the environment forbids them
    Auto,
    /// Colours always
    Always,
    /// No colours
    Never,
}

impl From<Color> for ColorChoice {
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
    /// Run a generated set of tasks with tools and a scripted model; needs no key and no network
    ///
    /// The set includes a failure, a cancel, and a payment whose outcome is unknown. Kill the process midway
    /// and run the same command again: it resumes where it stopped and pays nothing twice. The file
    /// `effects.ledger` in the directory of the log lists all payments.
    Demo(DemoArgs),
    /// Execute Protolink tasks with the demo's tools and print the results
    ///
    /// FILE holds one task, an array of tasks, or one task per line (NDJSON). Each task is printed when it ends.
    /// A file of up to 4 MiB is checked whole before anything is executed; a larger one and stdin are executed
    /// as they are read, so `tail -f tasks.ndjson | taskreel run -` works. Up to 64 tasks run at once, the tasks of
    /// one conversation (`metadata.session_id`) one after another, in their order. Tools: add, echo, upper, fail, typefail, lookup, none, slow, pay.
    Run(RunArgs),
    /// Ask any agent that speaks A2A: send messages, follow tasks, read cards, check the agent
    ///
    /// Follows the public specification of A2A command lines (a2aproject/a2a-cli, version 0.2), its exit codes too. Nothing but
    /// the tokens of `auth login` is remembered from one command to the next: each prints the ids that the next one needs.
    #[cfg(feature = "a2a")]
    A2a(Box<crate::args::a2a::A2aArgs>),
    /// Serve the demo's tools over HTTP, until a signal: Protolink's wire protocol, the live API, a registry, health, figures
    Serve(ServeArgs),
    /// Show a log in a browser: runs, tasks with every event and prompt, sessions, tools and models, audit; until a signal
    ///
    /// Works on a directory, an export (--file) and a server (--url), whether a program has the log open or not. Nothing is
    /// executed, and nothing in the log is changed.
    #[cfg(feature = "inspector")]
    #[command(
        after_help = "Examples:\n  taskreel inspect --open\n  taskreel inspect --file audit.ndjson\n  taskreel inspect --url http://127.0.0.1:8080"
    )]
    Inspect(InspectArgs),
    /// Write a task or session into one HTML file that needs no server and no network: states, calls, every event with its record and
    /// hashes, prompts, conversation, artifacts, verification
    ///
    /// For an auditor or a bug: the file runs nothing and asks nobody. Of a damaged log it holds what can be read, and says where that
    /// ends; the exit code is then 5. Exit 1 if a fault was found in it, or a prompt does not have its digest.
    #[cfg(feature = "inspector")]
    #[command(
        after_help = "Examples:\n  taskreel report order-17 -o order-17.html\n  taskreel report s:talk-3 --file audit.ndjson -o talk-3.html"
    )]
    Report(ReportArgs),
    /// Show a log in the terminal: what waits for a person, runs with every event and prompt, two runs beside each other
    ///
    /// Works on a directory, an export (--file) and a server (--url), and follows what is written. `?` tells the keys, q quits.
    /// Nothing is executed; a decision about what waits is sent to the program that has the log open, as by `approve`.
    #[cfg(feature = "tui")]
    #[command(
        after_help = "Examples:\n  taskreel tui\n  taskreel tui order-17 --at 12\n  taskreel tui --file audit.ndjson"
    )]
    Tui(TuiArgs),
    /// List tasks, sessions, or the tools that have state
    Ls(LsArgs),
    /// Show one task or session: its states, calls and outputs; or one tool's state
    Show(ShowArgs),
    /// Print events, oldest first
    Events(EventsArgs),
    /// Print the newest events, then those that are written, until interrupted
    ///
    /// Begins with the newest 10, or with --limit COUNT. Follows through the local socket of the program that has the log
    /// open, and goes on after a dropped link and after a restart of the program. Where no program has the log open, it
    /// says so and waits for one. The filters apply.
    #[cfg(unix)]
    Tail(TailArgs),
    /// Search messages, arguments and results for a text, newest first; exit 1 if it is nowhere
    ///
    /// Questions and answers of people, reasons, errors and the state of tools are searched too, names of arguments are not.
    /// Prints the first place in each value, with the path that --where takes. Of a damaged log, what can be read is searched.
    #[command(
        after_help = "Examples:\n  taskreel search invoice\n  taskreel search --regex 'DE[0-9]{20}' order-17\n  \
                            taskreel search overdue --where 'area = result' --since 2d"
    )]
    Search(SearchArgs),
    /// Show what caused what in a task or session, as a tree: calls, approvals, retries, tasks of other agents, with times and errors
    ///
    /// A call stands below what asked for it: the task, the inference whose reply named it, the approval that permitted it, or
    /// the call in whose middle it was made. Below a session stand its tasks, in the order in which they came. Attempts are shown
    /// where there were several. `*` marks the critical path: what the end of the task waited for, back from its end.
    #[command(
        after_help = "Examples:\n  taskreel trace order-17\n  taskreel trace order-17 --critical-path\n  \
                            taskreel trace order-17 --where 'took_us > 1000000'"
    )]
    Trace(TraceArgs),
    /// Draw a task or session as a sequence diagram: who sent what to whom, one step for each event
    ///
    /// Callers and people stand left of the task, models, tools and other agents right of it. Where names do not fit above their
    /// lanes, numbers stand there; where participants do not fit, the last lane is theirs together. The time is that since the
    /// first event.
    #[command(
        after_help = "Examples:\n  taskreel seq order-17\n  taskreel seq order-17 --format svg > order-17.svg"
    )]
    Seq(SeqArgs),
    /// Draw which event caused which, one line for each event, with lines from causes to what they caused
    ///
    /// An event of a call or an approval was caused by the one before it of the same call; other events by the first one of their
    /// record, and that by the newest event of what the record names as its cause.
    #[command(
        after_help = "Examples:\n  taskreel graph order-17\n  taskreel graph order-17 --format dot | dot -Tpdf > order-17.pdf"
    )]
    Graph(GraphArgs),
    /// Print a session as the conversation that it is: user, model, calls and their results, with times
    ///
    /// Turns that were aborted, and histories that were shortened, are noted where it happened. Of a task that had no session its
    /// own messages and outputs are printed.
    #[command(
        after_help = "Examples:\n  taskreel transcript s:talk-3\n  taskreel transcript order-17 --no-tools\n  \
                            taskreel transcript s:talk-3 --format md > talk.md"
    )]
    Transcript(TranscriptArgs),
    /// Show what an exported log holds, and the commands to go on with; nothing in it is executed
    ///
    /// Of a file that is cut or damaged, the part up to the first fault is shown, and where it ends; the exit code is then 5.
    #[command(after_help = "Example: taskreel open log.ndjson")]
    Open(OpenArgs),
    /// Print one event whole: header, payload, hashes, position; exit 1 if its body is not the recorded one
    #[command(after_help = "Example: taskreel event order-17 4")]
    Event(EventArgs),
    /// Print exactly what the model was shown for an inference; exit 1 if its digest differs from the intent's
    ///
    /// The prompt is rendered again from the log. The digest in the intent is computed again from the records that it
    /// covers.
    #[command(after_help = "Example: taskreel prompt 0a1b2c3d")]
    Prompt(PromptArgs),
    /// List the artifacts and long results of a task, print a part of one, or save one
    ///
    /// An artifact is named by its id, the result of a call of a tool or an agent by the call's id. It is printed whole unless a
    /// flag selects a part: a text exactly as it is where stdout is not a terminal, data as JSON, files by their names. Lines and
    /// characters are places in its text; path, rows and columns select from its data.
    #[command(
        after_help = "Examples:\n  taskreel artifact order-17\n  taskreel artifact order-17 0a1b2c3d --lines 1-40\n  \
                            taskreel artifact order-17 0a1b2c3d --path results.items --rows 0-10 --columns name,age\n  \
                            taskreel artifact order-17 0a1b2c3d --save ./out"
    )]
    Artifact(ArtifactArgs),
    /// List everything that waits for somebody or is wrong, each with the command that ends it; exit 1 if there is
    /// any
    ///
    /// Calls that wait for approval, for an answer, or for somebody to find out their outcome; runs in which nothing
    /// goes on; tools that are gone; a program that did not end in order; a disk that is nearly full.
    Attention(AttentionArgs),
    /// Print a task in Protolink's JSON, as it is or as it was after an earlier version
    ///
    /// Of a session the history is printed, of a tool its state.
    State(StateArgs),
    /// Rebuild states from the log and compare them with those a running system would have; exit 1 at the
    /// first difference
    Replay(ReplayArgs),
    /// Examine the log and its directory, with advice on each finding; exit 1 on any finding
    ///
    /// Covers format, durability, the process that has the log open, sizes, the cost of a sync, the file
    /// HEAD, and all checks of `verify`. While another process has the log open, it is examined through that program's
    /// local socket, all but the sizes of the trees; where the socket is shut, only the files are. What could not be checked is
    /// listed.
    Doctor(DoctorArgs),
    /// Check the integrity of the log: hashes, versions, lifecycles, calls, index, HEAD; exit 1 on any fault
    ///
    /// Prints the Merkle root of the log. Keep it elsewhere: given back by --root, it proves that nothing up to there
    /// was rewritten. Continues after a part that cannot be read. What could not be checked is listed last.
    Verify(VerifyArgs),
    /// Show what changed between two versions of a task or session, between two logs, or between two runs; exit 1
    /// on any difference
    ///
    /// A and B are versions: version 3 is the state after the third event. With --with FILE, A is a version
    /// in this log and B one in the other log. A version that is not given is the newest. If A is after B,
    /// the changes are shown in reverse.
    ///
    /// If A is another task, the two runs are compared step by step: messages, calls by tool and arguments, and the
    /// states in which they rest. Ids and times do not count. With --with FILE the second task is in the other log.
    #[command(after_help = "Examples:\n  taskreel diff order-17 3 9\n  taskreel diff order-17 order-18\n  \
                            taskreel diff order-17 order-17 --with copy.ndjson")]
    Diff(DiffArgs),
    /// Explain what recovery would do with each open call if the process had died after a version
    ///
    /// Uses the code of recovery itself. No call is made and no event is written.
    Explain(ExplainArgs),
    /// List calls that are open, have an unknown outcome, or wait for a person, oldest first
    ///
    /// Each is printed with the reason why it waits. Open calls (in flight, in a back-off, or waiting for a
    /// permit) continue when a process resumes the task. Calls that wait for approval or for an answer, or whose
    /// outcome is unknown, need a person; the commands to type are printed: `approve` or `deny`, `answer`, `reconcile`
    /// or `abandon`.
    Calls(CallsArgs),
    /// Approve a call that waits for approval
    ///
    /// The approval is valid only for the arguments that `taskreel calls` shows. A program that has the log open takes
    /// the decision through its local socket and continues the task; otherwise the task resumes when the program starts.
    #[command(after_help = "Example: taskreel approve order-17 approval_20261121120000_0a1b2c --by ada")]
    Approve(ApproveArgs),
    /// Deny a call that waits for approval
    ///
    /// If a model requested the call, the denial is reported to it and it continues; if the call is a part of
    /// the task, the task fails.
    #[command(
        after_help = "Example: taskreel deny order-17 approval_20261121120000_0a1b2c --reason 'over the limit'"
    )]
    Deny(DenyArgs),
    /// Record the outcome of a call whose outcome is unknown
    ///
    /// First find out at the call's target whether the call took effect. If the task waits for the call, it
    /// resumes: at once if the program that runs it has the log open, else when it starts again. After --did-not-happen a part of the task is
    /// executed again; a model that requested the call receives the verdict and decides what to do next.
    #[command(
        after_help = "Examples:\n  taskreel reconcile call_20261121120000_0a1b2c3d --landed '{\"receipt\":12}'\n  \
                            taskreel reconcile call_20261121120000_0a1b2c3d --did-not-happen"
    )]
    Reconcile(ReconcileArgs),
    /// Stop investigating a call whose outcome is unknown
    ///
    /// If the task waits for the call, a model continues with an error instead of the result; a part ends in
    /// an error.
    #[command(
        after_help = "Example: taskreel abandon call_20261121120000_0a1b2c3d --reason 'the account is closed'"
    )]
    Abandon(AbandonArgs),
    /// Answer the question of a call that waits for a person
    ///
    /// `taskreel calls` shows the question. The call is sent again and given the answer: at once if the program that runs its
    /// task has the log open, else when it starts again.
    #[command(
        after_help = "Examples:\n  taskreel answer call_20261121120000_0a1b2c3d:1 'the savings account' --by ada\n  \
                            taskreel answer call_20261121120000_0a1b2c3d:1 --decline 'ask somebody else'"
    )]
    Answer(AnswerArgs),
    /// Cancel a task: its open calls are closed, and it is canceled for good
    ///
    /// A program that has the log open cancels it at once; otherwise it is canceled in the log. A call in flight whose
    /// effect may have happened gets an unknown outcome. Canceling again adds nothing.
    #[command(after_help = "Example: taskreel cancel order-17 --reason 'ordered twice'")]
    Cancel(CancelArgs),
    /// Sum up all calls by tool, model and session: number, errors, times, tokens
    ///
    /// Times are the percentiles 50, 95 and 99 of the calls that succeeded or failed, from the dispatch of
    /// the last attempt to the outcome, by the times of the log's records. Tokens are those that providers
    /// report. All figures are exact.
    Stats(StatsArgs),
    /// Write the whole log to stdout as NDJSON, stored bytes and hashes included
    ///
    /// With filters, an extract is written: the records that hold an event which fits, whole, each with its bytes and
    /// its hash. `verify --file` checks each record of an extract and lists what only the whole log can prove; only a whole
    /// export can be imported.
    Export(ExportArgs),
    /// Make a new log from an export, byte for byte; or take in what another system has kept
    ///
    /// For an export the directory must be new or empty. Each record is checked; if a line is damaged or missing, nothing
    /// is imported. The new log can be appended to; exported before that, it gives the same records again.
    Import(ImportArgs),
    /// Write what is sound in a physically damaged log into an export; exit 1 if anything is missing
    ///
    /// Every value whose checksum is right is written, and the positions that are missing are listed. The log's
    /// directory is only read. `verify --file OUT` examines the export; `import` refuses one with gaps.
    #[command(after_help = "Example: taskreel salvage ./taskreel-log ./salvaged.ndjson")]
    Salvage(SalvageArgs),
    /// Print the script that completes commands, options and the ids of the log in a shell
    #[command(
        after_help = "bash: source <(taskreel completions bash)\nzsh:  source <(taskreel completions zsh)\n\
                            fish: taskreel completions fish | source"
    )]
    Completions(CompletionsArgs),
    /// Write the manual pages into a folder, one for each command
    Man(ManArgs),
    /// Print the JSON Schemas of what commands print with --json, one for each kind of line
    Schema(SchemaArgs),
}
