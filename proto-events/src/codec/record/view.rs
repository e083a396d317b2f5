//! A record's header without copies, for scans over the whole log.

use crate::codec::code::CodedEnum;
use crate::codec::record::error::RecordError;
use crate::codec::record::format::{COMMAND_DIGEST, EVENT_ENTRY_BYTES, FORMAT, LEAF, REQUIRED_FIELDS};
use crate::envelope::{Basis, Timestamp};
use crate::id::{Digest, Version};
use crate::limits::EVENTS_PER_APPEND_MAX;

/// The number of bytes of other fields after each part of the header that has its length before it: stream
/// id, command id, causation id, correlation id, principal, optional fields.
const BEHIND_LENGTHS: [usize; 6] = [8 + 16 + 2 + 2 + 4 + 8 + 8, 0, 0, 0, 1, 32];

/// A record's header, borrowed from its bytes. Bodies are not read, and the stream id is only checked for
/// UTF-8: [`Record::decode`](super::Record::decode) checks the rest.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    /// The stream that the record extends.
    pub stream: &'a str,
    /// The version of the first event.
    pub first_version: Version,
    /// The id of the append.
    pub set_id: [u8; 16],
    /// The record's number within the append, from 0.
    pub part: u16,
    /// The number of records in the append.
    pub parts: u16,
    /// The partition of the log.
    pub partition: u32,
    /// The epoch of the writer.
    pub epoch: u64,
    /// The time at which the command was accepted.
    pub at: Timestamp,
    /// The command's own id.
    pub command_id: &'a str,
    /// The salted digest of the command's content, if a caller chose the command's id.
    pub command_digest: Option<Digest>,
    /// The id of the direct cause.
    pub causation_id: &'a str,
    /// The correlation id, equal for everything that one outside request caused.
    pub correlation_id: &'a str,
    /// The name of the principal.
    pub principal: &'a str,
    /// The degree of trust in that name.
    pub basis: Basis,
    /// The leaf hash of the stream's previous record.
    pub previous: Digest,
    /// The number of events, at least 1.
    pub event_count: u16,
    /// The optional header fields, as bytes; [`RecordView::fields`] reads them.
    pub(super) fields: &'a [u8],
    pub(super) hashed: &'a [u8],
    pub(super) entries: &'a [u8],
    pub(super) beside: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`RecordError`] if the hashed part is incomplete or holds an impossible value.
    pub fn peek(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let mut from = Cursor::new(0, bytes);
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
            command_digest: None,
            causation_id: from.text("causation id")?,
            correlation_id: from.text("correlation id")?,
            principal: from.text("principal")?,
            basis: basis(from.array("principal's basis")?)?,
            fields: from.bytes("optional fields")?,
            previous: Digest(from.array("previous hash")?),
            event_count: from.u16("event count")?,
            hashed: &[],
            entries: &[],
            beside: &[],
        };
        view.check()?;
        view.entries = from.read("events", usize::from(view.event_count) * EVENT_ENTRY_BYTES)?;
        (view.hashed, view.beside) = bytes.split_at_checked(from.at).unwrap_or((bytes, &[]));
        view.read_fields()?;
        Ok(view)
    }

    /// Reads only the number of events, for callers that skip the record.
    ///
    /// # Errors
    /// [`RecordError`] if the bytes end before that number, or have another format.
    pub fn count_events(bytes: &[u8]) -> Result<u16, RecordError> {
        format_of(&mut Cursor::new(0, bytes))?;
        let mut at = 1;
        for fixed in BEHIND_LENGTHS {
            at += 2 + usize::from(u16_at(bytes, at)?) + fixed;
        }
        u16_at(bytes, at)
    }

    /// Returns the optional header fields in order, the command's digest included: tag and content.
    pub fn fields(&self) -> HeaderFields<'a> {
        let length = self.fields.len();
        let at = self.hashed.len().saturating_sub(self.entries.len() + 2 + 32 + length);
        HeaderFields { from: Cursor::new(at, self.fields), least: u32::from(COMMAND_DIGEST) }
    }

    /// Checks the optional header fields, and takes the command's digest from them.
    fn read_fields(&mut self) -> Result<(), RecordError> {
        let mut found = None;
        for field in self.fields() {
            let (tag, content) = field?;
            if tag == COMMAND_DIGEST {
                let length =
                    || RecordError::Value { field: "command digest's length", value: content.len() as u64 };
                found = Some(Digest(content.try_into().map_err(|_| length())?));
            } else if tag >= REQUIRED_FIELDS {
                return Err(RecordError::UnknownField { tag });
            }
        }
        self.command_digest = found;
        Ok(())
    }

    /// Returns the leaf hash, SHA-256(0x00 ‖ hashed part).
    pub fn leaf_hash(&self) -> Digest {
        Digest::of_parts(&[LEAF, self.hashed])
    }

    /// Returns the number of bytes of the hashed part.
    pub fn hashed_len(&self) -> usize {
        self.hashed.len()
    }

    /// Returns the version of the last event.
    pub fn last_version(&self) -> Version {
        // `check` has verified that there is an event and that this sum fits.
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

/// An iterator over the optional header fields, by ascending tag, which ends after an error.
#[derive(Debug)]
pub struct HeaderFields<'a> {
    from: Cursor<'a>,
    /// The lowest tag that may come next.
    least: u32,
}

