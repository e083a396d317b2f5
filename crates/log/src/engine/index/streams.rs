//! Stream names and their ends. Names are stored in an arena and are found through an open-addressed table of
//! 32-bit numbers: a hash map that owns its names would cost about three times as much. Beside each number is a byte
//! of its name's hash, so that a search reads names (three places in memory) only where they very likely match.

use std::hash::{BuildHasher as _, RandomState};

use crate::engine::index::arena::Arena;
use crate::engine::index::chunked_vec::ChunkedVec;
use crate::engine::slot::{NO_SLOT, StreamEnd};

/// The number that no stream has: of an empty bucket of the table.
const EMPTY: u32 = u32::MAX;

/// The number of buckets of the smallest table, a power of two as each.
const FIRST_BUCKETS: usize = 1 << 10;

/// The tag of an empty bucket; that of a name is never 0.
const UNUSED: u8 = 0;

/// The index entry of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    /// The stream's end.
    pub(crate) end: StreamEnd,
    /// The number of the stream's newest record.
    pub(crate) last: u32,
    /// The place of the stream's name in the arena.
    name: u32,
}

/// All streams.
#[derive(Debug, Default)]
pub(crate) struct StreamTable {
    hasher: RandomState,
    table: Vec<u32>,
    /// For each bucket of the table eight bits of its name's hash.
    tags: Vec<u8>,
    entries: ChunkedVec<Stream>,
    arena: Arena,
    /// The number of entries and names that were looked at since the last count.
    #[cfg(test)]
    pub(crate) touched: std::sync::atomic::AtomicUsize,
}

impl StreamTable {
    pub(crate) fn hashed_by(hasher: RandomState) -> Self {
        Self { hasher, ..Self::default() }
    }

    /// Adds a stream with the next number, which is not found by its name before [`StreamTable::build_table`].
    pub(crate) fn begin(&mut self, name: &str) {
        self.add(name, StreamEnd::default(), NO_SLOT);
    }

    /// Adds a stream with the next number and what is known of it, which is not found by its name before
    /// [`StreamTable::build_table`].
    pub(crate) fn add(&mut self, name: &str, end: StreamEnd, last: u32) {
        let name = self.arena.intern(name);
        self.entries.push(Stream { end, last, name });
    }

