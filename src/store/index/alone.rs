//! The index without a log, for measuring how much memory it takes. Feature `testing`.

use proto_events::id::{Digest, StreamId, Version};

use super::{Entered, Index, Slot, StreamEnd, Work};

/// An index; what can be asked of it is how much memory it takes.
#[derive(Debug)]
pub struct IndexAlone {
    _index: Index,
}

/// The index of a log that holds so many records of one event for each of these streams.
pub fn index_alone(streams: &[StreamId], records_each: u32) -> IndexAlone {
    let mut index = Index::default();
    let (mut position, mut ordinal) = (0_u64, 0);
    for version in 1..=u64::from(records_each) {
        for (number, stream) in streams.iter().enumerate() {
            position += 1;
            // About as many records to a value as there are of 300 bytes.
            let offset = u16::try_from(number % 80 * 700).unwrap_or(u16::MAX);
            if offset == 0 {
                ordinal += 1;
            }
            let end = StreamEnd::of(Version(version), Digest::of(&position.to_be_bytes()));
            let slot = Slot { ordinal: ordinal - 1, offset };
            index.add_record(stream.as_str(), &Entered { end, slot, events: 1, work: Work::Same });
            let mut set_id = [0; 16];
            set_id.iter_mut().zip(position.to_be_bytes()).for_each(|(to, from)| *to = from);
            index.remember(set_id, ordinal - 1);
        }
    }
    IndexAlone { _index: index }
}
