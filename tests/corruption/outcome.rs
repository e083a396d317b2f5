//! What became of a damaged log: it is opened and read whole, and compared with what it held.

use std::path::Path;

use proto_events::id::Position;
use taskreel::store::{EventReader as _, EventStore as _, SledStore};

/// What a reader of a damaged log gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every record, and nothing was told.
    Intact,
    /// Every record, and this was told.
    Repaired(String),
    /// The first so many records, and this was told.
    Cut(usize, String),
    /// It was refused, with this reason.
    Refused(String),
    /// It opened, and reading told this.
    Unreadable(String),
    /// Wrong records, or fewer without a word.
    Lied(String),
}

/// Opens the log and reads it, twice: what was told once must not be needed again.
pub(crate) fn of(dir: &Path, hashes: &[String], proven: usize) -> Outcome {
    let store = match SledStore::open(dir) {
        Ok(store) => store,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let told = store.notes().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let read = store.read_all(Position(1), usize::MAX);
    let head = store.head().unwrap();
    if let Err(error) = store.close() {
        return Outcome::Lied(format!("it does not close: {error}"));
    }
    let records = match read {
        Ok(records) => records,
        Err(error) => return Outcome::Unreadable(error.to_string()),
    };
    let found: Vec<String> = records.iter().map(|stored| stored.hash.to_string()).collect();
    let end = records.last().map_or(0, |last| last.last_position().0);
    if !hashes.starts_with(&found) || end != head.0 {
        return Outcome::Lied(format!("{} records, head {head}, of {}", found.len(), hashes.len()));
    }
    match (found.len() == hashes.len(), told.is_empty()) {
        (true, true) => Outcome::Intact,
        (true, false) => Outcome::Repaired(told),
        (false, false) if found.len() >= proven => Outcome::Cut(found.len(), told),
        (false, _) => Outcome::Lied(format!("{} of {} records, told: {told:?}", found.len(), hashes.len())),
    }
}

impl Outcome {
    /// One line for the parent.
    pub(crate) fn line(&self) -> String {
        let text = match self {
            Self::Intact => "intact".to_owned(),
            Self::Repaired(told) => format!("repaired {told}"),
            Self::Cut(left, told) => format!("cut to {left}: {told}"),
            Self::Refused(why) => format!("refused {why}"),
            Self::Unreadable(why) => format!("unreadable {why}"),
            Self::Lied(how) => format!("LIED {how}"),
        };
        text.replace('\n', " ")
    }
}