impl<'a> HeaderFields<'a> {
    fn next_field(&mut self) -> Result<(u16, &'a [u8]), RecordError> {
        let tag = self.from.u16("optional field's tag")?;
        if u32::from(tag) < self.least {
            return Err(RecordError::Value { field: "optional field's tag", value: tag.into() });
        }
        self.least = u32::from(tag) + 1;
        Ok((tag, self.from.bytes("optional field")?))
    }
}

impl<'a> Iterator for HeaderFields<'a> {
    type Item = Result<(u16, &'a [u8]), RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.from.remaining() == 0 {
            return None;
        }
        let field = self.next_field();
        if field.is_err() {
            self.from.rest = &[];
        }
        Some(field)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, RecordError> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk::<2>);
    found.map(|found| u16::from_be_bytes(*found)).ok_or(RecordError::Cut { field: "header", at })
}

fn format_of(from: &mut Cursor<'_>) -> Result<(), RecordError> {
    match from.array("format version")? {
        [FORMAT] => Ok(()),
        [found] => Err(RecordError::UnknownFormat { found }),
    }
}

fn basis([code]: [u8; 1]) -> Result<Basis, RecordError> {
    Basis::of_code(code).map_err(|_| RecordError::Value { field: "principal's basis", value: code.into() })
}

/// Checks that the part's number is below the number of parts.
pub(super) fn check_part(part: u16, parts: u16) -> Result<(), RecordError> {
    if part < parts {
        return Ok(());
    }
    Err(RecordError::Value { field: "part number", value: part.into() })
}

/// Checks that the first version is at least 1, and that the last version does not overflow.
pub(super) fn check_versions(first: Version, event_count: u16) -> Result<(), RecordError> {
    if first.0 > 0 && first.0.checked_add(event_count.into()).is_some() {
        return Ok(());
    }
    Err(RecordError::Value { field: "first version", value: first.0 })
}

/// A cursor that takes fields from the front of the bytes, never more than are present.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts with bytes at offset `at` of the record, which errors then report.
    pub(super) fn new(at: usize, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at }
    }

    pub(super) fn read(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or(RecordError::Cut { field, at: self.at })?;
        self.rest = rest;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let at = self.at;
        let taken = self.read(field, N)?;
        taken.try_into().map_err(|_| RecordError::Cut { field, at })
    }

    pub(super) fn array_ref<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<&'a [u8; N], RecordError> {
        let at = self.at;
        let taken = self.read(field, N)?;
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

    /// Takes bytes that have their length before them.
    fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], RecordError> {
        let length = self.u16(field)?;
        self.read(field, length.into())
    }

    fn text(&mut self, field: &'static str) -> Result<&'a str, RecordError> {
        let bytes = self.bytes(field)?;
        std::str::from_utf8(bytes).map_err(|_| RecordError::NotUtf8 { field })
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }
}
