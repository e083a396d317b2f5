//! The values of a stream's records, several of which are read at once where the first shows that the disk must be
//! asked: one after another, the disk's latency would be paid for each.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::api::error::ReadError;
use crate::engine::slot::RecordPlace;
use crate::engine::values::Values;

/// The time from which on a value was read from the disk: from memory it takes a tenth of it.
pub(crate) const FROM_DISK: Duration = Duration::from_micros(500);

/// The number of values that are read at once: 16 of 60 KiB.
const AT_ONCE: usize = 16;

/// The number of records from which on a page is read as those are who read each value once.
const LONG: usize = 64;

/// The number of threads that read ahead in this process at the same time: more requests than this keep no disk busier.
const THREADS_MAX: usize = 64;

/// The threads that read ahead now.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Reads the values of places in their order.
pub(crate) struct ReadAhead<'a, V: Values> {
    values: &'a V,
    places: &'a [RecordPlace],
    /// The value that was read last: neighbouring records often have the same one.
    last: Option<(u32, V::Bytes)>,
    /// Values that were read ahead, the next one last.
    ahead: Vec<(u32, Result<V::Bytes, ReadError>)>,
}

impl<'a, V: Values + Sync> ReadAhead<'a, V>
where
    V::Bytes: Send,
{
    pub(crate) fn new(values: &'a V, places: &'a [RecordPlace]) -> Self {
        Self { values, places, last: None, ahead: Vec::new() }
    }

    /// Returns the value of the place with this number, which has this ordinal.
    pub(crate) fn value_of(&mut self, number: usize, ordinal: u32) -> Result<&V::Bytes, ReadError> {
        let known = self.last.take().filter(|(last, _)| *last == ordinal);
        let value = match known {
            Some((_, value)) => value,
            None => self.read(number, ordinal)?,
        };
        Ok(&self.last.insert((ordinal, value)).1)
    }

    fn read(&mut self, number: usize, ordinal: u32) -> Result<V::Bytes, ReadError> {
        while let Some((next, read)) = self.ahead.pop() {
            if next == ordinal {
                return read;
            }
        }
        let asks_the_disk = self.values.disk_was_asked().is_some_and(|asked| asked.load(Ordering::Relaxed));
        if asks_the_disk && cfg!(not(shuttle)) {
            self.ahead = self.read_at_once(number, None);
            if let Some((_, read)) = self.ahead.pop_if(|(next, _)| *next == ordinal) {
                return read;
            }
        }
        let (value, from_disk) = require(self.values, ordinal, self.places.len() >= LONG);
        self.record_source(from_disk);
        let value = value?;
        if from_disk && cfg!(not(shuttle)) {
            self.ahead = self.read_at_once(number + 1, Some(ordinal));
        }
        Ok(value)
    }

    /// Notes whether the disk was asked, for the streams that are read next.
    fn record_source(&self, from_disk: bool) {
        if let Some(asked) = self.values.disk_was_asked() {
            asked.store(from_disk, Ordering::Relaxed);
        }
    }

    /// Reads the values of the places from this one on, on several threads; the value of `known` was read before. An
    /// error is kept for the record that needs the value.
    fn read_at_once(&self, from: usize, known: Option<u32>) -> Vec<(u32, Result<V::Bytes, ReadError>)> {
        let mut wanted: Vec<u32> = Vec::new();
        for place in self.places.get(from..).unwrap_or_default() {
            let ordinal = place.slot.ordinal;
            if Some(ordinal) != wanted.last().copied().or(known) {
                wanted.push(ordinal);
            }
            if wanted.len() == AT_ONCE {
                break;
            }
        }
        let (values, disk_was_asked) = (self.values, AtomicBool::new(false));
        let (next, read) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(ordinal) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (value, from_disk) = require(values, *ordinal, true);
                disk_was_asked.fetch_or(from_disk, Ordering::Relaxed);
                read.lock().unwrap_or_else(PoisonError::into_inner).push((*ordinal, value));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..wanted.len() {
                let Some(place) = ReadingThread::enter() else { break };
                let thread = std::thread::Builder::new().name("taskreel-read".to_owned());
                // Without threads this one reads all of them.
                if thread.spawn_scoped(scope, move || place.hold_while(work)).is_err() {
                    break;
                }
            }
            work();
        });
        if !wanted.is_empty() {
            self.record_source(disk_was_asked.into_inner());
        }
        let mut read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The index of a damaged log may lead to values in any order.
        read.sort_by_key(|(ordinal, _)| wanted.iter().rev().position(|other| other == ordinal));
        read
    }
}

/// Reads one value, perhaps past a cache. Returns also whether the disk was asked for it.
fn require<V: Values>(values: &V, ordinal: u32, once: bool) -> (Result<V::Bytes, ReadError>, bool) {
    let begin = Instant::now();
    let value = if once { values.require_once(ordinal.into()) } else { values.require(ordinal.into()) };
    (value, begin.elapsed() >= FROM_DISK)
}

/// A place among the threads that read ahead, given back at the end.
struct ReadingThread;

impl ReadingThread {
    fn enter() -> Option<Self> {
        let entered = THREADS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |threads| {
            (threads < THREADS_MAX).then_some(threads + 1)
        });
        entered.ok().map(|_| Self)
    }

    fn hold_while(self, work: impl FnOnce()) {
        work();
        drop(self);
    }
}

impl Drop for ReadingThread {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}
