//! The session: one conversation's history, and the one turn that may be open on it.

mod command;
mod decide;
mod event;
mod state;

pub use command::{SessionCommand, SessionRejection};
pub use event::SessionEvent;
pub use state::{OpenTurn, Session};
