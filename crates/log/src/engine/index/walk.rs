//! The places of a stream's records, found by following the index's links from the newest record to the oldest.
//! A reader that takes a long stream page by page follows each link once, since the places of streams read lately
//! are kept; and the index is free for others after every few thousand links.

use std::sync::{Arc, PoisonError};

use proto_events::id::{StreamId, Version};

use crate::engine::index::Index;
use crate::engine::slot::RecordPlace;
use crate::limits::{READ_PAGE_RECORDS, STREAM_SLOTS_KEPT, STREAMS_KEPT};
use crate::sync::Mutex;

/// The number of links that are followed before others may use the index: about 50 µs.
const LINKS_AT_A_TIME: usize = 4_096;

/// A question to the index, which is locked while it is answered.
pub(crate) type Ask<'a> = &'a dyn Fn(&mut dyn FnMut(&Index));

/// The slots of the long streams that were read last.
#[derive(Debug, Default)]
pub(crate) struct StreamSlots(Mutex<Vec<RecordPlaces>>);

/// The places of a stream's records, the oldest first, up to a record of the log.
#[derive(Debug)]
struct RecordPlaces {
    stream: StreamId,
    newest: u32,
    places: Arc<Vec<RecordPlace>>,
    /// The version after the page that was read last, and the number of the place whose record begins with it.
    next: Option<(Version, usize)>,
}

impl StreamSlots {
    /// Returns the places of a stream's records, the oldest first; none if the stream ends before version `from`.
    pub(crate) fn places(&self, stream: &StreamId, from: Version, ask: Ask<'_>) -> Arc<Vec<RecordPlace>> {
        let (mut end, mut newest) = (Version(0), None);
        ask(&mut |index| {
            let number = index.number_of(stream.as_str());
            end = number.map_or(Version(0), |number| index.end_of_number(number).version);
            newest = number.and_then(|number| index.newest_of_number(number));
        });
        // The last page of a stream is followed by a question for the next one.
        let Some(newest) = newest.filter(|_| end >= from) else { return Arc::default() };
        let kept = self.remove(stream);
        // Another reader may have come further in the meantime.
        let known = kept.filter(|kept| kept.newest <= newest);
        let until = known.as_ref().map(|kept| kept.newest);
        let page_end = known.as_ref().and_then(|kept| kept.next);
        let mut places = known.map_or_else(Arc::default, |kept| kept.places);
        let (mut added, mut next) = (Vec::new(), Some(newest).filter(|newest| Some(*newest) != until));
        while let Some(number) = next {
            ask(&mut |index| next = index.walk_back(number, until, LINKS_AT_A_TIME, &mut added));
        }
        if !added.is_empty() {
            added.reverse();
            Arc::make_mut(&mut places).append(&mut added);
        }
        if places.len() > READ_PAGE_RECORDS {
            let (stream, kept) = (stream.clone(), Arc::clone(&places));
            self.insert(RecordPlaces { stream, newest, places: kept, next: page_end });
        }
        places
    }

