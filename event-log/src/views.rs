//! Views for readers: rows made from the log alone, statistics, and the lookup of typed names. Everything
//! takes an [`EventReader`](crate::api::EventReader) and knows no actor.

pub(crate) mod agent_change;
pub(crate) mod calls;
pub(crate) mod changed_tools;
pub(crate) mod find;
pub(crate) mod narrowed;
pub(crate) mod readable;
pub(crate) mod stats;
pub(crate) mod summary;
pub(crate) mod tool_servers;
pub(crate) mod view;

pub use crate::views::agent_change::agent_change;
#[doc(hidden)]
pub use crate::views::calls::shell_word;
pub use crate::views::calls::{CallRow, unsettled};
pub use crate::views::changed_tools::{ChangedTool, changed_tools};
pub use crate::views::find::{FindError, find, find_call, find_question, streams};
pub use crate::views::narrowed::narrowed;
pub use crate::views::readable::Readable;
pub use crate::views::stats::{Durations, Stats, StatsGroup, StatsRow, stats};
pub use crate::views::summary::Summaries;
pub use crate::views::tool_servers::tool_servers;
pub use crate::views::view::{
    EventRow, SessionRow, TaskRow, ToolRow, call_json, event_rows, session_row, task_row, tool_row,
    waiting_for,
};
