//! A look at a record's header without copying anything: what a scan over the whole log needs.

use crate::envelope::{Basis, Timestamp};
use crate::id::{Digest, Version};
use crate::limits::EVENTS_PER_APPEND_MAX;

use super::{CHUNKED, EVENT_ENTRY_BYTES, FORMAT, INLINE, LEAF, RecordError};

/// A record's header, borrowed from its bytes. Bodies are not looked at, and the stream id is only known to
/// be UTF-8: [`Record::decode`](super::Record::decode) checks the rest.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    /// The stream that it extends.
    pub stream: &'a str,
    /// Version of its first event.
    pub first_version: Version,
    /// The append that it belongs to.
    pub set_id: [u8; 16],
    /// Its number within the append, from 0.
    pub part: u16,
    /// How many records the append has.
    pub parts: u16,
    /// Partition of the log.
    pub partition: u32,
    /// Epoch of the writer.
    pub epoch: u64,
    /// When the command was accepted.
    pub at: Timestamp,
    /// The command's own id.
    pub command_id: &'a str,
    /// SHA-256 of the command's body.
    pub command_digest: Digest,
    /// What directly caused it.
    pub causation_id: &'a str,
    /// The outside request that set it off.
    pub correlation_id: &'a str,
    /// Who.
    pub principal: &'a str,
    /// How far that name may be trusted.
    pub basis: Basis,
    /// Leaf hash of the stream's previous record.
    pub previous: Digest,
    /// How many events it holds: at least 1.
    pub event_count: u16,
    pub(super) hashed: &'a [u8],
    pub(super) entries: &'a [u8],
    pub(super) beside: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`RecordError`] if the hashed part is not whole or holds what cannot be.
    pub fn peek(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let mut from = Cursor::at(0, bytes);
        let [format] = from.array("format version")?;
        if format != FORMAT {
            return Err(RecordError::UnknownFormat { found: format });
        }
        let mut view = Self {
            stream: from.text("stream id")?,
            first_version: Version(from.u64("first version")?),
            set_id: from.array("set id")?,
            part: from.u16("part")?,
            parts: from.u16("number of parts")?,
            partition: from.u32("partition")?,
            epoch: from.u64("epoch")?,
            at: Timestamp(i64::from_be_bytes(from.array("time")?)),
            command_id: from.text("command id")?,
            command_digest: Digest(from.array("command digest")?),
            causation_id: from.text("causation id")?,
            correlation_id: from.text("correlation id")?,
            principal: from.text("principal")?,
            basis: basis(from.array("principal's basis")?)?,
            previous: Digest(from.array("previous hash")?),
            event_count: from.u16("event count")?,
            hashed: &[],
            entries: &[],
            beside: &[],
        };
        view.check()?;
        view.entries = from.take("events", usize::from(view.event_count) * EVENT_ENTRY_BYTES)?;
        (view.hashed, view.beside) = bytes.split_at_checked(from.at).unwrap_or((bytes, &[]));
        Ok(view)
    }

    /// Its events in order, borrowed. After an error nothing follows.
    pub fn events(&self) -> Events<'a> {
        Events {
            entries: Cursor::at(self.hashed.len() - self.entries.len(), self.entries),
            beside: Cursor::at(self.hashed.len(), self.beside),
            next: 0,
            left: self.event_count,
        }
    }

    /// SHA-256(0x00 ‖ hashed part).
    pub fn leaf_hash(&self) -> Digest {
        Digest::of_parts(&[LEAF, self.hashed])
    }

    /// How many bytes the hashed part has.
    pub fn hashed_len(&self) -> usize {
        self.hashed.len()
    }

    /// Version of its last event.
    pub fn last_version(&self) -> Version {
        // `check` has seen that there is an event and that this sum fits.
        Version(self.first_version.0 + u64::from(self.event_count) - 1)
    }

    fn check(&self) -> Result<(), RecordError> {
        let count = usize::from(self.event_count);
        if count == 0 || count > EVENTS_PER_APPEND_MAX {
            return Err(RecordError::EventCount { count });
        }
        check_part(self.part, self.parts)?;
        check_versions(self.first_version, self.event_count)
    }
}

