//! The index without a log, for measuring its memory use. Feature `testing`.

use proto_events::id::{Digest, StreamId, Version};

use crate::api::open_work::WorkChange;
use crate::engine::index::Index;
use crate::engine::slot::{IndexedRecord, RecordSlot, StreamEnd};

/// An index that is only kept in memory to measure its size.
#[derive(Debug)]
pub struct IndexAlone {
    _index: Index,
}

/// Builds the index of a log with `records_each` records of one event for each of these streams.
pub fn index_alone(streams: &[StreamId], records_each: u32) -> IndexAlone {
    let mut index = Index::default();
    let (mut position, mut ordinal) = (0_u64, 0);
    for version in 1..=u64::from(records_each) {
        for (number, stream) in streams.iter().enumerate() {
            position += 1;
            // About as many records to a value as for records of 300 bytes.
            let offset = u16::try_from(number % 80 * 700).unwrap_or(u16::MAX);
            if offset == 0 {
                ordinal += 1;
            }
            let end = StreamEnd::new(Version(version), Digest::compute(&position.to_be_bytes()));
            let slot = RecordSlot { ordinal: ordinal - 1, offset };
            index.add_record(
                stream.as_str(),
                &IndexedRecord { end, slot, events: 1, work: WorkChange::Unchanged },
            );
            let mut set_id = [0; 16];
            set_id.iter_mut().zip(position.to_be_bytes()).for_each(|(to, from)| *to = from);
            index.remember(set_id, ordinal - 1);
        }
    }
    IndexAlone { _index: index }
}
