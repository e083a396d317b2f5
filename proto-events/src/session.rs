//! The session: one conversation's history, and the one turn that may be open on it.

pub(crate) mod command;
pub(crate) mod decide;
pub(crate) mod event;
pub(crate) mod state;

pub use command::{Compaction, SessionCommand, SessionRejection};
pub use decide::{EMPTY_SUMMARY, SUPERSEDED};
pub use event::{HistoryCompacted, SessionEvent, SummaryRequested};
pub use state::{OpenSummary, OpenTurn, Session};
