//! SQLite as a store of projections.

use proto_events::id::Position;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use taskreel::log::projection::{Cursor, ParkedEvent, ProjectionStore, Slot};

/// A database with the cursors of its projections.
pub struct Sqlite(Connection);

impl Sqlite {
    /// Opens a database, and creates the tables of cursors and parked events if there are none.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn open(connection: Connection) -> rusqlite::Result<Self> {
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS projection_cursors (
                 name TEXT NOT NULL, slot TEXT NOT NULL, log TEXT NOT NULL, revision INTEGER NOT NULL,
                 position INTEGER NOT NULL, PRIMARY KEY (name, slot));
             CREATE TABLE IF NOT EXISTS projection_parked (
                 name TEXT NOT NULL, slot TEXT NOT NULL, position INTEGER NOT NULL, stream TEXT NOT NULL,
                 version INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (name, slot, position));",
        )?;
        Ok(Self(connection))
    }

    /// Returns the connection, to read the tables.
    pub fn connection(&self) -> &Connection {
        &self.0
    }
}

fn word(slot: Slot) -> &'static str {
    match slot {
        Slot::Live => "live",
        Slot::Shadow => "shadow",
    }
}

/// SQLite's integers are signed; a position is far below their end.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl ProjectionStore for Sqlite {
    type Tx<'a> = Transaction<'a>;
    type Error = rusqlite::Error;

    fn begin(&mut self) -> rusqlite::Result<Transaction<'_>> {
        self.0.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
    }

    fn commit(tx: Transaction<'_>) -> rusqlite::Result<()> {
        tx.commit()
    }

    fn cursor(tx: &mut Transaction<'_>, name: &str, slot: Slot) -> rusqlite::Result<Option<Cursor>> {
        let sql = "SELECT log, revision, position FROM projection_cursors WHERE name = ?1 AND slot = ?2";
        tx.query_row(sql, params![name, word(slot)], |row| {
            let position = u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default();
            Ok(Cursor { log: row.get(0)?, revision: row.get(1)?, position: Position(position) })
        })
        .optional()
    }

    fn put_cursor(
        tx: &mut Transaction<'_>,
        name: &str,
        slot: Slot,
        cursor: Option<&Cursor>,
    ) -> rusqlite::Result<()> {
        match cursor {
            Some(Cursor { log, revision, position }) => tx.execute(
                "INSERT OR REPLACE INTO projection_cursors VALUES (?1, ?2, ?3, ?4, ?5)",
                params![name, word(slot), log, revision, integer(position.0)],
            ),
            None => tx.execute(
                "DELETE FROM projection_cursors WHERE name = ?1 AND slot = ?2",
                params![name, word(slot)],
            ),
        }
        .map(drop)
    }

    fn park(tx: &mut Transaction<'_>, name: &str, slot: Slot, parked: &ParkedEvent) -> rusqlite::Result<()> {
        let ParkedEvent { position, stream, version, reason } = parked;
        tx.execute(
            "INSERT OR REPLACE INTO projection_parked VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![name, word(slot), integer(position.0), stream.as_str(), integer(version.0), reason],
        )
        .map(drop)
    }

    fn clear_parked(tx: &mut Transaction<'_>, name: &str, slot: Slot) -> rusqlite::Result<()> {
        let sql = "DELETE FROM projection_parked WHERE name = ?1 AND slot = ?2";
        tx.execute(sql, params![name, word(slot)]).map(drop)
    }

    fn promote_parked(tx: &mut Transaction<'_>, name: &str) -> rusqlite::Result<()> {
        Self::clear_parked(tx, name, Slot::Live)?;
        let sql = "UPDATE projection_parked SET slot = 'live' WHERE name = ?1 AND slot = 'shadow'";
        tx.execute(sql, params![name]).map(drop)
    }
}

/// Creates an empty table with these columns, and drops the one of its name.
pub(crate) fn create(tx: &Transaction<'_>, table: &str, columns: &str) -> rusqlite::Result<()> {
    tx.execute_batch(&format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} ({columns});"))
}

/// Replaces a table by its shadow.
pub(crate) fn promote(tx: &Transaction<'_>, table: &str) -> rusqlite::Result<()> {
    let shadow = Slot::Shadow.table(table);
    tx.execute_batch(&format!("DROP TABLE IF EXISTS {table}; ALTER TABLE {shadow} RENAME TO {table};"))
}
