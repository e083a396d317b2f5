//! The checks that every store makes of an append: by itself, before the store looks at its streams, and
//! against an append that is in the log under the same set id.

use std::collections::HashSet;

use proto_events::codec::record::EncodedRecord;
use proto_events::envelope::Committed;
use proto_events::id::{Position, StreamId, Version};

use crate::api::append::{Append, AppendPart, Appended};
use crate::api::error::AppendError;
use crate::api::record::StoredRecord;
use crate::limits::RECORD_BYTES_MAX;

/// Checks an append by itself: it has parts, names each stream once, and each record has the append's stream,
/// set id, part number, fence and version, and is not larger than a record may be. Every store calls this
/// before anything else.
///
/// # Errors
/// [`AppendError::Invalid`] if records and append do not agree, [`AppendError::TooLarge`] if a record exceeds
/// the limit.
pub fn check_append(append: &Append) -> Result<(), AppendError> {
    let parts = u16::try_from(append.parts.len()).map_err(|_| invalid("it has more than 65,535 parts"))?;
    if parts == 0 {
        return Err(invalid("it has no parts"));
    }
    for (number, part) in (0..parts).zip(&append.parts) {
        check_part(append, part, (number, parts))?;
    }
    let streams: HashSet<&StreamId> = append.parts.iter().map(|part| &part.stream).collect();
    if streams.len() < append.parts.len() {
        return Err(invalid("it names a stream twice"));
    }
    Ok(())
}

fn check_part(append: &Append, part: &AppendPart, number: (u16, u16)) -> Result<(), AppendError> {
    let record = &part.record;
    let bytes = record.bytes().len();
    if bytes > RECORD_BYTES_MAX {
        return Err(AppendError::TooLarge { limit: RECORD_BYTES_MAX, bytes });
    }
    let fence = (append.fence.partition, append.fence.epoch);
    let follows = part.expected.version().0.checked_add(1).map(Version);
    let wrong = if record.stream() != &part.stream {
        "stream"
    } else if record.set_id() != append.set_id {
        "set id"
    } else if record.part() != number {
        "part number"
    } else if (record.partition(), record.epoch()) != fence {
        "fence"
    } else if Some(record.first_version()) != follows {
        "first version"
    } else {
        return Ok(());
    };
    Err(invalid(format!("the record for {} does not have the append's {wrong}", part.stream)))
}

/// Whether an append in the log is this one: the same streams at the same versions. Times and epochs may
/// differ, since a repeated command is encoded again.
fn repeats(append: &Append, parts: &[WrittenPart]) -> bool {
    append.parts.len() == parts.len()
        && append.parts.iter().zip(parts).all(|(asked, there)| {
            asked.stream.as_str() == there.stream
                && asked.record.first_version() == there.first
                && asked.record.last_version() == there.last.version
        })
}

/// Returns the first result of an append whose set id is in the log, where it has these parts.
///
/// # Errors
/// [`AppendError::Invalid`] if the set id was used for another append: other streams or other versions.
pub fn repeated_append(append: &Append, parts: &[WrittenPart]) -> Result<Appended, AppendError> {
    if repeats(append, parts) {
        return Ok(appended(parts));
    }
    Err(invalid("another append in the log has its set id"))
}

/// Returns the result of an append that has these parts in the log.
pub fn appended(parts: &[WrittenPart]) -> Appended {
    Appended { parts: parts.iter().map(|part| part.last).collect() }
}

/// Returns the refusal of an append that contradicts itself.
pub(crate) fn invalid(what: impl Into<String>) -> AppendError {
    AppendError::Invalid { what: what.into() }
}

/// Returns the refusal of a record whose `previous` is not the leaf hash of the stream's last record, although
/// the version is the expected one.
pub fn other_history(stream: &StreamId) -> AppendError {
    invalid(format!("the record for {stream} does not name the hash of the stream's last record"))
}

/// A part of an append that is in the log or about to be, as a store keeps it to answer a repeated append.
#[derive(Debug, Clone)]
pub struct WrittenPart {
    pub(crate) number: u16,
    pub(crate) of: u16,
    pub(crate) stream: String,
    pub(crate) first: Version,
    pub(crate) last: Committed,
}

impl WrittenPart {
    /// Describes a record about to be written, whose last event gets this position.
    pub fn new(record: &EncodedRecord, last: Position) -> Self {
        let (number, of) = record.part();
        Self {
            number,
            of,
            stream: record.stream().as_str().to_owned(),
            first: record.first_version(),
            last: Committed { version: record.last_version(), position: last },
        }
    }

    /// Describes a record of the log.
    pub fn from_record(stored: &StoredRecord) -> Self {
        let record = &stored.record;
        Self {
            number: record.part,
            of: record.parts,
            stream: record.stream.as_str().to_owned(),
            first: record.first_version,
            last: Committed { version: record.last_version(), position: stored.last_position() },
        }
    }
}
