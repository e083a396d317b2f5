//! The streams in order of their names, and those with open work, for listing them. The writer waits for the index
//! while it is read, so what is new of it is copied in small pieces, and sorted outside of its lock.

use std::sync::PoisonError;

use proto_events::id::{StreamId, Version};

use crate::api::record::StreamInfo;
use crate::engine::index::arena::Arena;
use crate::engine::index::walk::Ask;
use crate::sync::Mutex;

/// The number of streams that are looked at before others may use the index: some 50 µs.
pub(crate) const STREAMS_AT_A_TIME: usize = 512;

/// The sorted list of the streams. Newer ones are added at the next listing.
#[derive(Debug, Default)]
pub(crate) struct StreamListing(Mutex<SortedStreams>);

#[derive(Debug, Default)]
struct SortedStreams {
    names: Arena,
    /// The number of each stream and the place of its name, in order of the names.
    streams: Vec<(u32, u32)>,
}

impl StreamListing {
    /// Returns the streams whose names begin with `prefix` and come after `after`, in order of their names, at most
    /// `limit`.
    pub(crate) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        ask: Ask<'_>,
    ) -> Vec<StreamInfo> {
        let page = {
            let mut sorted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            sorted.add_new(ask);
            sorted.page(prefix, after, limit)
        };
        let mut versions = Vec::with_capacity(page.len());
        for some in page.chunks(STREAMS_AT_A_TIME) {
            ask(&mut |index| {
                versions.extend(some.iter().map(|(number, _)| index.end_of_number(*number).version));
            });
        }
        let info = |((_, stream), version): ((u32, StreamId), Version)| StreamInfo { stream, version };
        page.into_iter().zip(versions).map(info).collect()
    }
}

impl SortedStreams {
    /// Adds the streams that the index has got since the last listing.
    fn add_new(&mut self, ask: Ask<'_>) {
        let (known, mut new, mut all) = (self.streams.len(), Vec::new(), 0);
        ask(&mut |index| all = index.streams());
        while known + new.len() < all {
            let before = known + new.len();
            let Ok(from) = u32::try_from(before) else { break };
            ask(&mut |index| index.copy_names(from, STREAMS_AT_A_TIME, &mut self.names, &mut new));
            if known + new.len() == before {
                break;
            }
        }
        if new.is_empty() {
            return;
        }
        let names = &self.names;
        let name = |stream: &(u32, u32)| names.name(stream.1);
        new.sort_unstable_by(|one, next| name(one).cmp(&name(next)));
        // Whole runs of the known ones are moved: a few new streams among many cost a few searches.
        let mut merged = Vec::with_capacity(known + new.len());
        let mut rest = self.streams.as_slice();
        for stream in new {
            let (smaller, larger) = rest.split_at(rest.partition_point(|known| name(known) < name(&stream)));
            merged.extend_from_slice(smaller);
            merged.push(stream);
            rest = larger;
        }
        merged.extend_from_slice(rest);
        self.streams = merged;
    }

    fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<(u32, StreamId)> {
        let name = |stream: &(u32, u32)| self.names.name(stream.1);
        let mut first = self.streams.partition_point(|stream| name(stream).is_some_and(|name| name < prefix));
        if after.is_some() {
            first = first.max(self.streams.partition_point(|stream| name(stream) <= after));
        }
        let wanted = self
            .streams
            .iter()
            .skip(first)
            .map_while(|stream| Some((stream.0, name(stream).filter(|name| name.starts_with(prefix))?)));
        // Names come from records; their stream ids were checked when they were written or scanned.
        wanted.filter_map(|(number, name)| Some((number, StreamId::parse(name).ok()?))).take(limit).collect()
    }
}

