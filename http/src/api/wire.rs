//! The lines of `/v1/records`: a record as an export has it, or a word about what follows. The client reads what the
//! server writes here.

use proto_events::id::{Position, StreamId, Version};
use proto_events::json::JsonText;
use serde::{Deserialize, Serialize};
use taskreel_log::api::{ReadError, StoredRecord};
use taskreel_log::audit::record_line;
#[cfg(any(feature = "client", test))]
use taskreel_log::jsonl::read_record_line;

/// The beginning of the line of a record, which no word has.
#[cfg(any(feature = "client", test))]
const RECORD: &str = "{\"position\":";

/// A line.
#[cfg(any(feature = "client", test))]
#[derive(Debug)]
pub(crate) enum Line {
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
    Failed(Failure),
    /// The follower was too slow for the live feed: these positions follow from the log.
    Lagged { from: u64, to: u64 },
    /// Nothing has come for a while; the server is there.
    Quiet(bool),
    /// The program has closed the log.
    Ended(bool),
    /// The answer is complete, with this number of records.
    Done(u64),
}

/// A place that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    class: Class,
    what: String,
    stream: Option<String>,
    version: Option<u64>,
    position: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Class {
    Corrupt,
    Newer,
    Index,
    Ahead,
    Io,
    Closed,
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
pub(crate) fn read(number: u64, line: &str) -> Result<Line, String> {
    if line.starts_with(RECORD) {
        let read = read_record_line(number, line).map_err(|damaged| damaged.what)?;
        return Ok(Line::Record(Box::new(read.stored)));
    }
    serde_json::from_str(line)
        .map(Line::Word)
        .map_err(|error| format!("it is neither a record nor a word: {error}"))
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let text = error.to_string();
        let (class, what, stream, version, position) = match error {
            ReadError::Corrupt { what, stream, version, position } => {
                (Class::Corrupt, what, stream, version, position)
            }
            ReadError::Newer { what, stream, version, position } => {
                (Class::Newer, what, stream, version, position)
            }
            ReadError::Index { what, stream, version, position } => {
                (Class::Index, what, stream, version, position)
            }
            ReadError::Ahead { what, asked, head } => {
                (Class::Ahead, what, None, Some(Version(asked)), Some(Position(head)))
            }
            ReadError::Io(what) => (Class::Io, what, None, None, None),
            ReadError::Closed => (Class::Closed, text, None, None, None),
            _ => (Class::Io, text, None, None, None),
        };
        let (version, position) = (version.map(|version| version.0), position.map(|position| position.0));
        Self { class, what, stream: stream.map(|stream| stream.to_string()), version, position }
    }
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        let Failure { class, what, stream, version, position } = failure;
        let stream = stream.and_then(|name| StreamId::parse(&name).ok());
        let (version, position) = (version.map(Version), position.map(Position));
        match class {
            Class::Corrupt => Self::Corrupt { what, stream, version, position },
            Class::Newer => Self::Newer { what, stream, version, position },
            Class::Index => Self::Index { what, stream, version, position },
            Class::Ahead => {
                let (asked, head) = (version.map_or(0, |asked| asked.0), position.map_or(0, |head| head.0));
                Self::Ahead { what, asked, head }
            }
            Class::Io => Self::Io(what),
            Class::Closed => Self::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_and_each_failure_comes_back_from_its_line() {
        let (stream, version) = (Some(StreamId::parse("task-a/b").unwrap()), Some(Version(3)));
        let (what, position) = ("it is\ngone".to_owned(), Some(Position(9)));
        let failures = [
            ReadError::Corrupt { what: what.clone(), stream: stream.clone(), version, position },
            ReadError::Newer { what: what.clone(), stream: None, version, position },
            ReadError::Index { what: what.clone(), stream, version: None, position: None },
            ReadError::Ahead { what: what.clone(), asked: 12, head: 9 },
            ReadError::Io(what),
            ReadError::Closed,
        ];
        for error in &failures {
            assert_eq!(ReadError::from(Failure::from(error.clone())), *error);
        }
        let failed = failures.map(|error| Word::Failed(error.into()));
        let others = [Word::Lagged { from: 1, to: 2 }, Word::Quiet(true), Word::Ended(true), Word::Done(7)];
        for word in failed.into_iter().chain(others) {
            let line = word.to_line();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            let Ok(Line::Word(read)) = read(1, line.trim_end()) else { panic!("{line}") };
            assert_eq!(read, word);
        }
        for nonsense in ["", "{}", "<html>", "{\"position\":1}", "{\"done\":\"x\"}"] {
            assert!(read(1, nonsense).is_err(), "{nonsense}");
        }
    }
}
