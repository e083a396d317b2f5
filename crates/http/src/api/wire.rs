//! The lines of `/v1/records`: a record as an export has it, or a word about what follows. The client reads what the
//! server writes here.

use proto_events::json::JsonText;
use serde::{Deserialize, Serialize};
use taskreel_log::api::{ReadFailure, StoredRecord};
use taskreel_log::audit::record_line;
#[cfg(any(feature = "client", test))]
use taskreel_log::jsonl::read_record_line;

/// The beginning of the line of a record, which no word has.
#[cfg(any(feature = "client", test))]
const RECORD: &str = "{\"position\":";

/// A line.
#[cfg(any(feature = "client", test))]
#[derive(Debug)]
pub(crate) enum WireLine {
    /// A record.
    Record(Box<StoredRecord>),
    /// A word about what follows.
    Word(Word),
}

/// A word about what follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// The log could not be read here.
    Failed(ReadFailure),
    /// The follower was too slow for the live feed: these positions follow from the log.
    Lagged { from: u64, to: u64 },
    /// A sign of life: no record has come for a while.
    Quiet(bool),
    /// The program has closed the log.
    Ended(bool),
    /// The answer is complete, with this number of records.
    Done(u64),
}

impl Word {
    /// Returns the line, with its end.
    pub(crate) fn to_line(&self) -> String {
        let mut line = JsonText::of_model(self).as_str().to_owned();
        line.push('\n');
        line
    }
}

/// Writes the line of a record, with its end.
pub(crate) fn put_record(lines: &mut String, stored: &StoredRecord) {
    lines.push_str(&record_line(stored));
    lines.push('\n');
}

/// Reads a line.
///
/// # Errors
/// The fault in words.
#[cfg(any(feature = "client", test))]
pub(crate) fn read(number: u64, line: &str) -> Result<WireLine, String> {
    if line.starts_with(RECORD) {
        let read = read_record_line(number, line).map_err(|damaged| damaged.what)?;
        return Ok(WireLine::Record(Box::new(read.stored)));
    }
    serde_json::from_str(line)
        .map(WireLine::Word)
        .map_err(|error| format!("it is neither a record nor a word: {error}"))
}

#[cfg(test)]
mod tests {
    use taskreel_log::api::ReadError;

    use super::*;

    #[test]
    fn each_word_comes_back_from_its_line() {
        let failed = Word::Failed(ReadError::Io("it is\ngone".to_owned()).into());
        let others = [Word::Lagged { from: 1, to: 2 }, Word::Quiet(true), Word::Ended(true), Word::Done(7)];
        for word in [failed].into_iter().chain(others) {
            let line = word.to_line();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            let Ok(WireLine::Word(read)) = read(1, line.trim_end()) else { panic!("{line}") };
            assert_eq!(read, word);
        }
        for nonsense in ["", "{}", "<html>", "{\"position\":1}", "{\"done\":\"x\"}"] {
            assert!(read(1, nonsense).is_err(), "{nonsense}");
        }
    }
}
