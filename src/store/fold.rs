//! A stream read back into its state: the one fold that recovery, queries at a version and audit share, so
//! that none of them can disagree with another about what a log says.

use std::sync::Arc;

use proto_events::codec::Storable;
use proto_events::decider::Decider;
use proto_events::envelope::{Committed, Metadata, Recorded};
use proto_events::id::{Digest, Position, StreamId, Version};

use crate::limits::COMMANDS_REMEMBERED;
use crate::store::{EventReader, ReadError, StoredRecord};

/// Records read at a time, so that a long stream is never whole in memory.
pub(crate) const PAGE_RECORDS: usize = 256;

/// What a command appended, remembered so that its repetition gets the first answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The command's id.
    pub command_id: String,
    /// SHA-256 of its body.
    pub digest: Digest,
    /// The answer.
    pub committed: Committed,
}

/// A stream as folded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Folded<D> {
    /// The state.
    pub state: D,
    /// The version of the last event folded.
    pub version: Version,
    /// The position of the last event folded.
    pub position: Position,
    /// The leaf hash of the last record read: the next one names it.
    pub last_hash: Digest,
    /// The newest commands that appended, oldest first.
    pub answered: Vec<Answered>,
    /// What the last record that says so belongs to.
    pub correlation_id: String,
    /// Commands older than those of `answered` are in the log only.
    pub forgotten: bool,
}

/// Decodes the events of a record, each with its place.
///
/// # Errors
/// [`ReadError`] naming stream and version, if an event cannot be read.
pub fn decode_record<E: Storable>(stored: &StoredRecord) -> Result<Vec<Recorded<E>>, ReadError> {
    let record = &stored.record;
    let recorded = |(at, (version, event))| Recorded {
        stream: record.stream.clone(),
        version,
        position: Position(stored.position.0.saturating_add(at)),
        metadata: record.metadata.clone(),
        event,
    };
    Ok((0..).zip(decode_events(stored)?).map(recorded).collect())
}

/// The events of a record, each with its version.
fn decode_events<E: Storable>(stored: &StoredRecord) -> Result<Vec<(Version, E)>, ReadError> {
    let versions = (stored.record.first_version.0..).map(Version);
    versions
        .zip(&stored.record.events)
        .map(|(version, event)| {
            let gone = || damage(stored, version, "its body is not in the log any more");
            let decoded = E::decode(event.kind, event.schema, event.body().ok_or_else(gone)?);
            Ok((version, decoded.map_err(|error| damage(stored, version, &error.to_string()))?))
        })
        .collect()
}

/// Folds a stream, up to a version if one is given. Checks on the way that versions have no gap and that
/// every record names the hash of the one before.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read, or is not the chain that it must be.
pub fn fold_stream<D>(
    reader: &dyn EventReader,
    stream: &StreamId,
    up_to: Option<Version>,
) -> Result<Folded<D>, ReadError>
where
    D: Decider + Default,
    D::Event: Storable,
{
    fold_on(reader, stream, Folded::default(), up_to.unwrap_or(Version(u64::MAX)))
}

/// Goes on with a fold, up to a version.
pub(crate) fn fold_on<D>(
    reader: &dyn EventReader,
    stream: &StreamId,
    mut folded: Folded<D>,
    end: Version,
) -> Result<Folded<D>, ReadError>
where
    D: Decider,
    D::Event: Storable,
{
    loop {
        let page = reader.read_stream(stream, Version(folded.version.0 + 1), PAGE_RECORDS)?;
        let last_page = page.len() < PAGE_RECORDS;
        for stored in &page {
            if folded.version >= end {
                return Ok(folded);
            }
            folded.take_record(stored, end)?;
        }
        if last_page || folded.version >= end {
            return Ok(folded);
        }
    }
}

impl<D> Folded<D> {
    /// Remembers a command that appended, as the newest.
    pub fn remember(&mut self, metadata: &Metadata) {
        if self.answered.len() >= COMMANDS_REMEMBERED {
            self.answered.drain(..COMMANDS_REMEMBERED / 4);
            self.forgotten = true;
        }
        if !metadata.correlation_id.is_empty() {
            self.correlation_id.clone_from(&metadata.correlation_id);
        }
        self.answered.push(Answered {
            command_id: metadata.command_id.clone(),
            digest: metadata.command_digest,
            committed: Committed { version: self.version, position: self.position },
        });
    }

    /// The same with its state behind a pointer that can be handed out.
    pub(crate) fn shared(self) -> Folded<Arc<D>> {
        Folded {
            state: Arc::new(self.state),
            version: self.version,
            position: self.position,
            last_hash: self.last_hash,
            answered: self.answered,
            correlation_id: self.correlation_id,
            forgotten: self.forgotten,
        }
    }
}

impl<D> Folded<D>
where
    D: Decider,
    D::Event: Storable,
{
    /// Folds one record in, events up to `end` only.
    ///
    /// # Errors
    /// [`ReadError`] if the record does not follow the one before, or an event cannot be read.
    pub fn take_record(&mut self, stored: &StoredRecord, end: Version) -> Result<(), ReadError> {
        self.check_link(stored)?;
        for (position, (version, event)) in (stored.position.0..).zip(decode_events::<D::Event>(stored)?) {
            if version > end {
                return Ok(());
            }
            self.state.evolve(&event, &stored.record.metadata);
            (self.version, self.position) = (version, Position(position));
        }
        self.last_hash = stored.hash;
        self.remember(&stored.record.metadata);
        Ok(())
    }

    fn check_link(&self, stored: &StoredRecord) -> Result<(), ReadError> {
        let record = &stored.record;
        if record.first_version.0 != self.version.0 + 1 {
            let what = format!("version {} follows version {}", record.first_version, self.version);
            return Err(damage(stored, record.first_version, &what));
        }
        if record.previous != self.last_hash {
            let what = "the record does not name the hash of the one before it";
            return Err(damage(stored, record.first_version, what));
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
