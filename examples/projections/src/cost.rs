//! The cost by session and day.

use proto_events::call::{CallEvent, Price, TokenUsage};
use proto_events::codec::AnyEvent;
use proto_events::json::JsonText;
use proto_events::task::TaskEvent;
use rusqlite::{OptionalExtension as _, Transaction, params};
use taskreel::log::projection::{ApplyError, ProjectedEvent, Projection, Slot};

use crate::sqlite::{Sqlite, create, promote};

/// A table `cost` with the tokens of each session on each day, and what they cost at the price of each intent. It needs
/// what earlier events said of a task's session and of a call's price, which are two more tables.
pub struct CostBySession;

const TABLES: [(&str, &str); 3] = [
    ("cost_sessions", "stream TEXT PRIMARY KEY, session TEXT NOT NULL"),
    (
        "cost_calls",
        "stream TEXT NOT NULL, call_id TEXT NOT NULL, currency TEXT NOT NULL, input INTEGER NOT NULL,
         output INTEGER NOT NULL, PRIMARY KEY (stream, call_id)",
    ),
    (
        "cost",
        "session TEXT NOT NULL, day TEXT NOT NULL, currency TEXT NOT NULL, input_tokens INTEGER NOT NULL,
         output_tokens INTEGER NOT NULL, amount TEXT NOT NULL, PRIMARY KEY (session, day, currency)",
    ),
];

impl Projection<Sqlite> for CostBySession {
    fn name(&self) -> &str {
        "cost"
    }

    fn revision(&self) -> u32 {
        1
    }

    fn create(&mut self, tx: &mut Transaction<'_>, slot: Slot) -> rusqlite::Result<()> {
        TABLES.iter().try_for_each(|(table, columns)| create(tx, &slot.table(table), columns))
    }

    fn apply(
        &mut self,
        tx: &mut Transaction<'_>,
        event: &ProjectedEvent<'_>,
    ) -> Result<(), ApplyError<rusqlite::Error>> {
        let slot = event.slot;
        let AnyEvent::Task(of_task) = event.event else { return Ok(()) };
        match of_task {
            TaskEvent::Submitted(posted) => note_session(tx, event, posted.metadata.get("session_id")),
            TaskEvent::MetadataMerged(entries) => note_session(tx, event, entries.get("session_id")),
            TaskEvent::Call(CallEvent::Requested(request)) => match &request.price {
                Some(price) => note_price(tx, slot, event.stream.as_str(), &request.call_id, price),
                None => Ok(()),
            },
            TaskEvent::Call(CallEvent::Succeeded { call_id, usage: Some(usage), .. }) => {
                add(tx, event, call_id, *usage)
            }
            TaskEvent::Call(CallEvent::Failed { call_id, failure, .. }) => match failure.usage {
                Some(usage) => add(tx, event, call_id, usage),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn promote(&mut self, tx: &mut Transaction<'_>) -> rusqlite::Result<()> {
        TABLES.iter().try_for_each(|(table, _)| promote(tx, table))
    }
}

/// Notes the session that a task names.
fn note_session(
    tx: &Transaction<'_>,
    event: &ProjectedEvent<'_>,
    named: Option<&JsonText>,
) -> Result<(), ApplyError<rusqlite::Error>> {
    let Some(session) = named.and_then(JsonText::to_str) else { return Ok(()) };
    let sql = format!("INSERT OR REPLACE INTO {} VALUES (?1, ?2)", event.slot.table("cost_sessions"));
    tx.execute(&sql, params![event.stream.as_str(), session])?;
    Ok(())
}

/// Notes the price that an intent names.
fn note_price(
    tx: &Transaction<'_>,
    slot: Slot,
    stream: &str,
    call_id: &str,
    price: &Price,
) -> Result<(), ApplyError<rusqlite::Error>> {
    let (input, output) = (number(price.input_per_million)?, number(price.output_per_million)?);
    let sql = format!("INSERT OR REPLACE INTO {} VALUES (?1, ?2, ?3, ?4, ?5)", slot.table("cost_calls"));
    tx.execute(&sql, params![stream, call_id, price.currency, input, output])?;
    Ok(())
}

/// Returns a number as SQLite has it. One that it cannot hold makes the event one that can never be applied.
fn number(number: u64) -> Result<i64, ApplyError<rusqlite::Error>> {
    i64::try_from(number).map_err(|_| ApplyError::Poison(format!("{number} is more than SQLite can hold")))
}

/// Adds the tokens of an attempt to the session and the day. A call without a price costs nothing that is known.
fn add(
    tx: &Transaction<'_>,
    event: &ProjectedEvent<'_>,
    call_id: &str,
    usage: TokenUsage,
) -> Result<(), ApplyError<rusqlite::Error>> {
    let (stream, slot) = (event.stream.as_str(), event.slot);
    let sql = format!(
        "SELECT currency, input, output FROM {} WHERE stream = ?1 AND call_id = ?2",
        slot.table("cost_calls")
    );
    let price = tx.query_row(&sql, params![stream, call_id], |row| {
        let of = |at| row.get::<_, i64>(at).map(|price| u64::try_from(price).unwrap_or_default());
        Ok(Price { currency: row.get(0)?, input_per_million: of(1)?, output_per_million: of(2)? })
    });
    let Some(price) = price.optional()? else { return Ok(()) };
    let sql = format!("SELECT session FROM {} WHERE stream = ?1", slot.table("cost_sessions"));
    let session: Option<String> = tx.query_row(&sql, params![stream], |row| row.get(0)).optional()?;
    let session = session.unwrap_or_else(|| event.stream.id());
    let day: String = event.metadata.at.to_string().chars().take(10).collect();

    let table = slot.table("cost");
    let sql = format!("SELECT amount FROM {table} WHERE session = ?1 AND day = ?2 AND currency = ?3");
    let known: Option<String> =
        tx.query_row(&sql, params![session, day, price.currency], |row| row.get(0)).optional()?;
    // SQLite has no integers of this size: the amount, in 10⁻¹² of the currency's unit, is a text.
    let known: u128 = known.and_then(|known| known.parse().ok()).unwrap_or_default();
    let amount = known.saturating_add(price.cost(usage).0).to_string();
    let sql = format!(
        "INSERT INTO {table} VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET amount = ?6,
         input_tokens = input_tokens + ?4, output_tokens = output_tokens + ?5"
    );
    let (input, output) = (number(usage.input_tokens)?, number(usage.output_tokens)?);
    tx.execute(&sql, params![session, day, price.currency, input, output, amount])?;
    Ok(())
}
