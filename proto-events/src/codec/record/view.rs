//! A look at a record's header without copying anything: what a scan over the whole log needs.

use crate::envelope::{Basis, Timestamp};
use crate::id::{Digest, Version};
use crate::limits::EVENTS_PER_APPEND_MAX;

use super::{EVENT_ENTRY_BYTES, FORMAT, LEAF, RecordError};

/// Bytes of the fields from first version to time.
const BETWEEN_STREAM_AND_COMMAND: usize = 8 + 16 + 2 + 2 + 4 + 8 + 8;

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
        format_of(&mut from)?;
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

    /// How many events the record has, and nothing else of it: for whoever only has to get past it.
    ///
    /// # Errors
    /// [`RecordError`] if the bytes end before that number, or are of another format.
    pub fn count_events(bytes: &[u8]) -> Result<u16, RecordError> {
        let mut from = Cursor::at(0, bytes);
        format_of(&mut from)?;
        from.skip_text("stream id")?;
        from.take("place and time", BETWEEN_STREAM_AND_COMMAND)?;
        from.skip_text("command id")?;
        from.take("command digest", 32)?;
        from.skip_text("causation id")?;
        from.skip_text("correlation id")?;
        from.skip_text("principal")?;
        from.take("basis and previous hash", 1 + 32)?;
        from.u16("event count")
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

fn format_of(from: &mut Cursor<'_>) -> Result<(), RecordError> {
    match from.array("format version")? {
        [FORMAT] => Ok(()),
        [found] => Err(RecordError::UnknownFormat { found }),
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

    pub(super) fn array_ref<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<&'a [u8; N], RecordError> {
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

    fn skip_text(&mut self, field: &'static str) -> Result<(), RecordError> {
        let length = self.u16(field)?;
        self.take(field, length.into()).map(|_| ())
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}
