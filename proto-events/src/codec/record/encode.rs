//! Encoding of drafts, and the facts that a store takes from the bytes of other sources.

use std::borrow::Borrow;
use std::sync::Arc;

use crate::codec::code::CodedEnum;
use crate::codec::record::chunk::{DetachedBody, choose, write_reference};
use crate::codec::record::decoded_record::{Body, Record};
use crate::codec::record::draft::{EventBody, HeaderField, RecordDraft};
use crate::codec::record::encoded_record::{EncodedRecord, Facts};
use crate::codec::record::error::RecordError;
use crate::codec::record::format::{
    CHUNKED, COMMAND_DIGEST, EVENT_ENTRY_BYTES, FORMAT, INLINE, LEAF, REQUIRED_FIELDS,
};
use crate::codec::record::view::{RecordView, check_part, check_versions};
use crate::codec::scratch;
use crate::envelope::{CommandDigest, Metadata};
use crate::id::{Digest, StreamId};
use crate::limits::{EVENTS_PER_APPEND_MAX, PAYLOAD_BYTES_MAX};

/// The bytes of an optional field's tag and length.
const FIELD_HEADER_BYTES: usize = 2 + 2;

/// The bytes of the hashed part that every record has: all but texts, optional fields and events.
const FIXED_BYTES: usize = 1 + 8 + 16 + 4 + 4 + 8 + 8 + 1 + 32 + 2 + 6 * 2;

impl<M: Borrow<Metadata>> RecordDraft<M> {
    /// Encodes the record, with every body in the record itself.
    ///
    /// # Errors
    /// [`RecordError`] if a number, a text or a body exceeds what a record can hold. Every encoded record can
    /// be decoded.
    pub fn encode(&self) -> Result<EncodedRecord, RecordError> {
        self.encode_within(usize::MAX)
    }

    /// Encodes the record with the largest bodies outside, until the record has at most `limit` bytes. A
    /// record whose bodies are too small to gain from that stays larger. The leaf hash is the same in any
    /// case.
    ///
    /// # Errors
    /// As for [`RecordDraft::encode`].
    pub fn encode_within(&self, limit: usize) -> Result<EncodedRecord, RecordError> {
        let event_count = self.check()?;
        scratch::with(|out| self.encode_into(out, event_count, limit))
    }

    fn encode_into(
        &self,
        out: &mut Vec<u8>,
        event_count: u16,
        limit: usize,
    ) -> Result<EncodedRecord, RecordError> {
        let size = self.size();
        out.reserve(size.min(limit));
        self.write_header(out, event_count)?;
        for event in &self.events {
            write_entry(out, event);
        }
        let hash = Digest::of_parts(&[LEAF, out]);
        let mut detached = Vec::new();
        let outside = choose(&self.events, size, limit);
        let outside = outside.into_iter().chain(std::iter::repeat(false));
        for ((number, event), outside) in (0..event_count).zip(&self.events).zip(outside) {
            out.push(if outside { CHUNKED } else { INLINE });
            out.extend_from_slice(&event.salt);
            if outside {
                let body =
                    DetachedBody { event: number, salt: event.salt, body: event.body.as_slice().into() };
                write_reference(out, &body);
                detached.push(body);
            } else {
                out.extend_from_slice(&event.body);
            }
        }
        let facts = self.facts(event_count);
        Ok(EncodedRecord { bytes: out.as_slice().into(), hash, facts, detached: shared_bodies(detached) })
    }

    /// Returns the size in bytes with every body inside, which decides whether some must be stored outside.
    pub fn size(&self) -> usize {
        let metadata = self.metadata.borrow();
        let texts = self.stream.as_str().len()
            + metadata.command_id.len()
            + metadata.causation_id.len()
            + metadata.correlation_id.len()
            + metadata.principal.name.len();
        let beside = EVENT_ENTRY_BYTES + 1 + 16;
        let events: usize = self.events.iter().map(|event| beside + event.body.len()).sum();
        FIXED_BYTES + texts + self.fields_bytes() + events
    }

    /// Returns the size of the optional header fields in bytes.
    fn fields_bytes(&self) -> usize {
        let digest =
            if self.metadata.borrow().command_digest.is_some() { FIELD_HEADER_BYTES + 32 } else { 0 };
        self.fields.iter().fold(digest, |sum, field| sum + FIELD_HEADER_BYTES + field.bytes.len())
    }

    fn check(&self) -> Result<u16, RecordError> {
        let count = self.events.len();
        let wrong = RecordError::EventCount { count };
        if count == 0 || count > EVENTS_PER_APPEND_MAX {
            return Err(wrong);
        }
        let event_count = u16::try_from(count).map_err(|_| wrong)?;
        check_part(self.part, self.parts)?;
        check_versions(self.first_version, event_count)?;
        let salt = || CommandDigest::salt(self.events.iter().map(|event| &event.salt));
        if self.metadata.borrow().command_digest.is_some_and(|command| command.salt != salt()) {
            return Err(RecordError::CommandSalt);
        }
        let large = |event: &EventBody| event.body.len() > PAYLOAD_BYTES_MAX;
        match self.events.iter().enumerate().find(|(_, event)| large(event)) {
            Some((event, EventBody { body, .. })) => {
                Err(RecordError::BodyTooLarge { event, bytes: body.len() })
            }
            None => Ok(event_count),
        }
    }

