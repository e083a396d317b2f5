//! From bytes to a record. Hostile bytes give an error; no length is believed before the bytes are there.

use crate::envelope::{Metadata, Principal};
use crate::id::{Digest, StreamId};
use crate::limits::PAYLOAD_BYTES_MAX;

use super::view::Cursor;
use super::{Body, INLINE, Record, RecordError, RecordView, StoredEvent};

impl Record {
    /// Reads a record. Whether bodies are unchanged is [`Record::check_bodies`]' to say, whether the header
    /// is, the leaf hash's.
    ///
    /// # Errors
    /// [`RecordError`] saying what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let view = RecordView::peek(bytes)?;
        Ok(Self {
            stream: StreamId::parse(view.stream)?,
            first_version: view.first_version,
            set_id: view.set_id,
            part: view.part,
            parts: view.parts,
            partition: view.partition,
            epoch: view.epoch,
            metadata: metadata(&view),
            previous: view.previous,
            events: events(&view)?,
        })
    }

    /// Compares every body with its digest.
    ///
    /// # Errors
    /// [`RecordError::BodyChanged`] naming the first event whose salt or body is not what was written.
    pub fn check_bodies(&self) -> Result<(), RecordError> {
        match self.events.iter().position(|event| !event.matches_digest()) {
            Some(event) => Err(RecordError::BodyChanged { event }),
            None => Ok(()),
        }
    }
}

fn metadata(view: &RecordView<'_>) -> Metadata {
    Metadata {
        at: view.at,
        command_id: view.command_id.to_owned(),
        command_digest: view.command_digest,
        causation_id: view.causation_id.to_owned(),
        correlation_id: view.correlation_id.to_owned(),
        principal: Principal { name: view.principal.to_owned(), basis: view.basis },
    }
}

fn events(view: &RecordView<'_>) -> Result<Vec<StoredEvent>, RecordError> {
    let mut entries = Cursor::at(view.hashed.len() - view.entries.len(), view.entries);
    let mut beside = Cursor::at(view.hashed.len(), view.beside);
    // At most 1,024, and that many entries are there.
    let mut events = Vec::with_capacity(view.event_count.into());
    for event in 0..usize::from(view.event_count) {
        let kind = entries.u16("event kind")?;
        let [schema] = entries.array("schema version")?;
        let body_len = entries.u32("body length")?;
        let digest = Digest(entries.array("body digest")?);
        let place = body(&mut beside, event, body_len)?;
        events.push(StoredEvent { kind, schema, body_len, digest, place });
    }
    match beside.left() {
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
        [INLINE] => Ok(Body::Inline { salt: from.array("salt")?, bytes: from.take("body", bytes)?.to_vec() }),
        [place] => Err(RecordError::UnknownPlace { event, place }),
    }
}
