//! Bodies outside their record: a record that would be too large holds only their digests.

use std::sync::Arc;

use crate::codec::record::decoded_record::{Body, Record, StoredEvent};
use crate::codec::record::draft::EventBody;
use crate::codec::record::error::RecordError;
use crate::id::Digest;
use crate::limits::CHUNK_BYTES;

/// A body outside its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachedBody {
    /// The event's number within the record, from 0.
    pub event: u16,
    /// The salt that precedes the body, and each of its chunks, in its digest.
    pub salt: [u8; 16],
    /// The whole body.
    pub body: Arc<[u8]>,
}

impl DetachedBody {
    /// Returns the chunks that a store keeps, in order: [`CHUNK_BYTES`] each, the last one possibly shorter.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.body.chunks(CHUNK_BYTES)
    }
}

/// Returns the size in a record of the reference to a body of this length, without place and salt.
fn reference_bytes(body: usize) -> usize {
    2 + body.div_ceil(CHUNK_BYTES) * 32
}

/// Chooses the bodies to be stored outside so that a record of `size` bytes fits `limit`: the largest first,
/// and none whose reference is not smaller. Returns true for those; nothing if all stay inside.
pub(super) fn choose(events: &[EventBody], mut size: usize, limit: usize) -> Vec<bool> {
    if size <= limit {
        return Vec::new();
    }
    let mut outside = vec![false; events.len()];
    let mut largest: Vec<(usize, &EventBody, &mut bool)> =
        events.iter().zip(&mut outside).map(|(event, outside)| (event.body.len(), event, outside)).collect();
    largest.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
    for (length, _, goes) in largest {
        let reference = reference_bytes(length);
        if size <= limit || reference >= length {
            break;
        }
        *goes = true;
        size = size - length + reference;
    }
    outside
}

/// Writes the reference that the record holds instead of a body.
pub(super) fn write_reference(out: &mut Vec<u8>, detached: &DetachedBody) {
    // A body has at most 16 MiB, so the number of its chunks fits two bytes.
    let count = u16::try_from(detached.chunks().len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&count.to_be_bytes());
    for chunk in detached.chunks() {
        out.extend_from_slice(&Digest::of_parts(&[&detached.salt, chunk]).0);
    }
}

impl Record {
    /// Returns the events whose bodies are outside and still missing: number, length in bytes.
    pub fn missing_bodies(&self) -> impl Iterator<Item = (usize, u32)> {
        let absent = |event: &StoredEvent| matches!(event.place, Body::Chunked { bytes: None, .. });
        let numbered = self.events.iter().enumerate();
        numbered.filter(move |(_, event)| absent(event)).map(|(number, event)| (number, event.body_len))
    }

    /// Sets the missing body of an event. Only its length is checked; [`Record::check_bodies`] checks the
    /// digest.
    ///
    /// # Errors
    /// [`RecordError::BodyChanged`] if the length differs from the recorded one, or no body is expected.
    pub fn put_body(&mut self, number: usize, body: Vec<u8>) -> Result<(), RecordError> {
        let changed = RecordError::BodyChanged { event: number };
        let event = self.events.get_mut(number).ok_or_else(|| changed.clone())?;
        match &mut event.place {
            Body::Chunked { bytes, .. } if usize::try_from(event.body_len) == Ok(body.len()) => {
                *bytes = Some(body);
                Ok(())
            }
            _ => Err(changed),
        }
    }
}
