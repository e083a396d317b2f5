//! A snapshot: a stream's fold at one version, kept so that the events up to there need not be folded again. A
//! cache: it may be deleted at any time, and one that does not fit the log in every point is ignored.
//!
//! | bytes | field, integers big-endian |
//! |---|---|
//! | 4 | CRC32C of all that follows |
//! | 4 | revision of the fold |
//! | 2 + n | stream id |
//! | 8, 8, 32 | version and position of the last event folded, leaf hash of its record |
//! | 2 + n | correlation id |
//! | 1 | whether commands older than those that follow are in the log only |
//! | 2 | how many commands follow |
//! | 2 + n, 32, 8, 8 each | command id, digest, version and position of the answer |
//! | n | the state |

use std::sync::Arc;

use proto_events::codec::Storable;
use proto_events::codec::state::Kept;
use proto_events::envelope::Committed;
use proto_events::id::{Digest, Position, StreamId, Version};

use crate::limits::{SNAPSHOT_BYTES_MAX, SNAPSHOT_COMMANDS};
use crate::store::fold::{Answered, Folded, fold_on};
use crate::store::{EventReader, EventStore, ReadError};

const CRC_BYTES: usize = 4;

/// A stream's fold at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The stream.
    pub stream: StreamId,
    /// The revision of the fold that made it.
    pub revision: u32,
    /// The version of the last event folded, which ends its record.
    pub version: Version,
    /// The position of that event.
    pub position: Position,
    /// The leaf hash of that record.
    pub hash: Digest,
    /// What that record belongs to.
    pub correlation_id: String,
    /// The newest commands that appended, oldest first.
    pub answered: Vec<Answered>,
    /// Commands older than those are in the log only.
    pub forgotten: bool,
    /// The state's own bytes.
    pub state: Vec<u8>,
}

impl Snapshot {
    /// The snapshot of a fold that ends with a whole record.
    ///
    /// # Errors
    /// The reason, if there can be none.
    pub fn of<D: Kept>(stream: &StreamId, folded: &Folded<Arc<D>>) -> Result<Self, String> {
        let skipped = folded.answered.len().saturating_sub(SNAPSHOT_COMMANDS);
        Ok(Self {
            stream: stream.clone(),
            revision: D::REVISION,
            version: folded.version,
            position: folded.position,
            hash: folded.last_hash,
            correlation_id: folded.correlation_id.clone(),
            answered: folded.answered.iter().skip(skipped).cloned().collect(),
            forgotten: folded.forgotten || skipped > 0,
            state: folded.state.keep().map_err(|error| error.to_string())?,
        })
    }

