//! Read models that are made from the log and follow it. A [`Projection`] says what an event means for its tables; a
//! [`ProjectionStore`] is a database whose transaction holds a projection's output together with its cursor, so that each
//! event counts once, whatever crashes; the [`Runner`] brings the two up to date.
//!
//! * A projection of another **revision** is rebuilt beside the old one, which can be read until the new one has reached the
//!   end of the log and takes its place.
//! * An event that a projection cannot apply is **parked** with the reason, and the next ones are applied.
//! * A **process manager** is a projection whose output is commands: [`ProjectedEvent::command_id`] gives each an id, under
//!   which a command that is sent again takes effect once.
//!
//! The package `examples/projections` of the repository has a store over `SQLite` and two projections.

mod model;
mod runner;

pub use model::{
    ApplyError, Cursor, ParkedEvent, ProjectedEvent, Projection, ProjectionError, ProjectionStore, Slot,
};
pub use runner::{Progress, Runner};
