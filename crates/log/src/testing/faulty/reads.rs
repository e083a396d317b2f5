//! Reading through faults: appends that failed are not shown, and a read may be refused or damaged.

use std::sync::Arc;

use proto_events::codec::record::{Body, Record, RecordView};
use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::{StoredRecord, StreamInfo};
use crate::testing::faulty::plan::ReadFault;
use crate::testing::faulty::{FaultyStore, State};

impl State {
    /// Whether the append with this set id is not shown to readers.
    pub(crate) fn hides(&self, set_id: [u8; 16]) -> bool {
        self.hidden.iter().any(|hidden| hidden.set_id == set_id)
    }
}

impl FaultyStore {
    /// Returns the records that may be shown, or the fault planned for this read.
    fn shown(
        &self,
        read: impl FnOnce() -> Result<Vec<StoredRecord>, ReadError>,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let mut records = read()?;
        {
            let state = self.lock();
            // Hidden records are at the log's end, since nothing is accepted after them.
            records.retain(|stored| !state.hides(stored.record.set_id));
        }
        match self.faults.next_read() {
            None => Ok(records),
            Some(ReadFault::Refuse) => Err(ReadError::Io("the disk refused to read".to_owned())),
            Some(ReadFault::FlipBit { bit }) => {
                flip(&mut records, bit)?;
                Ok(records)
            }
        }
    }

    /// Returns the version at which a stream ends for readers.
    fn shown_version(&self, stream: &StreamId, ends: Version) -> Result<Version, ReadError> {
        let before: Vec<_> = {
            let state = self.lock();
            let streams = state.hidden.iter().flat_map(|hidden| &hidden.streams);
            streams.filter(|(hidden, _)| hidden == stream).map(|(_, before)| *before).collect()
        };
        for before in before {
            // The append may have been refused: then another writer's record is there.
            let next = self.inner.read_stream(stream, Version(before.0 + 1), 1)?;
            if next.first().is_some_and(|stored| self.lock().hides(stored.record.set_id)) {
                return Ok(before);
            }
        }
        Ok(ends)
    }
}

impl EventReader for FaultyStore {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.shown(|| self.inner.read_stream(stream, from, limit))
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.shown(|| self.inner.read_all(from, limit))
    }

    fn head(&self) -> Result<Position, ReadError> {
        let hidden = self.lock().hidden.clone();
        for hidden in hidden {
            let landed = self.inner.resolve(hidden.set_id)?;
            let first = landed.as_ref().and_then(|landed| landed.parts.first()).zip(hidden.streams.first());
            if let Some((last, (_, before))) = first {
                return Ok(Position(last.position.0 - (last.version.0 - before.0)));
            }
        }
        self.inner.head()
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.shown_version(stream, self.inner.stream_version(stream)?)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        let mut listed = Vec::new();
        let mut after = after.cloned();
        while listed.len() < limit {
            let page = self.inner.list_streams(prefix, after.as_ref(), limit - listed.len())?;
            let Some(last) = page.last() else { break };
            after = Some(last.stream.clone());
            for StreamInfo { stream, version } in page {
                let version = self.shown_version(&stream, version)?;
                // A stream whose first record is hidden does not exist for readers.
                if version > Version(0) {
                    listed.push(StreamInfo { stream, version });
                }
            }
        }
        Ok(listed)
    }
}

/// Flips one bit, and reads the record as every store does.
fn flip(records: &mut [StoredRecord], bit: usize) -> Result<(), ReadError> {
    let total: usize = records.iter().map(|stored| stored.bytes.len()).sum();
    if total == 0 {
        return Ok(());
    }
    let mut byte = (bit / 8) % total;
    for stored in records {
        let Some(rest) = byte.checked_sub(stored.bytes.len()) else {
            return flip_in(stored, byte, bit % 8);
        };
        byte = rest;
    }
    Ok(())
}

fn flip_in(stored: &mut StoredRecord, byte: usize, bit: usize) -> Result<(), ReadError> {
    let mut bytes = stored.bytes.to_vec();
    if let Some(byte) = bytes.get_mut(byte) {
        *byte ^= 1 << bit;
    }
    let damaged = |what: String| ReadError::Corrupt {
        what,
        stream: Some(stored.record.stream.clone()),
        version: Some(stored.record.first_version),
        position: Some(stored.position),
    };
    let view = RecordView::peek(&bytes).map_err(|error| damaged(error.to_string()))?;
    if view.leaf_hash() != stored.hash {
        return Err(damaged("the record's leaf hash is not the one stored with it".to_owned()));
    }
    let mut record = Record::decode(&bytes).map_err(|error| damaged(error.to_string()))?;
    for (event, intact) in record.events.iter_mut().zip(&stored.record.events) {
        if let (Body::Chunked { bytes, .. }, Body::Chunked { bytes: intact, .. }) =
            (&mut event.place, &intact.place)
        {
            bytes.clone_from(intact);
        }
    }
    record.check_bodies().map_err(|error| damaged(error.to_string()))?;
    *stored = StoredRecord { record, bytes: Arc::from(bytes), ..stored.clone() };
    Ok(())
}
