//! The actor of a session. [`core`] hands the session's turn to one task after another, without waiting for anything; [`actor`]
//! carries messages in, reads and appends where that is needed, and performs what comes out. [`history_ops`] clears and
//! compacts the history, [`automatic`] by the agent's own setting, with a [`summarizer`] where that is asked for.

pub(crate) mod actor;
mod automatic;
pub(crate) mod core;
mod history_ops;
mod history_queue;
mod history_size;
mod summarizer;
