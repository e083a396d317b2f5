//! The arguments of the commands that look into one thing, or for what is wrong.

use std::path::PathBuf;

use clap::Args;
use taskreel_log::views::Point;

use crate::args::condition::WhereArgs;
use crate::args::point::parse_point;
#[cfg(feature = "inspector")]
use crate::args::source::FROM_FILE;
use crate::args::source::ReadFrom;

#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// A task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    pub(crate) id: String,
    /// Version of the event in its stream, as `taskreel events ID` shows it; or @1204 for a position of the log, a time, or -10
    #[arg(value_name = "POINT", value_parser = parse_point, allow_negative_numbers = true)]
    pub(crate) point: Point,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// The inference: its call id, or a unique beginning or end of it (4 characters or more)
    pub(crate) call: String,
    /// The call's task, if several tasks have a call with this id
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct AttentionArgs {
    #[command(flatten)]
    pub(crate) only: WhereArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[cfg(feature = "inspector")]
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) from: ReadFrom,
    /// Address and port; port 0 is any free one
    ///
    /// An address that other machines reach needs --auth-file.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
    /// File with credentials, allowed hosts and limits, as for `serve`; a browser asks for the user and password of its `basic` entries
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
    /// Host that requests may name, such as `example.org`; may be given more than once
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Let callers decide on the pages: approve, deny, answer, settle unknown outcomes, cancel
    ///
    /// It decides as `approve` and the other commands do: the program that has the log open, or a server, carries them out; in a
    /// directory that no program has open they are added to the log. They are recorded as the user of this process, or as the caller that
    /// the token names at a server. With --auth-file, a caller needs the scope control.
    #[arg(long, conflicts_with = FROM_FILE)]
    pub(crate) allow_control: bool,
    /// Another log, exported to this file, whose runs can be compared with the log's
    #[arg(long, value_name = "FILE")]
    pub(crate) with: Option<PathBuf>,
    /// Open the pages in a browser
    #[arg(long)]
    pub(crate) open: bool,
}

#[cfg(feature = "inspector")]
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A task or session: its id, a unique prefix of the id (4 characters or more), the name of its stream, or @last for the task that
    /// changed last
    pub(crate) id: String,
    /// File to write; without it, the report goes to stdout
    ///
    /// The file is there once the report is whole. One of this name is replaced.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Put payloads, records and artifacts in whole, however long they are; without it, of one longer than 64 KiB its beginning
    #[arg(long)]
    pub(crate) whole: bool,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[cfg(feature = "tui")]
#[derive(Debug, Args)]
pub(crate) struct TuiArgs {
    /// A task, session or tool to begin with: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    pub(crate) id: Option<String>,
    /// Begin at this point: after a version such as 17, at a position of the log (@1204), at a time, or so many events before
    /// the newest one (-10) [default: the newest]
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true, requires = "id")]
    pub(crate) at: Option<Point>,
    /// The export that has the second run of comparisons (`:compare A B`)
    #[arg(long, value_name = "FILE")]
    pub(crate) with: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}
