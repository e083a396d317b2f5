//! Bodies that stand outside their record: a record that would be too large keeps their digests only.

use std::sync::Arc;

use crate::id::Digest;
use crate::limits::CHUNK_BYTES;

use super::{Body, EventBody, Record, RecordError};

/// A body that stands outside its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// Its event's number within the record, from 0.
    pub event: u16,
    /// What is put before it, and before each of its chunks, when digests are taken.
    pub salt: [u8; 16],
    /// All of it.
    pub body: Arc<[u8]>,
}

impl Detached {
    /// The pieces that a store keeps, in order: [`CHUNK_BYTES`] each, the last one perhaps shorter.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.body.chunks(CHUNK_BYTES)
    }
}

/// Bytes that a body of this length takes in its record when it stands in chunks, place and salt apart.
fn reference_bytes(body: usize) -> usize {
    2 + body.div_ceil(CHUNK_BYTES) * 32
}

/// Which bodies must stand outside so that a record of `size` bytes fits `limit`: the largest first, and none that
/// would gain nothing. True for those that go.
pub(super) fn choose(events: &[EventBody], mut size: usize, limit: usize) -> Vec<bool> {
    let mut outside = vec![false; events.len()];
    if size <= limit {
        return outside;
    }
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

/// What the record holds instead of a body.
pub(super) fn write_reference(out: &mut Vec<u8>, detached: &Detached) {
    // A body has at most 16 MiB, so that the number of its chunks fits two bytes.
    let count = u16::try_from(detached.chunks().len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&count.to_be_bytes());
    for chunk in detached.chunks() {
        out.extend_from_slice(&Digest::of_parts(&[&detached.salt, chunk]).0);
    }
}

impl Record {
    /// The events whose bodies stand outside and are not here yet: number, length in bytes.
    pub fn missing_bodies(&self) -> impl Iterator<Item = (usize, u32)> {
        let absent = |event: &super::StoredEvent| matches!(event.place, Body::Chunked { bytes: None, .. });
        let numbered = self.events.iter().enumerate();
        numbered.filter(move |(_, event)| absent(event)).map(|(number, event)| (number, event.body_len))
    }

    /// Puts the body of an event in its place. Whether it is the right one is [`Record::check_bodies`]' to say.
    ///
    /// # Errors
    /// [`RecordError::BodyChanged`] if its length is not the one that the record names, or no body is expected.
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
