//! The reading commands of the command line, each a function from an
//! [`EventReader`](crate::store::EventReader) to lines. Data goes to stdout, all else to stderr; rules for both
//! are in [`screen`], the form of errors in [`problem`].

mod audit;
mod calls;
mod compare;
mod doctor;
mod events;
mod list;
pub mod problem;
mod progress;
pub mod screen;
mod show;
mod stats;
mod time;

pub use audit::{export_log, replay, verify_log};
pub use calls::calls;
pub use compare::{diff, explain};
pub use doctor::doctor;
pub use events::{EventLines, EventsOf, events};
pub use list::{ListOptions, sessions, task_table, tasks, tools};
pub use problem::Problem;
pub use screen::{ColorWish, Screen};
pub use show::{show, state};
pub use stats::stats;

/// What a command answers when nothing went wrong: yes, or the "no" that exit code 1 stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Done.
    Yes,
    /// The answer is "no": a difference, a fault, a failed task.
    No,
}
