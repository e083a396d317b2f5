//! Decoding of records. Hostile bytes cause an error; no length is trusted before the bytes are present.

use crate::codec::record::decoded_record::{Body, Record, StoredEvent};
use crate::codec::record::draft::HeaderField;
use crate::codec::record::error::RecordError;
use crate::codec::record::format::{CHUNKED, COMMAND_DIGEST, INLINE};
use crate::codec::record::view::{Cursor, RecordView};
use crate::envelope::{CommandDigest, Metadata, Principal};
use crate::id::{Digest, StreamId};
use crate::limits::{CHUNK_BYTES, PAYLOAD_BYTES_MAX};

impl Record {
    /// Decodes a record. The bodies are verified by [`Record::check_bodies`], the header by the leaf hash.
    ///
    /// # Errors
    /// [`RecordError`], describing the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        Self::of_view(&RecordView::peek(bytes)?)
    }

    /// Decodes the rest of a record whose header was read.
    ///
    /// # Errors
    /// [`RecordError`], describing the fault in the bytes.
    pub fn of_view(view: &RecordView<'_>) -> Result<Self, RecordError> {
        let events = events(view)?;
        Ok(Self {
            stream: StreamId::parse(view.stream)?,
            first_version: view.first_version,
            set_id: view.set_id,
            part: view.part,
            parts: view.parts,
            partition: view.partition,
            epoch: view.epoch,
            metadata: metadata(view, &events),
            fields: unknown_fields(view)?,
            previous: view.previous,
            events,
        })
    }

    /// Verifies every body against its digest, and the chunks of a body outside against theirs.
    ///
    /// # Errors
    /// For the first faulty event: [`RecordError::BodyMissing`] if its body was not set,
    /// [`RecordError::BodyChanged`] if salt, body or chunks are not those that were written.
    pub fn check_bodies(&self) -> Result<(), RecordError> {
        let Some(event) =
            self.events.iter().position(|event| !event.matches_digest() || !chunks_match(event))
        else {
            return Ok(());
        };
        match self.missing_bodies().find(|(missing, _)| *missing == event) {
            Some(_) => Err(RecordError::BodyMissing { event }),
            None => Err(RecordError::BodyChanged { event }),
        }
    }
}

/// Whether the recorded chunks belong to the body.
fn chunks_match(event: &StoredEvent) -> bool {
    let Body::Chunked { salt, chunks, bytes: Some(bytes) } = &event.place else { return true };
    let cut = bytes.chunks(CHUNK_BYTES);
    cut.len() == chunks.len()
        && cut.zip(chunks).all(|(chunk, digest)| Digest::of_parts(&[salt, chunk]) == *digest)
}

/// Returns the optional header fields that this release does not know.
fn unknown_fields(view: &RecordView<'_>) -> Result<Vec<HeaderField>, RecordError> {
    let unknown = |field: &Result<(u16, &[u8]), _>| !matches!(field, Ok((COMMAND_DIGEST, _)));
    let fields = view.fields().filter(unknown);
    fields.map(|field| field.map(|(tag, bytes)| HeaderField { tag, bytes: bytes.to_vec() })).collect()
}

fn metadata(view: &RecordView<'_>, events: &[StoredEvent]) -> Metadata {
    let salt = || CommandDigest::salt(events.iter().map(StoredEvent::salt));
    Metadata {
        at: view.at,
        command_id: view.command_id.to_owned(),
        command_digest: view.command_digest.map(|digest| CommandDigest { salt: salt(), digest }),
        causation_id: view.causation_id.to_owned(),
        correlation_id: view.correlation_id.to_owned(),
        principal: Principal { name: view.principal.to_owned(), basis: view.basis },
    }
}

fn events(view: &RecordView<'_>) -> Result<Vec<StoredEvent>, RecordError> {
    let mut entries = Cursor::new(view.hashed.len() - view.entries.len(), view.entries);
    let mut beside = Cursor::new(view.hashed.len(), view.beside);
    // At most 1,024, and their entries are present.
    let mut events = Vec::with_capacity(view.event_count.into());
    for event in 0..usize::from(view.event_count) {
        let kind = entries.u16("event kind")?;
        let [schema] = entries.array("schema version")?;
        let body_len = entries.u32("body length")?;
        let digest = Digest(entries.array("body digest")?);
        let place = body(&mut beside, event, body_len)?;
        events.push(StoredEvent { kind, schema, body_len, digest, place });
    }
    match beside.remaining() {
        0 => Ok(events),
        bytes => Err(RecordError::Trailing { bytes }),
    }
}

fn body(from: &mut Cursor<'_>, event: usize, body_len: u32) -> Result<Body, RecordError> {
    let bytes = usize::try_from(body_len).unwrap_or(usize::MAX);
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(RecordError::BodyTooLarge { event, bytes });
    }
    match from.array("place")? {
        [CHUNKED] => chunked(from, bytes),
        [INLINE] => Ok(Body::Inline { salt: from.array("salt")?, bytes: from.read("body", bytes)?.to_vec() }),
        [place] => Err(RecordError::UnknownPlace { event, place }),
    }
}

/// Decodes salt and chunk digests of a body outside its record.
fn chunked(from: &mut Cursor<'_>, bytes: usize) -> Result<Body, RecordError> {
    let salt = from.array("salt")?;
    let count = chunk_count(from, bytes)?;
    let digests = (0..count).map(|_| from.array("chunk digest").map(Digest));
    Ok(Body::Chunked { salt, chunks: digests.collect::<Result<_, _>>()?, bytes: None })
}

/// Decodes the number of chunks of a body, which must agree with its length.
pub(super) fn chunk_count(from: &mut Cursor<'_>, bytes: usize) -> Result<u16, RecordError> {
    let count = from.u16("number of chunks")?;
    if count == 0 || usize::from(count) != bytes.div_ceil(CHUNK_BYTES) {
        return Err(RecordError::Value { field: "number of chunks", value: count.into() });
    }
    Ok(count)
}
