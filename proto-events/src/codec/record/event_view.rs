//! A record's events without copies, for passes over many records.

use crate::codec::record::decode::chunk_count;
use crate::codec::record::error::RecordError;
use crate::codec::record::format::{CHUNKED, INLINE};
use crate::codec::record::view::{Cursor, RecordView};
use crate::id::Digest;
use crate::limits::PAYLOAD_BYTES_MAX;

/// An event of a record, borrowed from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventView<'a> {
    /// The kind, one number for each variant of each event type.
    pub kind: u16,
    /// The schema version of that kind.
    pub schema: u8,
    /// The length of the body in bytes.
    pub body_len: u32,
    /// The SHA-256(salt ‖ body).
    pub digest: Digest,
    /// The salt that precedes the body in its digest.
    pub salt: &'a [u8; 16],
    /// The encoded event; `None` if it is in chunks outside the record.
    pub body: Option<&'a [u8]>,
}

impl EventView<'_> {
    /// Whether salt and body have the digest in the record; false if the body is outside.
    pub fn matches_digest(&self) -> bool {
        self.body.is_some_and(|body| Digest::of_parts(&[self.salt, body]) == self.digest)
    }
}

/// An iterator over a record's events in order, which ends after an error.
#[derive(Debug)]
pub struct Events<'a> {
    entries: Cursor<'a>,
    beside: Cursor<'a>,
    next: usize,
    count: usize,
}

impl<'a> RecordView<'a> {
    /// Returns the record's events in order.
    pub fn events(&self) -> Events<'a> {
        Events {
            entries: Cursor::new(self.hashed.len() - self.entries.len(), self.entries),
            beside: Cursor::new(self.hashed.len(), self.beside),
            next: 0,
            count: self.event_count.into(),
        }
    }
}

impl<'a> Events<'a> {
    fn next_event(&mut self) -> Result<EventView<'a>, RecordError> {
        let event = self.next;
        let kind = self.entries.u16("event kind")?;
        let [schema] = self.entries.array("schema version")?;
        let body_len = self.entries.u32("body length")?;
        let digest = Digest(self.entries.array("body digest")?);
        let bytes = usize::try_from(body_len).unwrap_or(usize::MAX);
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(RecordError::BodyTooLarge { event, bytes });
        }
        let [place] = self.beside.array("place")?;
        if place != INLINE && place != CHUNKED {
            return Err(RecordError::UnknownPlace { event, place });
        }
        let salt = self.beside.array_ref("salt")?;
        let body = if place == INLINE {
            Some(self.beside.read("body", bytes)?)
        } else {
            for _ in 0..chunk_count(&mut self.beside, bytes)? {
                self.beside.read("chunk digest", 32)?;
            }
            None
        };
        match self.beside.remaining() {
            left if left > 0 && event + 1 == self.count => Err(RecordError::Trailing { bytes: left }),
            _ => Ok(EventView { kind, schema, body_len, digest, salt, body }),
        }
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<EventView<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.count {
            return None;
        }
        let event = self.next_event();
        self.next = if event.is_ok() { self.next + 1 } else { self.count };
        Some(event)
    }
}