/// Returns the streams with open work, in order of their names. Of those whose work begins or ends meanwhile each is in it
/// or not.
pub(crate) fn open_work(ask: Ask<'_>) -> Vec<StreamId> {
    let (mut open, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let mut some = Vec::new();
        ask(&mut |index| index.add_open(from, STREAMS_AT_A_TIME, &mut some));
        next = some.last().and_then(|(number, _)| number.checked_add(1));
        open.extend(some.into_iter().filter_map(|(_, name)| StreamId::parse(&name).ok()));
    }
    open.sort();
    open
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::Ordering;

    use proto_events::id::Digest;

    use super::*;
    use crate::api::open_work::WorkChange;
    use crate::engine::index::Index;
    use crate::engine::index::compare::compare_with;
    use crate::engine::slot::{IndexedRecord, RecordSlot, StreamEnd};

    /// The most entries of the index that may be looked at while its lock is held.
    const BOUND: usize = 8 * STREAMS_AT_A_TIME;

    fn add(index: &mut Index, number: u32) {
        let (version, ordinal) = (Version(1), u32::try_from(index.records() / 100).unwrap());
        let slot = RecordSlot { ordinal, offset: u16::try_from(16 + index.records() % 100).unwrap() };
        let end = StreamEnd::new(version, Digest::compute(&number.to_be_bytes()));
        let work = WorkChange::Opened;
        // The names come in another order than the numbers.
        let name = format!("task-a/{:08x}", number.reverse_bits());
        index.add_record(&name, &IndexedRecord { end, slot, events: 1, work });
    }

    fn filled(streams: u32) -> Index {
        let mut index = Index::default();
        (0..streams).for_each(|number| add(&mut index, number));
        index
    }

    /// Answers questions to an index, and notes the most entries that were looked at for one of them.
    struct Probe {
        index: Index,
        most: Cell<usize>,
    }

    impl Probe {
        fn ask(&self, question: &mut dyn FnMut(&Index)) {
            self.index.streams.touched.store(0, Ordering::Relaxed);
            question(&self.index);
            self.most.set(self.most.get().max(self.index.streams.touched.load(Ordering::Relaxed)));
        }

        /// Returns the most since the last call.
        fn most(&self) -> usize {
            self.most.take()
        }
    }

    #[test]
    fn the_index_is_free_for_the_writer_after_a_bounded_number_of_entries_however_many_streams_there_are() {
        let streams = 300_000;
        let rebuilt = filled(streams);
        let mut probe = Probe { index: filled(streams), most: Cell::new(0) };
        let listing = StreamListing::default();
        let page = listing.list("task-", None, 10, &|question| probe.ask(question));
        assert_eq!(page.len(), 10);
        assert!((1..=BOUND).contains(&probe.most()), "the first listing sorts outside of the lock");
        // A new stream among all others, and a list of all.
        add(&mut probe.index, streams);
        let all = listing.list("", None, usize::MAX, &|question| probe.ask(question));
        assert_eq!(all.len(), streams as usize + 1);
        assert!(all.is_sorted_by_key(|info| info.stream.clone()));
        assert!((1..=BOUND).contains(&probe.most()), "a listing of all");
        let open = open_work(&|question| probe.ask(question));
        assert!(open.iter().eq(all.iter().map(|info| &info.stream)));
        assert!((1..=BOUND).contains(&probe.most()), "open work");
        let mut faults = Vec::new();
        let is_whole = compare_with(&rebuilt, &|question| probe.ask(question), &|| true, &mut |fault| {
            faults.push(format!("{fault:?}"));
        });
        assert_eq!(
            (is_whole, faults),
            (true, Vec::<String>::new()),
            "what was appended meanwhile is no fault"
        );
        assert!((1..=BOUND).contains(&probe.most()), "a comparison with the log");
    }

    #[test]
    fn streams_that_come_between_listings_are_in_their_places() {
        let (mut index, listing) = (Index::default(), StreamListing::default());
        let mut number = 0;
        for some in [1, 5, 700, 0, 3, 2_000] {
            for _ in 0..some {
                add(&mut index, number);
                number += 1;
            }
            let all = listing.list("", None, usize::MAX, &|question| question(&index));
            assert_eq!(all.len(), number as usize);
            assert!(all.is_sorted_by_key(|info| info.stream.clone()));
            assert!(all.iter().all(|info| info.version == Version(1)));
        }
    }
}
