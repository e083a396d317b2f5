//! The session: one conversation's history, and the one turn that may be open on it.

pub(crate) mod command;
pub(crate) mod decide;
pub(crate) mod event;
pub(crate) mod state;

pub use command::{SessionCommand, SessionRejection};
pub use event::SessionEvent;
pub use state::{OpenTurn, Session};
