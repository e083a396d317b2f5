//! Bodies stored outside their records, in the tree `chunks`: values under ordinals of their own, spaced
//! like the log's. A chunk names the position of its event and its number. Both only grow, so that a body is
//! found by binary search, and chunks left by a crash after the log's end are recognized by their position.
//!
//! | bytes | field, integers big-endian |
//! |---|---|
//! | 4 | CRC32C of all that follows |
//! | 8 | position of the event |
//! | 2 | number of the chunk within the body, from 0 |
//! | n | the chunk |

use proto_events::codec::record::Record;
use proto_events::id::Position;
use proto_events::limits::CHUNK_BYTES;

use crate::api::error::ReadError;
use crate::engine::values::Values;

const CRC_BYTES: usize = 4;

/// A chunk whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    /// The position of the event that the body belongs to.
    pub(crate) position: Position,
    number: u16,
    bytes: &'a [u8],
}

/// Builds the value of one chunk.
pub(crate) fn chunk_value(position: Position, number: u16, chunk: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(CRC_BYTES + 8 + 2 + chunk.len());
    value.resize(CRC_BYTES, 0);
    value.extend_from_slice(&position.0.to_be_bytes());
    value.extend_from_slice(&number.to_be_bytes());
    value.extend_from_slice(chunk);
    let crc = crc32c::crc32c(value.get(CRC_BYTES..).unwrap_or_default());
    if let Some(checksum) = value.first_chunk_mut::<CRC_BYTES>() {
        *checksum = crc.to_be_bytes();
    }
    value
}

impl<'a> Chunk<'a> {
    /// Returns the position of the chunk's event, and the chunk's number within the body.
    pub(crate) fn position(&self) -> (Position, u16) {
        (self.position, self.number)
    }

    /// Checks the checksum and reads the chunk; returns what is wrong otherwise.
    pub(crate) fn open(value: &'a [u8]) -> Result<Self, String> {
        let short = || "it is shorter than the header of a chunk".to_owned();
        let (crc, rest) = value.split_first_chunk::<CRC_BYTES>().ok_or_else(short)?;
        let (stored, found) = (u32::from_be_bytes(*crc), crc32c::crc32c(rest));
        if stored != found {
            return Err(format!("its checksum is {found:08x}, but {stored:08x} was stored with it"));
        }
        let (position, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        let (number, bytes) = rest.split_first_chunk::<2>().ok_or_else(short)?;
        let position = Position(u64::from_be_bytes(*position));
        Ok(Self { position, number: u16::from_be_bytes(*number), bytes })
    }
}

/// Adds the bodies kept in chunks to a record whose first event has the position `first`.
pub(crate) fn fill<V: Values>(values: &V, record: &mut Record, first: Position) -> Result<(), ReadError> {
    let missing: Vec<_> = record.missing_bodies().collect();
    for (event, length) in missing {
        let position = Position(first.0.saturating_add(event as u64));
        let body = body(values, position, length)?;
        let wrong = |error: proto_events::codec::record::RecordError| {
            ReadError::corrupt(error.to_string(), Some(position))
        };
        record.put_body(event, body).map_err(wrong)?;
    }
    Ok(())
}

fn body<V: Values>(values: &V, position: Position, length: u32) -> Result<Vec<u8>, ReadError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let first = first_of(values, position)?;
    let mut body = Vec::new();
    for number in 0..length.div_ceil(CHUNK_BYTES) as u64 {
        let ordinal = first.saturating_add(number);
        let gone = || ReadError::corrupt(format!("chunk {ordinal} of a body is missing"), Some(position));
        let value = values.get_chunk(ordinal)?.ok_or_else(gone)?;
        let chunk = open(value.as_ref(), ordinal)?;
        if (chunk.position, u64::from(chunk.number)) != (position, number) {
            let what = format!(
                "chunk {ordinal} is number {} of the event at position {}, not number {number}",
                chunk.number, chunk.position
            );
            return Err(ReadError::corrupt(what, Some(position)));
        }
        body.extend_from_slice(chunk.bytes);
    }
    Ok(body)
}