    /// Returns the number of the place whose record begins with this version, if the page before it was read last.
    pub(crate) fn number_of(&self, stream: &StreamId, from: Version) -> Option<usize> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, number) = kept.iter().find(|kept| kept.stream == *stream)?.next?;
        (version == from).then_some(number)
    }

    /// Notes the end of a page: the next record begins with this version, and is at the place with this number.
    pub(crate) fn note_end(&self, stream: &StreamId, end: (Version, usize)) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.iter_mut().find(|kept| kept.stream == *stream) {
            kept.next = Some(end);
        }
    }

    fn remove(&self, stream: &StreamId) -> Option<RecordPlaces> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|kept| kept.stream == *stream)?;
        Some(kept.remove(at))
    }

    /// Keeps a stream's slots, and drops those that were used longest ago if there are too many.
    fn insert(&self, newest: RecordPlaces) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.stream != newest.stream);
        kept.push(newest);
        while kept.len() > STREAMS_KEPT
            || (kept.len() > 1
                && kept.iter().map(|kept| kept.places.len()).sum::<usize>() > STREAM_SLOTS_KEPT)
        {
            kept.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::api::open_work::WorkChange;
    use crate::engine::slot::{IndexedRecord, RecordSlot, StreamEnd};

    fn stream(n: usize) -> StreamId {
        StreamId::parse(&format!("task-a/{n}")).unwrap()
    }

    /// Adds records to streams in turn, each record in a value of its own.
    fn add(index: &mut Index, streams: usize, records: usize) {
        for _ in 0..records {
            for n in 0..streams {
                let version = Version(index.end_of(stream(n).as_str()).version.0 + 1);
                let slot = RecordSlot { ordinal: u32::try_from(index.next_ordinal()).unwrap(), offset: 16 };
                let (end, work) = (StreamEnd { version, tag: 0 }, WorkChange::Unchanged);
                index.add_record(stream(n).as_str(), &IndexedRecord { end, slot, events: 1, work });
            }
        }
    }

    /// Reads the slots and counts how often the index was asked.
    fn read(slots: &StreamSlots, index: &Index, n: usize, from: u64) -> (Arc<Vec<RecordPlace>>, usize) {
        let asked = Cell::new(0);
        let found = slots.places(&stream(n), Version(from), &|question: &mut dyn FnMut(&Index)| {
            asked.set(asked.get() + 1);
            question(index);
        });
        (found, asked.get())
    }

    #[test]
    fn a_long_stream_is_walked_once_and_in_steps_and_then_only_its_new_records() {
        let (mut index, slots) = (Index::default(), StreamSlots::default());
        add(&mut index, 2, 10_000);
        let (found, asked) = read(&slots, &index, 0, 1);
        assert_eq!((found.len(), asked), (10_000, 1 + 3), "in steps");
        assert!(found.iter().map(|place| place.slot.ordinal).eq((0..10_000).map(|n| 2 * n)));
        assert_eq!(read(&slots, &index, 0, 10_000).1, 1, "nothing is walked again");
        let (none, asked) = read(&slots, &index, 1, 10_001);
        assert_eq!((none.len(), asked), (0, 1), "after the end nothing is walked at all");
        add(&mut index, 2, 5);
        let (found, asked) = read(&slots, &index, 0, 1);
        assert_eq!((found.len(), asked), (10_005, 1 + 1));
        assert!(found.iter().map(|place| place.slot.ordinal).eq((0..10_005).map(|n| 2 * n)));
    }

    #[test]
    fn the_end_of_a_page_is_known_until_another_page_is_read() {
        let (mut index, slots) = (Index::default(), StreamSlots::default());
        add(&mut index, 1, READ_PAGE_RECORDS + 1);
        read(&slots, &index, 0, 1);
        assert_eq!(slots.number_of(&stream(0), Version(257)), None);
        slots.note_end(&stream(0), (Version(257), 256));
        slots.note_end(&stream(9), (Version(257), 256));
        add(&mut index, 1, 3);
        read(&slots, &index, 0, 257);
        assert_eq!(slots.number_of(&stream(0), Version(257)), Some(256), "what came since changes no number");
        assert_eq!(slots.number_of(&stream(0), Version(258)), None);
        assert_eq!(slots.number_of(&stream(9), Version(257)), None, "its places are not kept");
    }

    #[test]
    fn slots_of_short_and_unknown_streams_are_not_kept() {
        let (mut index, slots) = (Index::default(), StreamSlots::default());
        add(&mut index, 3, READ_PAGE_RECORDS);
        for n in 0..3 {
            assert_eq!(read(&slots, &index, n, 1).0.len(), READ_PAGE_RECORDS);
        }
        assert!(read(&slots, &index, 9, 0).0.is_empty());
        assert!(slots.0.lock().unwrap().is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut index, slots) = (Index::default(), StreamSlots::default());
        add(&mut index, STREAMS_KEPT + 3, READ_PAGE_RECORDS + 1);
        for n in 0..STREAMS_KEPT + 3 {
            read(&slots, &index, n, 1);
        }
        let kept: Vec<_> = slots.0.lock().unwrap().iter().map(|kept| kept.stream.clone()).collect();
        assert_eq!(kept, (3..STREAMS_KEPT + 3).map(stream).collect::<Vec<_>>());
    }
}
