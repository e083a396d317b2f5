//! Floor 3, reading only: what can be shown from the log alone. Everything here takes an
//! [`EventReader`] and knows no actor, so that it cannot perform a call.

pub mod claims;
pub mod diff;
pub mod difference;
pub mod explain;
pub mod export;
pub mod import;
pub mod json;
pub mod patch;
pub mod replay;
pub mod verify;
pub mod words;

pub use explain::{Explained, explain};
pub use export::export;
pub use import::{ImportError, Imported, import};
pub use patch::patch;
pub use replay::{Mismatch, Replayed, replay_all, replay_stream};
pub use verify::{Finding, FindingKind, Progress, Scope, Verified, verify, verify_within};

use proto_events::id::Position;

use crate::store::{EventReader, ReadError, StoredRecord};

/// Records read at a time, so that a log is never whole in memory.
const PAGE_RECORDS: usize = 256;

/// Shows every record of the log to `look`, in order of position, until it answers with an error.
///
/// # Errors
/// Whatever `look` answers, or [`ReadError`] made into it.
pub fn for_each_record<E: From<ReadError>>(
    reader: &dyn EventReader,
    from: Position,
    mut look: impl FnMut(&StoredRecord) -> Result<(), E>,
) -> Result<(), E> {
    let mut next = from;
    loop {
        let page = reader.read_all(next, PAGE_RECORDS)?;
        let Some(last) = page.last() else { return Ok(()) };
        next = Position(last.last_position().0.saturating_add(1));
        for stored in &page {
            look(stored)?;
        }
    }
}
