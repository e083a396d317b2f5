//! Folding a stream into its state: the only fold, shared by recovery, queries at a version and audit, so
//! that they cannot disagree about the log.

use std::ops::ControlFlow;
use std::sync::Arc;

use proto_events::codec::{AnyEvent, CodecError, Storable};
use proto_events::decider::Decider;
use proto_events::envelope::{
    CommandDigest, Committed, Metadata, Principal, RecordedEvent, Timestamp, is_made_command,
};
use proto_events::id::{Digest, Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::api::record::StoredRecord;
use crate::api::scan::ScannedRecord;
use crate::limits::COMMANDS_REMEMBERED;

/// The result of a command that appended, remembered so that a repetition returns it again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandAnswer {
    /// The command's id.
    pub command_id: String,
    /// The digest of the command's content, if a caller chose the command's id.
    pub digest: Option<CommandDigest>,
    /// The version and position that the command reached.
    pub committed: Committed,
}

/// A folded stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoldedStream<D> {
    /// The state.
    pub state: D,
    /// The version of the last event folded.
    pub version: Version,
    /// The position of the last event folded.
    pub position: Position,
    /// The time at which the last event folded was accepted.
    pub last_at: Timestamp,
    /// The leaf hash of the last record read; the next record names it.
    pub last_hash: Digest,
    /// The newest commands that appended, oldest first.
    pub answered: Vec<CommandAnswer>,
    /// The newest correlation id that is not empty.
    pub correlation_id: String,
    /// Whether commands older than the ones in `answered` are in the log only.
    pub forgotten: bool,
}

/// A record whose events were decoded, perhaps by another thread than the one that folds them, with what a fold needs of
/// its header.
pub(crate) struct DecodedRecord<E> {
    first_version: Version,
    /// The digest of the command is left out: nobody is asked for its answer here.
    metadata: Metadata,
    previous: Digest,
    position: Position,
    hash: Digest,
    events: Vec<E>,
    /// The bytes of the record, bodies included.
    pub(crate) bytes: usize,
}

impl<E: Storable> DecodedRecord<E> {
    /// Decodes a scanned record in place; `None` if an event cannot be decoded or its body is not with the record.
    pub(crate) fn from_scanned(scanned: &ScannedRecord<'_>) -> Option<Self> {
        let view = &scanned.record;
        let mut events = Vec::with_capacity(view.event_count.into());
        let mut bytes = view.hashed_len();
        for event in view.events() {
            let event = event.ok()?;
            let body = event.body?;
            bytes += body.len();
            events.push(E::decode(event.kind, event.schema, body).ok()?);
        }
        let metadata = Metadata {
            at: view.at,
            command_id: view.command_id.to_owned(),
            command_digest: None,
            causation_id: view.causation_id.to_owned(),
            correlation_id: view.correlation_id.to_owned(),
            principal: Principal { name: view.principal.to_owned(), basis: view.basis },
        };
        let (first_version, previous) = (view.first_version, view.previous);
        let (position, hash) = (scanned.position, scanned.hash);
        Some(Self { first_version, metadata, previous, position, hash, events, bytes })
    }
}

/// Decodes the events of a record, each with its version and position.
///
/// # Errors
/// [`ReadError`] naming stream and version, if an event cannot be read.
pub fn decode_record<E: Storable>(stored: &StoredRecord) -> Result<Vec<RecordedEvent<E>>, ReadError> {
    let record = &stored.record;
    let recorded = |(at, (version, event))| RecordedEvent {
        stream: record.stream.clone(),
        version,
        position: Position(stored.position.0.saturating_add(at)),
        metadata: record.metadata.clone(),
        event,
    };
    Ok((0..).zip(decode_events(stored)?).map(recorded).collect())
}

/// Decodes the events of a record, each with its version.
fn decode_events<E: Storable>(stored: &StoredRecord) -> Result<Vec<(Version, E)>, ReadError> {
    let versions = (stored.record.first_version.0..).map(Version);
    versions
        .zip(&stored.record.events)
        .map(|(version, event)| {
            let gone = || damage(stored, version, "its body is missing from the log");
            let decoded = E::decode(event.kind, event.schema, event.body().ok_or_else(gone)?);
            let wrong =
                |error: CodecError| damage(stored, version, &error.to_string()).newer_if(error.is_newer());
            Ok((version, decoded.map_err(wrong)?))
        })
        .collect()
}

/// Decodes the event of a record at this version, whatever the category of its stream.
///
/// # Errors
/// [`ReadError::Newer`] for an event of a newer release, [`ReadError::Corrupt`] for any other that is not valid.
pub(crate) fn decode_event(stored: &StoredRecord, version: Version) -> Result<AnyEvent, ReadError> {
    let record = &stored.record;
    let number = version.0.checked_sub(record.first_version.0).and_then(|at| usize::try_from(at).ok());
    let event = number.and_then(|number| record.events.get(number));
    let event = event.ok_or_else(|| damage(stored, version, "the record has no such event"))?;
    let body = event.body().ok_or_else(|| damage(stored, version, "its body is missing from the log"))?;
    AnyEvent::decode(record.stream.category(), event.kind, event.schema, body)
        .map_err(|error| damage(stored, version, &error.to_string()).newer_if(error.is_newer()))
}

