//! The arguments of the commands that list and show.

use std::path::PathBuf;

use clap::Args;
use taskreel::TaskState;

use crate::args::condition::WhereArgs;
use crate::args::filters::FilterArgs;
use crate::args::point::AtArgs;
use crate::args::source::{FROM_FILE, ReadFrom, ServerArgs};

#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    /// List only calls of this task: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    pub(crate) id: Option<String>,
    /// Do not shorten long texts
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Look in the file store in this folder for the files of artifacts that stand beside the log, and name those that are
    /// missing or changed: an export does not carry them; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// List sessions instead of tasks
    #[arg(long, conflicts_with = "state")]
    pub(crate) sessions: bool,
    /// List the tools that have state, instead of tasks
    #[arg(long, conflicts_with_all = ["state", "sessions"])]
    pub(crate) tools: bool,
    /// List only tasks in these states, such as failed,input-required
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = parse_state)]
    pub(crate) state: Vec<TaskState>,
    /// Show only the COUNT most recently changed, the latest last; 0 shows all [default: 50 on a terminal,
    /// else all]
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) point: AtArgs,
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    pub(crate) id: String,
    /// Do not shorten long texts
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) point: AtArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct EventsArgs {
    /// A task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// Print all events of the log
    #[arg(long)]
    pub(crate) all: bool,
    /// Go on with the events that are written from now on, until interrupted
    #[cfg(unix)]
    #[arg(long, short = 'f', conflicts_with_all = [FROM_FILE, "at"])]
    pub(crate) follow: bool,
    /// With --follow: end where the log ends now
    #[cfg(unix)]
    #[arg(long, requires = "follow")]
    pub(crate) exit_at_end: bool,
    /// Do not shorten long texts
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) point: AtArgs,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Follow only this task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of
    /// its stream, or @last for the task that changed last
    pub(crate) id: Option<String>,
    /// End where the log ends now, without following
    #[arg(long)]
    pub(crate) exit_at_end: bool,
    /// Do not shorten long texts
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    /// A task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) point: AtArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// Replay all tasks, sessions and tools of the log
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