    /// Returns the streams in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Stream> {
        self.entries.iter()
    }

    /// Returns the name of one of these streams.
    pub(crate) fn name_of(&self, stream: &Stream) -> Option<&str> {
        self.arena.name(stream.name)
    }

    /// Returns the hash of a name.
    pub(crate) fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Builds the table at once from the hashes of all names, in order of their numbers: a table that grows hashes each name
    /// several times. Returns false if two streams have the same name.
    pub(crate) fn build_table(&mut self, hashes: &[u64]) -> bool {
        let mut buckets = FIRST_BUCKETS;
        while hashes.len() * 5 >= buckets * 4 {
            buckets *= 2;
        }
        (self.table, self.tags) = (vec![EMPTY; buckets], vec![UNUSED; buckets]);
        let mask = buckets - 1;
        let is_whole = hashes.len() == self.entries.len();
        is_whole
            && (0..).zip(hashes).all(|(number, hash)| {
                let (first, tag) = (first_bucket(*hash), tag_of(*hash));
                for step in 0..buckets {
                    let bucket = (first + step) & mask;
                    match self.tags.get(bucket) {
                        Some(&UNUSED) => {
                            self.occupy(bucket, tag, number);
                            return true;
                        }
                        Some(known) if *known == tag && self.name_in(bucket) == self.name(number) => {
                            return false;
                        }
                        _ => {}
                    }
                }
                false
            })
    }

    /// Whether this number of further streams can be named.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.entries.len().saturating_add(more) < EMPTY as usize && self.arena.has_room(more)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Stream> {
        self.entries.get_ref(self.number(name)? as usize)
    }

    /// Returns the number of the stream with this name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let (bucket, _) = self.bucket(name)?;
        self.table.get(bucket).copied().filter(|number| *number != EMPTY)
    }

    /// Returns the numbers of the streams with these names, of those that are known. Each search misses the processor's cache
    /// four times among many streams; step by step for all names together these misses overlap.
    pub(crate) fn numbers<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Vec<Option<u32>> {
        let Some(mask) = self.table.len().checked_sub(1) else { return names.map(|_| None).collect() };
        let hashes: Vec<u64> = names.clone().map(|name| self.hasher.hash_one(name)).collect();
        let number = |hash: &u64| {
            let bucket = first_bucket(*hash) & mask;
            let is_likely = self.tags.get(bucket) == Some(&tag_of(*hash));
            self.table.get(bucket).copied().filter(|_| is_likely)
        };
        let likely: Vec<Option<u32>> = hashes.iter().map(number).collect();
        let place = |number: &Option<u32>| Some(self.entries.get_ref((*number)? as usize)?.name);
        let places: Vec<Option<u32>> = likely.iter().map(place).collect();
        let begin = |place: &Option<u32>| self.arena.byte((*place)?);
        std::hint::black_box(places.iter().filter_map(begin).map(u64::from).sum::<u64>());
        let found = |(name, hash): (&str, &u64)| {
            let number = self.table.get(self.bucket_of(name, *hash)?).copied();
            number.filter(|number| *number != EMPTY)
        };
        names.zip(&hashes).map(found).collect()
    }

    /// Returns the stream with this number.
    pub(crate) fn get(&self, number: u32) -> Option<&Stream> {
        self.touch();
        self.entries.get_ref(number as usize)
    }

    /// Returns the number of streams.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the stream with this number.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Stream> {
        self.entries.get_mut(number as usize)
    }

    /// Returns the number of the stream with this name, adding the stream if it is new.
    pub(crate) fn upsert(&mut self, name: &str) -> u32 {
        if self.entries.len() * 5 >= self.table.len() * 4 {
            self.grow();
        }
        let (bucket, tag) = self.bucket(name).unwrap_or_default();
        let mut number = self.table.get(bucket).copied().unwrap_or(EMPTY);
        if number == EMPTY {
            number = u32::try_from(self.entries.len()).unwrap_or(EMPTY);
            self.occupy(bucket, tag, number);
            let name = self.arena.intern(name);
            self.entries.push(Stream { end: StreamEnd::default(), last: NO_SLOT, name });
        }
        number
    }

    /// Copies the names of at most `most` streams from the one with number `from` on, and adds their numbers and places.
    pub(crate) fn copy_names(&self, from: u32, most: usize, names: &mut Arena, places: &mut Vec<(u32, u32)>) {
        let numbers = (from..).take(most);
        places.extend(numbers.map_while(|number| Some((number, self.get(number)?.name))));
        if let Some((_, last)) = places.last() {
            names.follow(&self.arena, *last);
        }
    }

    /// Returns the bucket of the table that holds the stream with this name, or the empty bucket where it
    /// belongs, and the tag of the name.
    fn bucket(&self, name: &str) -> Option<(usize, u8)> {
        let hash = self.hasher.hash_one(name);
        Some((self.bucket_of(name, hash)?, tag_of(hash)))
    }

    fn bucket_of(&self, name: &str, hash: u64) -> Option<usize> {
        let mask = self.table.len().checked_sub(1)?;
        let (first, tag) = (first_bucket(hash), tag_of(hash));
        (0..=mask).map(|step| (first + step) & mask).find(|bucket| {
            let known = self.tags.get(*bucket).copied().unwrap_or(UNUSED);
            known == UNUSED || (known == tag && self.name_in(*bucket) == Some(name))
        })
    }

    fn name_in(&self, bucket: usize) -> Option<&str> {
        self.name(*self.table.get(bucket)?)
    }

    fn occupy(&mut self, bucket: usize, tag: u8, number: u32) {
        if let (Some(empty), Some(unused)) = (self.table.get_mut(bucket), self.tags.get_mut(bucket)) {
            (*empty, *unused) = (number, tag);
        }
    }

    /// Doubles the table.
    fn grow(&mut self) {
        let buckets = (self.table.len() * 2).max(FIRST_BUCKETS);
        (self.table, self.tags) = (vec![EMPTY; buckets], vec![UNUSED; buckets]);
        for number in 0..self.entries.len() {
            let number = u32::try_from(number).unwrap_or(EMPTY);
            if let Some((bucket, tag)) = self.name(number).and_then(|name| self.bucket(name)) {
                self.occupy(bucket, tag, number);
            }
        }
    }

    /// Returns the name of the stream with this number.
    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        self.touch();
        self.arena.name(self.entries.get_ref(number as usize)?.name)
    }

    /// Counts, in tests, what is looked at.
    #[inline]
    #[cfg_attr(not(test), allow(clippy::unused_self, reason = "it counts in tests only"))]
    pub(crate) fn touch(&self) {
        #[cfg(test)]
        self.touched.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.table.len() * 5 + self.entries.bytes() + self.arena.bytes()
    }
}

/// Returns the tag of a name with this hash.
fn tag_of(hash: u64) -> u8 {
    let [tag, ..] = hash.to_be_bytes();
    tag.max(UNUSED + 1)
}

/// Returns the bucket, counted beyond the table's end, at which the search for a name begins. It is taken from other bits than
/// the tag.
fn first_bucket(hash: u64) -> usize {
    usize::try_from(hash & 0xffff_ffff).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_under_its_number_also_where_tags_and_places_are_the_same() {
        let mut streams = StreamTable::default();
        // Far more names than tags, through several doublings of the table.
        let names: Vec<String> = (0..20_000).map(|n| format!("task-a/{n}")).collect();
        assert_eq!(streams.number("task-a/0"), None);
        for (number, name) in (0..).zip(&names) {
            assert_eq!(streams.upsert(name), number);
            assert_eq!(streams.upsert(name), number, "a known name");
        }
        for (number, name) in (0..).zip(&names) {
            assert_eq!((streams.number(name), streams.name(number)), (Some(number), Some(name.as_str())));
        }
        assert_eq!(streams.len(), names.len());
        let asked = ["task-a/19999", "task-b/1", "task-a/0"].into_iter();
        assert_eq!(streams.numbers(asked.clone()), [Some(19_999), None, Some(0)]);
        assert_eq!(StreamTable::default().numbers(asked), [None; 3]);
        for n in 20_000..40_000 {
            assert_eq!(streams.number(&format!("task-a/{n}")), None);
        }
        assert!(
            streams
                .tags
                .iter()
                .zip(&streams.table)
                .all(|(tag, number)| { (*tag == UNUSED) == (*number == EMPTY) })
        );
    }
}