/// Folds a stream, up to a version if one is given. Checks that versions have no gap and that every record
/// names the hash of the record before it.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read, or its chain is broken.
pub fn fold_stream<D>(
    reader: &dyn EventReader,
    stream: &StreamId,
    up_to: Option<Version>,
) -> Result<FoldedStream<D>, ReadError>
where
    D: Decider + Default,
    D::Event: Storable,
{
    let mut folded = FoldedStream::<D>::default();
    let end = up_to.unwrap_or(Version(u64::MAX));
    for_each_page_of(reader, stream, Version(1), |page| {
        for stored in &page {
            if folded.version >= end {
                break;
            }
            folded.take_record(stored, end)?;
        }
        Ok::<_, ReadError>(if folded.version < end {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    })?;
    Ok(folded)
}

impl<D> FoldedStream<D> {
    /// Remembers a command that appended, as the newest, with the digest of its content if one was kept. A command with an
    /// id that was made for it ([`is_made_command`]) is not remembered: who asks for it looks in the log.
    pub fn remember(&mut self, metadata: &Metadata, digest: Option<CommandDigest>) {
        if !metadata.correlation_id.is_empty() {
            self.correlation_id.clone_from(&metadata.correlation_id);
        }
        if is_made_command(&metadata.command_id) {
            return;
        }
        if self.answered.len() >= COMMANDS_REMEMBERED {
            self.answered.drain(..COMMANDS_REMEMBERED / 4);
            self.forgotten = true;
        }
        self.answered.push(CommandAnswer {
            command_id: metadata.command_id.clone(),
            digest,
            committed: Committed { version: self.version, position: self.position },
        });
    }

    /// Moves the state into a shared pointer, for somebody who keeps what was folded: the list of commands keeps no spare room.
    pub fn shared(mut self) -> FoldedStream<Arc<D>> {
        self.answered.shrink_to_fit();
        FoldedStream {
            state: Arc::new(self.state),
            version: self.version,
            position: self.position,
            last_at: self.last_at,
            last_hash: self.last_hash,
            answered: self.answered,
            correlation_id: self.correlation_id,
            forgotten: self.forgotten,
        }
    }
}

impl<D> FoldedStream<D>
where
    D: Decider,
    D::Event: Storable,
{
    /// Folds one record, events up to `end` only.
    ///
    /// # Errors
    /// [`ReadError`] if the record does not follow the one before, or an event cannot be read.
    pub fn take_record(&mut self, stored: &StoredRecord, end: Version) -> Result<(), ReadError> {
        self.take_record_with(stored, end, |_, _| {})
    }

    /// Folds one record as [`FoldedStream::take_record`], and shows each event with the state before it.
    ///
    /// # Errors
    /// As for [`FoldedStream::take_record`].
    pub(crate) fn take_record_with(
        &mut self,
        stored: &StoredRecord,
        end: Version,
        mut show: impl FnMut(&D, &D::Event),
    ) -> Result<(), ReadError> {
        let link = (stored.record.first_version, stored.record.previous);
        self.check_link(link).map_err(|what| damage(stored, stored.record.first_version, &what))?;
        for (position, (version, event)) in (stored.position.0..).zip(decode_events::<D::Event>(stored)?) {
            if version > end {
                return Ok(());
            }
            show(&self.state, &event);
            self.state.evolve_read(event, &stored.record.metadata);
            (self.version, self.position) = (version, Position(position));
            self.last_at = stored.record.metadata.at;
        }
        self.last_hash = stored.hash;
        self.remember(&stored.record.metadata, stored.record.metadata.command_digest);
        Ok(())
    }

    /// Folds a decoded record, whose commands are not remembered. Returns false if it does not follow the one before.
    pub(crate) fn take_decoded(&mut self, decoded: DecodedRecord<D::Event>) -> bool {
        let DecodedRecord { first_version, metadata, previous, position, hash, events, .. } = decoded;
        if self.check_link((first_version, previous)).is_err() {
            return false;
        }
        for (at, event) in (0..).zip(events) {
            self.state.evolve_read(event, &metadata);
            self.version = Version(first_version.0.saturating_add(at));
            self.position = Position(position.0.saturating_add(at));
            self.last_at = metadata.at;
        }
        self.last_hash = hash;
        true
    }

    /// Compares the first version of a record, and the hash that it names, with the end of what was folded; returns what is
    /// wrong.
    fn check_link(&self, (first, previous): (Version, Digest)) -> Result<(), String> {
        if first.0 != self.version.0 + 1 {
            return Err(format!("version {first} follows version {}", self.version));
        }
        if previous != self.last_hash {
            return Err("the record does not name the hash of the previous record".to_owned());
        }
        Ok(())
    }
}

fn damage(stored: &StoredRecord, version: Version, what: &str) -> ReadError {
    ReadError::Corrupt {
        what: what.to_owned(),
        stream: Some(stored.record.stream.clone()),
        version: Some(version),
        position: Some(stored.position),
    }
}
