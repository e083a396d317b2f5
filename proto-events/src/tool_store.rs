//! The tool store: the state of one tool between its calls, as keys, each with the version at which it was
//! last written. A call's writes and its success are one append, so a call that did not succeed has written
//! nothing.

pub(crate) mod command;
pub(crate) mod decide;
pub(crate) mod event;
pub(crate) mod state;

pub use command::{ToolStoreCommand, ToolStoreRejection, ToolWrite, check_key};
pub use event::ToolStoreEvent;
pub use state::{ToolEntry, ToolStore};
