//! The tasks by state.

use proto_events::codec::AnyEvent;
use proto_events::task::TaskEvent;
use rusqlite::{Transaction, params};
use taskreel::log::projection::{ApplyError, ProjectedEvent, Projection, Slot};

use crate::sqlite::{Sqlite, create, promote};

/// A table `tasks` with the state of each task and the time of its last change, in microseconds since 1970.
pub struct TasksByState;

impl Projection<Sqlite> for TasksByState {
    fn name(&self) -> &str {
        "tasks"
    }

    fn revision(&self) -> u32 {
        1
    }

    fn create(&mut self, tx: &mut Transaction<'_>, slot: Slot) -> rusqlite::Result<()> {
        let columns = "stream TEXT PRIMARY KEY, state TEXT NOT NULL, since INTEGER NOT NULL";
        create(tx, &slot.table("tasks"), columns)
    }

    fn apply(
        &mut self,
        tx: &mut Transaction<'_>,
        event: &ProjectedEvent<'_>,
    ) -> Result<(), ApplyError<rusqlite::Error>> {
        let state = match event.event {
            AnyEvent::Task(TaskEvent::Submitted(posted)) => posted.state,
            AnyEvent::Task(TaskEvent::StateChanged { to, .. }) => *to,
            _ => return Ok(()),
        };
        let sql = format!("INSERT OR REPLACE INTO {} VALUES (?1, ?2, ?3)", event.slot.table("tasks"));
        tx.execute(&sql, params![event.stream.as_str(), state.as_str(), event.metadata.at.0])?;
        Ok(())
    }

    fn promote(&mut self, tx: &mut Transaction<'_>) -> rusqlite::Result<()> {
        promote(tx, "tasks")
    }
}