    fn facts(&self, event_count: u16) -> Facts {
        Facts {
            stream: self.stream.clone(),
            first_version: self.first_version,
            set_id: self.set_id,
            part: self.part,
            parts: self.parts,
            partition: self.partition,
            epoch: self.epoch,
            previous: self.previous,
            event_count,
        }
    }

    fn write_header(&self, out: &mut Vec<u8>, event_count: u16) -> Result<(), RecordError> {
        let metadata = self.metadata.borrow();
        out.push(FORMAT);
        write_text(out, "stream id", self.stream.as_str())?;
        out.extend_from_slice(&self.first_version.0.to_be_bytes());
        out.extend_from_slice(&self.set_id);
        out.extend_from_slice(&self.part.to_be_bytes());
        out.extend_from_slice(&self.parts.to_be_bytes());
        out.extend_from_slice(&self.partition.to_be_bytes());
        out.extend_from_slice(&self.epoch.to_be_bytes());
        out.extend_from_slice(&metadata.at.0.to_be_bytes());
        write_text(out, "command id", &metadata.command_id)?;
        write_text(out, "causation id", &metadata.causation_id)?;
        write_text(out, "correlation id", &metadata.correlation_id)?;
        write_text(out, "principal", &metadata.principal.name)?;
        out.push(metadata.principal.basis.code());
        self.write_fields(out)?;
        out.extend_from_slice(&self.previous.0);
        out.extend_from_slice(&event_count.to_be_bytes());
        Ok(())
    }

    fn write_fields(&self, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let too_long = |bytes| RecordError::TextTooLong { field: "optional fields", bytes };
        let bytes = self.fields_bytes();
        out.extend_from_slice(&u16::try_from(bytes).map_err(|_| too_long(bytes))?.to_be_bytes());
        if let Some(command) = &self.metadata.borrow().command_digest {
            write_field(out, COMMAND_DIGEST, &command.digest.0)?;
        }
        let mut least = COMMAND_DIGEST + 1;
        for HeaderField { tag, bytes } in &self.fields {
            if !(least..REQUIRED_FIELDS).contains(tag) {
                return Err(RecordError::Value { field: "optional field's tag", value: (*tag).into() });
            }
            write_field(out, *tag, bytes)?;
            least = tag + 1;
        }
        Ok(())
    }
}

fn write_text(out: &mut Vec<u8>, field: &'static str, text: &str) -> Result<(), RecordError> {
    let bytes = text.len();
    let length = u16::try_from(bytes).map_err(|_| RecordError::TextTooLong { field, bytes })?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_field(out: &mut Vec<u8>, tag: u16, content: &[u8]) -> Result<(), RecordError> {
    let bytes = content.len();
    let length = u16::try_from(bytes);
    let length = length.map_err(|_| RecordError::TextTooLong { field: "optional field", bytes })?;
    out.extend_from_slice(&tag.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(content);
    Ok(())
}

fn write_entry(out: &mut Vec<u8>, event: &EventBody) {
    // `check` has verified that the body has at most 16 MiB, so its length fits four bytes.
    let [a, b, c, d] = u32::try_from(event.body.len()).unwrap_or(u32::MAX).to_be_bytes();
    let [high, low] = event.kind.to_be_bytes();
    out.extend_from_slice(&[high, low, event.schema, a, b, c, d]);
    out.extend_from_slice(&Digest::of_parts(&[&event.salt, &event.body]).0);
}

/// Returns bodies as a record keeps them: none take no memory.
fn shared_bodies(detached: Vec<DetachedBody>) -> Option<Arc<[DetachedBody]>> {
    (!detached.is_empty()).then(|| detached.into())
}

impl EncodedRecord {
    /// Takes a record's bytes from elsewhere (an export, another store), after checking all of them,
    /// including the bodies.
    ///
    /// # Errors
    /// [`RecordError`], describing the fault in the bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        Self::with_bodies(bytes, Vec::new())
    }

    /// Takes the bytes of a record with bodies outside, each with its event's number.
    ///
    /// # Errors
    /// [`RecordError`], describing the fault in the bytes, or naming the missing, surplus or changed body.
    pub fn with_bodies(bytes: &[u8], bodies: Vec<(usize, Vec<u8>)>) -> Result<Self, RecordError> {
        let mut record = Record::decode(bytes)?;
        for (event, body) in bodies {
            record.put_body(event, body)?;
        }
        record.check_bodies()?;
        let view = RecordView::peek(bytes)?;
        let detached =
            (0..view.event_count).zip(record.events).filter_map(|(event, stored)| match stored.place {
                Body::Chunked { salt, bytes, .. } => {
                    Some(DetachedBody { event, salt, body: bytes.unwrap_or_default().into() })
                }
                Body::Inline { .. } => None,
            });
        Ok(Self {
            hash: view.leaf_hash(),
            facts: Facts {
                stream: StreamId::parse(view.stream)?,
                first_version: view.first_version,
                set_id: view.set_id,
                part: view.part,
                parts: view.parts,
                partition: view.partition,
                epoch: view.epoch,
                previous: view.previous,
                event_count: view.event_count,
            },
            bytes: bytes.into(),
            detached: shared_bodies(detached.collect()),
        })
    }
}
