//! The outcome of a damage: the log is opened, read completely, and compared with its earlier contents.

use std::fs;
use std::path::Path;

use proto_events::id::Position;
use taskreel_log::api::{EventReader as _, EventStore as _};
use taskreel_log::sled::SledStore;

/// The result for a reader of a damaged log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All records, and no note.
    Intact,
    /// All records, and this note.
    Repaired(String),
    /// The first records only, up to this number, and this note.
    Cut(usize, String),
    /// The log was refused, with this reason.
    Refused(String),
    /// The log opened, and reading gave this error.
    Unreadable(String),
    /// Wrong records, or missing ones without a note.
    Lied(String),
}

/// Opens the log and reads it. Damaged bytes must still exist for examination: in the database, or set aside.
pub(crate) fn of(dir: &Path, hashes: &[String], proven: usize) -> Outcome {
    let before = fs::read(dir.join("db")).unwrap_or_default();
    let outcome = opened(dir, hashes, proven);
    if matches!(outcome, Outcome::Intact | Outcome::Repaired(_)) {
        return outcome;
    }
    match lost_evidence(dir, &before) {
        Some(at) => Outcome::Lied(format!("byte {at} of db is nowhere any more: {outcome:?}")),
        None => outcome,
    }
}

/// The maximum size of a filler's header: sled puts one at the end of a segment, and it holds nothing.
const FILLER: usize = 32;

/// Returns the first byte of the database that was lost.
fn lost_evidence(dir: &Path, before: &[u8]) -> Option<usize> {
    let mut kept = fs::read(dir.join("db")).unwrap_or_default();
    kept.resize(before.len().max(kept.len()), 0);
    for entry in fs::read_dir(dir.join("damaged")).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(at) = name.strip_prefix("db-") {
            let at: usize = at.parse().unwrap();
            let piece = fs::read(path).unwrap();
            kept[at..at + piece.len()].copy_from_slice(&piece);
        }
    }
    let is_gone = |(_, (before, kept)): &(usize, (&u8, &u8))| **before != 0 && before != kept;
    let gone: Vec<usize> = before.iter().zip(&kept).enumerate().filter(is_gone).map(|(at, _)| at).collect();
    gone.first().copied().filter(|_| gone.len() > FILLER)
}

fn opened(dir: &Path, hashes: &[String], proven: usize) -> Outcome {
    let store = match SledStore::open(dir) {
        Ok(store) => store,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let told = store.open_notes().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
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
    /// Returns a line for the parent.
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
