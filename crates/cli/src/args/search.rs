//! The arguments of `search`.

use clap::Args;

use crate::args::condition::WhereArgs;
use crate::args::filters::FilterArgs;
use crate::args::source::ReadFrom;

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The text to search for, in upper or lower case
    #[arg(value_name = "TEXT")]
    pub(crate) asked: String,
    /// Search only this task, session or tool: its id, a unique prefix of the id (4 characters or more), the name of its
    /// stream, or @last for the task that changed last
    pub(crate) id: Option<String>,
    /// Take TEXT as a regular expression, such as '(?i)iban|bic'; it is matched in linear time
    #[arg(long)]
    pub(crate) regex: bool,
    /// Print only the number of texts that were found
    #[arg(long)]
    pub(crate) count: bool,
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
