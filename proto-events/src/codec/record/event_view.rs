//! A record's events without copying them: what a pass over many records needs.

use crate::id::Digest;
use crate::limits::PAYLOAD_BYTES_MAX;

use super::decode::chunk_count;
use super::view::Cursor;
use super::{CHUNKED, INLINE, RecordError, RecordView};

/// One event of a record, borrowed from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventView<'a> {
    /// Kind, one number for each variant of each event type.
    pub kind: u16,
    /// Schema version of that kind.
    pub schema: u8,
    /// Length of the body in bytes.
    pub body_len: u32,
    /// SHA-256(salt ‖ body).
    pub digest: Digest,
    /// What was put before the body when its digest was taken.
    pub salt: &'a [u8; 16],
    /// The event's own bytes; `None` if they stand in chunks outside the record.
    pub body: Option<&'a [u8]>,
}

impl EventView<'_> {
    /// Whether salt and body are those whose digest the record holds; not, if the body is not here.
    pub fn matches_digest(&self) -> bool {
        self.body.is_some_and(|body| Digest::of_parts(&[self.salt, body]) == self.digest)
    }
}

/// A record's events in order. After an error nothing follows.
#[derive(Debug)]
pub struct Events<'a> {
    entries: Cursor<'a>,
    beside: Cursor<'a>,
    next: usize,
    count: usize,
}

impl<'a> RecordView<'a> {
    /// The record's events in order.
    pub fn events(&self) -> Events<'a> {
        Events {
            entries: Cursor::at(self.hashed.len() - self.entries.len(), self.entries),
            beside: Cursor::at(self.hashed.len(), self.beside),
            next: 0,
            count: self.event_count.into(),
        }
    }
}

impl<'a> Events<'a> {
    fn take(&mut self) -> Result<EventView<'a>, RecordError> {
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
            Some(self.beside.take("body", bytes)?)
        } else {
            for _ in 0..chunk_count(&mut self.beside, bytes)? {
                self.beside.take("chunk digest", 32)?;
            }
            None
        };
        match self.beside.left() {
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
        let event = self.take();
        self.next = if event.is_ok() { self.next + 1 } else { self.count };
        Some(event)
    }
}
