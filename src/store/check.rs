//! What every store asks of an append before it looks at its streams: that records and append agree.

use std::collections::HashSet;

use proto_events::id::{StreamId, Version};

use crate::limits::RECORD_BYTES_MAX;

use super::{Append, AppendError, AppendPart, Appended, SetPart};

/// Checks an append by itself.
pub(super) fn agrees(append: &Append) -> Result<(), AppendError> {
    let parts = u16::try_from(append.parts.len()).map_err(|_| invalid("it has over 65,535 parts"))?;
    if parts == 0 {
        return Err(invalid("it has no part"));
    }
    for (number, part) in (0..parts).zip(&append.parts) {
        part_agrees(append, part, (number, parts))?;
    }
    let streams: HashSet<&StreamId> = append.parts.iter().map(|part| &part.stream).collect();
    if streams.len() < append.parts.len() {
        return Err(invalid("it names a stream twice"));
    }
    Ok(())
}

fn part_agrees(append: &Append, part: &AppendPart, number: (u16, u16)) -> Result<(), AppendError> {
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
    Err(invalid(format!("the record for {} has another {wrong}", part.stream)))
}

/// Whether an append that is in the log is this one: the same streams at the same versions. Times and epochs may
/// differ, since a repeated command is encoded anew.
pub(super) fn repeats(append: &Append, parts: &[SetPart]) -> bool {
    append.parts.len() == parts.len()
        && append.parts.iter().zip(parts).all(|(asked, there)| {
            asked.stream.as_str() == there.stream
                && asked.record.first_version() == there.first
                && asked.record.last_version() == there.last.version
        })
}

/// The first answer again, or the refusal of an id that was used for something else.
pub(super) fn repeated(append: &Append, parts: &[SetPart]) -> Result<Appended, AppendError> {
    if repeats(append, parts) {
        return Ok(appended(parts));
    }
    Err(invalid("its set id is that of another append in the log"))
}

/// The answer that an append in the log has had.
pub(super) fn appended(parts: &[SetPart]) -> Appended {
    Appended { parts: parts.iter().map(|part| part.last).collect() }
}

/// The refusal of an append that contradicts itself.
pub(super) fn invalid(what: impl Into<String>) -> AppendError {
    AppendError::Invalid { what: what.into() }
}

/// The refusal of a record that continues another history.
pub(super) fn other_history(stream: &StreamId) -> AppendError {
    invalid(format!("the record for {stream} does not name the hash of the stream's last record"))
}
