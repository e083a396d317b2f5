//! Two read models of a log in SQLite: the tasks by state, and the cost by session and day. Each event's effect and the
//! cursor are one transaction, so that a crash anywhere leaves neither a gap nor a repeat.

pub mod cost;
pub mod sqlite;
pub mod tasks;