/// Returns the ordinal of the first chunk at or after a position.
fn first_of<V: Values>(values: &V, position: Position) -> Result<u64, ReadError> {
    let is_at_or_after = |ordinal: u64| -> Result<bool, ReadError> {
        let Some(value) = values.get_chunk(ordinal)? else { return Ok(true) };
        Ok(open(value.as_ref(), ordinal)?.position >= position)
    };
    let (mut low, mut high) = (0_u64, 1_u64);
    while !is_at_or_after(high)? {
        low = high;
        high = high.saturating_mul(2);
    }
    while low < high {
        let middle = u64::midpoint(low, high);
        if is_at_or_after(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

fn open(value: &[u8], ordinal: u64) -> Result<Chunk<'_>, ReadError> {
    Chunk::open(value).map_err(|what| ReadError::corrupt(format!("chunk {ordinal}: {what}"), None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conformance::sketch::draft;

    /// A list of chunks.
    struct Listed(Vec<Vec<u8>>);

    impl Values for Listed {
        type Bytes = Vec<u8>;

        fn get(&self, _: u64) -> Result<Option<Vec<u8>>, ReadError> {
            Ok(None)
        }

        fn get_chunk(&self, ordinal: u64) -> Result<Option<Vec<u8>>, ReadError> {
            Ok(self.0.get(usize::try_from(ordinal).unwrap()).cloned())
        }
    }

    /// Builds records of one large event each at every third position, and all of their chunks.
    fn listed(lengths: &[usize]) -> (Vec<(Position, Record, Vec<u8>)>, Listed) {
        let (mut records, mut chunks) = (Vec::new(), Vec::new());
        for (place, length) in (1_u64..).zip(lengths) {
            let position = Position(place * 3);
            let body = vec![u8::try_from(place).unwrap(); *length];
            let record = draft("task-a/b", 1, &body).encode_within(1_000).unwrap();
            let detached = &record.detached()[0];
            for (number, chunk) in (0..).zip(detached.chunks()) {
                chunks.push(chunk_value(position, number, chunk));
            }
            records.push((position, Record::decode(record.bytes()).unwrap(), body));
        }
        (records, Listed(chunks))
    }

    const LENGTHS: [usize; 6] = [1_000, CHUNK_BYTES, CHUNK_BYTES + 1, 5_000, CHUNK_BYTES * 9 + 7, 2_000];

    #[test]
    fn every_body_is_found_among_all_the_chunks() {
        let (records, chunks) = listed(&LENGTHS);
        for (position, record, body) in records {
            let mut whole = record.clone();
            fill(&chunks, &mut whole, position).unwrap();
            assert_eq!(whole.events[0].body(), Some(&body[..]));
            whole.check_bodies().unwrap();
            fill(&chunks, &mut record.clone(), Position(position.0 + 1)).unwrap_err();
        }
    }

    #[test]
    fn a_missing_changed_or_exchanged_chunk_is_reported() {
        let (records, mut chunks) = listed(&LENGTHS);
        let (position, record, _) = &records[4];
        let refused = |chunks: &Listed| {
            let mut record = record.clone();
            match fill(chunks, &mut record, *position) {
                Ok(()) => record.check_bodies().is_err(),
                Err(_) => true,
            }
        };
        let last = chunks.0.len() - 2;
        let kept = chunks.0[last].clone();
        for bit in (0..kept.len() * 8).step_by(97) {
            chunks.0[last][bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&chunks), "bit {bit}");
            chunks.0[last].clone_from(&kept);
        }
        chunks.0.swap(last, last - 1);
        assert!(refused(&chunks));
        chunks.0.swap(last, last - 1);
        assert!(!refused(&chunks));
        chunks.0.remove(last);
        assert!(refused(&chunks));
    }
}
