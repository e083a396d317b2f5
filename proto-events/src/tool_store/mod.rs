//! The tool store: what one tool keeps between its calls, under keys, each with the version at which it was last
//! written. A call's writes and its success are one append, so a call that did not succeed has written nothing.

mod command;
mod decide;
mod event;
mod state;

pub use command::{ToolStoreCommand, ToolStoreRejection, ToolWrite, check_key};
pub use event::ToolStoreEvent;
pub use state::{ToolEntry, ToolStore};