    /// Its bytes; none, if it is larger than a store keeps.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; CRC_BYTES];
        bytes.extend(self.revision.to_be_bytes());
        put_text(&mut bytes, self.stream.as_str())?;
        put_place(&mut bytes, self.version, self.position);
        bytes.extend(self.hash.0);
        put_text(&mut bytes, &self.correlation_id)?;
        bytes.push(u8::from(self.forgotten));
        bytes.extend(u16::try_from(self.answered.len()).ok()?.to_be_bytes());
        for Answered { command_id, digest, committed } in &self.answered {
            put_text(&mut bytes, command_id)?;
            bytes.extend(digest.0);
            put_place(&mut bytes, committed.version, committed.position);
        }
        bytes.extend(&self.state);
        let crc = crc32c::crc32c(bytes.get(CRC_BYTES..)?);
        bytes.first_chunk_mut::<CRC_BYTES>()?.copy_from_slice(&crc.to_be_bytes());
        (bytes.len() <= SNAPSHOT_BYTES_MAX).then_some(bytes)
    }

    /// Reads it back.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut rest = bytes;
        let crc = u32::from_be_bytes(take(&mut rest)?);
        if crc32c::crc32c(rest) != crc {
            return Err("its checksum is wrong".to_owned());
        }
        let revision = u32::from_be_bytes(take(&mut rest)?);
        let stream = StreamId::parse(&take_text(&mut rest)?).map_err(|error| error.to_string())?;
        let Committed { version, position } = take_place(&mut rest)?;
        let hash = Digest(take(&mut rest)?);
        let correlation_id = take_text(&mut rest)?;
        let [forgotten] = take(&mut rest)?;
        let count = u16::from_be_bytes(take(&mut rest)?);
        let mut answered = Vec::new();
        for _ in 0..count {
            let command_id = take_text(&mut rest)?;
            let digest = Digest(take(&mut rest)?);
            answered.push(Answered { command_id, digest, committed: take_place(&mut rest)? });
        }
        let forgotten = forgotten != 0;
        let state = rest.to_vec();
        Ok(Self { stream, revision, version, position, hash, correlation_id, answered, forgotten, state })
    }

    /// Compares it with the log: the record that it ends with must be there, with this hash.
    ///
    /// # Errors
    /// What does not agree, or why the log could not be read.
    pub fn check(&self, reader: &dyn EventReader) -> Result<(), String> {
        let there = reader.read_stream(&self.stream, self.version, 1).map_err(|error| error.to_string())?;
        match there.first() {
            None => Err(format!("the stream ends before version {}", self.version)),
            Some(stored) if stored.record.last_version() != self.version => {
                Err(format!("no record ends with version {}", self.version))
            }
            Some(stored) if stored.hash != self.hash || stored.last_position() != self.position => {
                Err(format!("the record that ends with version {} is another one", self.version))
            }
            Some(_) => Ok(()),
        }
    }

    /// The fold that it keeps, if this fold made it.
    fn into_folded<D: Kept>(self) -> Result<Folded<D>, String> {
        if self.revision != D::REVISION {
            return Err(format!("it is of revision {}, this program's is {}", self.revision, D::REVISION));
        }
        Ok(Folded {
            state: D::kept(&self.state).map_err(|error| error.to_string())?,
            version: self.version,
            position: self.position,
            last_hash: self.hash,
            answered: self.answered,
            correlation_id: self.correlation_id,
            forgotten: self.forgotten,
        })
    }
}

/// Folds a stream, from its snapshot on if there is one that fits the log in every point; any other is reported and
/// ignored.
///
/// # Errors
/// As [`crate::store::fold::fold_stream`].
pub fn fold_from_snapshot<D>(store: &dyn EventStore, stream: &StreamId) -> Result<Folded<D>, ReadError>
where
    D: Kept + Default,
    D::Event: Storable,
{
    let folded = match usable(store, stream) {
        Ok(Some(folded)) => folded,
        Ok(None) => Folded::default(),
        Err(why) => {
            tracing::warn!(%stream, why, "a snapshot is ignored; all events are folded instead");
            Folded::default()
        }
    };
    fold_on(store, stream, folded, Version(u64::MAX))
}

/// The fold of the stream's snapshot.
fn usable<D: Kept>(store: &dyn EventStore, stream: &StreamId) -> Result<Option<Folded<D>>, String> {
    let Some(snapshot) = store.get_snapshot(stream)? else { return Ok(None) };
    if snapshot.stream != *stream {
        return Err(format!("it is of {}", snapshot.stream));
    }
    snapshot.check(store)?;
    snapshot.into_folded().map(Some)
}

fn put_text(bytes: &mut Vec<u8>, text: &str) -> Option<()> {
    bytes.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
    bytes.extend(text.as_bytes());
    Some(())
}

fn put_place(bytes: &mut Vec<u8>, version: Version, position: Position) {
    bytes.extend(version.0.to_be_bytes());
    bytes.extend(position.0.to_be_bytes());
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], String> {
    let (taken, left) = rest.split_first_chunk::<N>().ok_or("it ends too early")?;
    *rest = left;
    Ok(*taken)
}

fn take_text(rest: &mut &[u8]) -> Result<String, String> {
    let bytes = usize::from(u16::from_be_bytes(take(rest)?));
    let (text, left) = rest.split_at_checked(bytes).ok_or("it ends too early")?;
    *rest = left;
    String::from_utf8(text.to_vec()).map_err(|error| error.to_string())
}

fn take_place(rest: &mut &[u8]) -> Result<Committed, String> {
    let version = Version(u64::from_be_bytes(take(rest)?));
    Ok(Committed { version, position: Position(u64::from_be_bytes(take(rest)?)) })
}
