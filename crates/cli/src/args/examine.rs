//! The arguments of the commands that examine a log and compare runs.

use std::path::PathBuf;

use clap::Args;
use proto_events::id::Digest;
use taskreel_log::views::Point;

use crate::args::point::parse_point;
use crate::args::source::ReadFrom;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Discard the index and build it anew from the whole log first; it is a cache, so nothing is lost
    #[arg(long)]
    pub(crate) rebuild_index: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Verify only this task, session or tool: its id, a unique prefix of the id (4 characters or more), the
    /// name of its stream, or @last for the task that changed last
    pub(crate) id: Option<String>,
    /// Compare with this Merkle root, which an earlier `verify` or `export` printed and which was kept elsewhere
    ///
    /// It must be the root of the log as it is, or as it was after some record: what came later is not covered.
    #[arg(long, value_name = "HEX", conflicts_with = "id", value_parser = parse_digest)]
    pub(crate) root: Option<Digest>,
    /// Compare the files of artifacts that stand beside the log, in the file store in this folder, with the digests that the
    /// log holds; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

fn parse_digest(text: &str) -> Result<Digest, String> {
    Digest::parse(&text.to_ascii_lowercase()).ok_or_else(|| "it is not 64 hexadecimal digits".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    pub(crate) id: String,
    /// Point of the first state: a version such as 17, @1204, -10 or a time; or another task to compare with, by its stream if
    /// its id looks like a point
    #[arg(required_unless_present = "with", value_name = "A", allow_negative_numbers = true)]
    pub(crate) a: Option<String>,
    /// Point of the second state, in the other log if --with is given
    #[arg(value_name = "B", value_parser = parse_point, allow_negative_numbers = true)]
    pub(crate) b: Option<Point>,
    /// Compare with the same task or session in this exported log
    #[arg(long, value_name = "FILE")]
    pub(crate) with: Option<PathBuf>,
    /// Print the changes as a JSON Patch (RFC 6902) between two outputs of `state`
    #[arg(long)]
    pub(crate) patch: bool,
    /// Do not shorten long texts
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    pub(crate) id: String,
    /// Assume the process died at this point: after a version such as 17, at a position of the log (@1204), at a time, or so many
    /// events before the newest one (-10) [default: the newest]
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) at: Option<Point>,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}