/// One event of a record, borrowed from its bytes.
#[derive(Debug, Clone, Copy)]
pub struct EventView<'a> {
    /// Kind, one number for each variant of each event type.
    pub kind: u16,
    /// Schema version of that kind.
    pub schema: u8,
    /// Length of the body in bytes, also when the body is not here.
    pub body_len: u32,
    /// SHA-256(salt ‖ body).
    pub digest: Digest,
    /// What was put before the body when its digest was taken.
    pub salt: &'a [u8; 16],
    /// The body, if it stands in the record itself.
    pub body: Option<&'a [u8]>,
}

/// Iterates over the events of a [`RecordView`].
#[derive(Debug)]
pub struct Events<'a> {
    entries: Cursor<'a>,
    beside: Cursor<'a>,
    next: usize,
    left: u16,
}

impl<'a> Events<'a> {
    fn take(&mut self) -> Result<EventView<'a>, RecordError> {
        let kind = self.entries.u16("event kind")?;
        let [schema] = self.entries.array("schema version")?;
        let body_len = self.entries.u32("body length")?;
        let digest = Digest(self.entries.array("body digest")?);
        let event = self.next;
        self.next += 1;
        let bytes = usize::try_from(body_len).unwrap_or(usize::MAX);
        let [place] = self.beside.array("place")?;
        let salt = self.beside.array_ref("salt")?;
        let body = match place {
            INLINE => Some(self.beside.take("body", bytes)?),
            CHUNKED => {
                let count = self.beside.u16("number of chunks")?;
                self.beside.take("chunk digest", usize::from(count) * 32)?;
                None
            }
            place => return Err(RecordError::UnknownPlace { event, place }),
        };
        Ok(EventView { kind, schema, body_len, digest, salt, body })
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<EventView<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let event = self.take();
        if event.is_err() {
            self.left = 0;
        }
        Some(event)
    }
}

fn basis(byte: [u8; 1]) -> Result<Basis, RecordError> {
    match byte {
        [0] => Ok(Basis::Asserted),
        [1] => Ok(Basis::Authenticated),
        [other] => Err(RecordError::Value { field: "principal's basis", value: other.into() }),
    }
}

/// A part is one of its set's.
pub(super) fn check_part(part: u16, parts: u16) -> Result<(), RecordError> {
    if part < parts {
        return Ok(());
    }
    Err(RecordError::Value { field: "part number", value: part.into() })
}

/// The first event has version 1, and counting on does not run over.
pub(super) fn check_versions(first: Version, event_count: u16) -> Result<(), RecordError> {
    if first.0 > 0 && first.0.checked_add(event_count.into()).is_some() {
        return Ok(());
    }
    Err(RecordError::Value { field: "first version", value: first.0 })
}

/// Takes fields off the front of bytes; never more than there are.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    /// Bytes that begin `at` bytes into the record, which errors then name.
    pub(super) fn at(at: usize, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at }
    }

    pub(super) fn take(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or(RecordError::Cut { field, at: self.at })?;
        self.rest = rest;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let at = self.at;
        let taken = self.take(field, N)?;
        taken.try_into().map_err(|_| RecordError::Cut { field, at })
    }

    fn array_ref<const N: usize>(&mut self, field: &'static str) -> Result<&'a [u8; N], RecordError> {
        let at = self.at;
        let taken = self.take(field, N)?;
        taken.try_into().map_err(|_| RecordError::Cut { field, at })
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, RecordError> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, RecordError> {
        self.array(field).map(u32::from_be_bytes)
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, RecordError> {
        self.array(field).map(u64::from_be_bytes)
    }

    fn text(&mut self, field: &'static str) -> Result<&'a str, RecordError> {
        let length = self.u16(field)?;
        let bytes = self.take(field, length.into())?;
        std::str::from_utf8(bytes).map_err(|_| RecordError::NotUtf8 { field })
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}
