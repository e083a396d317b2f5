//! The faults to inject, and when.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A fault of an append. After any of them the store accepts no more appends until it is reopened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendFault {
    /// The disk refuses before anything is written: `NotWritten`, and the append is not in the log.
    BeforeWrite,
    /// The write lands, its flush fails: `Ambiguous`. The append is in the log, but not shown to readers
    /// until the log is reopened.
    AfterWrite,
    /// The append is durable and shown, but the writer ends before it replies: `Ambiguous`.
    LoseAnswer,
    /// Of the appends that wait together, this one and those after it, only `landing` reach the disk:
    /// `Ambiguous` for all of them, since which ones landed is unknown. The group ends when the first of its
    /// callers gets its reply.
    TearGroup {
        /// The number of appends that land; 0 is a write that was lost as a whole.
        landing: usize,
    },
    /// The disk is full: `NotWritten`, and it stays full, also after reopening, until [`Faults::free_space`].
    OutOfSpace,
}

/// A fault of a read of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadFault {
    /// The disk refuses: `Io`.
    Refuse,
    /// A bit of a record differs from what was written. As every store, this one compares what it reads with
    /// its digests: `Corrupt`, with stream, version and position.
    FlipBit {
        /// The number of the bit, counted over all records that the read would return; it wraps around.
        bit: usize,
    },
}

/// A fault that has occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InjectedFault {
    /// The append with this number.
    Append(u64, AppendFault),
    /// The read with this number.
    Read(u64, ReadFault),
}

/// A plan of faults: scripted by number, drawn from a seed, or both. This is a handle; its clones share the
/// plan, also with the stores that are opened later on the same log. Appends and reads are counted from 1,
/// over all of these stores; an append that writes nothing, since it is repeated or refused, does not count.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    appends: u64,
    reads: u64,
    at_append: BTreeMap<u64, AppendFault>,
    at_read: BTreeMap<u64, ReadFault>,
    drawn: Option<DrawnFaults>,
    full: bool,
    refuse_opening: bool,
    injected: Vec<InjectedFault>,
}

/// Faults drawn from a seed.
#[derive(Debug)]
struct DrawnFaults {
    state: u64,
    one_append_in: u64,
    one_read_in: u64,
}

impl Faults {
    /// Returns a plan without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns a plan in which about one in `one_append_in` appends and one in `one_read_in` reads fails (0:
    /// none), each with a fault of its own. The same seed gives the same faults to the same calls in the same
    /// order.
    pub fn drawn(seed: u64, one_append_in: u64, one_read_in: u64) -> Self {
        let faults = Self::none();
        faults.plan().drawn = Some(DrawnFaults { state: seed, one_append_in, one_read_in });
        faults
    }

    /// Makes the append with this number fail.
    pub fn at_append(&self, number: u64, fault: AppendFault) {
        self.plan().at_append.insert(number, fault);
    }

    /// Makes the next append fail.
    pub fn at_next_append(&self, fault: AppendFault) {
        let mut plan = self.plan();
        let number = plan.appends + 1;
        plan.at_append.insert(number, fault);
    }

    /// Makes the read of records with this number fail.
    pub fn at_read(&self, number: u64, fault: ReadFault) {
        self.plan().at_read.insert(number, fault);
    }

    /// Makes the next read of records fail.
    pub fn at_next_read(&self, fault: ReadFault) {
        let mut plan = self.plan();
        let number = plan.reads + 1;
        plan.at_read.insert(number, fault);
    }

    /// Makes the disk full from now on.
    pub fn fill_disk(&self) {
        self.plan().full = true;
    }

    /// Frees the disk. A store that has failed accepts appends again once it is reopened.
    pub fn free_space(&self) {
        self.plan().full = false;
    }

    /// Makes the next reopening fail, once.
    pub fn refuse_next_opening(&self) {
        self.plan().refuse_opening = true;
    }

    /// Returns the number of appends counted so far.
    pub fn appends(&self) -> u64 {
        self.plan().appends
    }

    /// Returns the number of reads of records so far.
    pub fn reads(&self) -> u64 {
        self.plan().reads
    }

    /// Returns the faults that have occurred, in order.
    pub fn injected(&self) -> Vec<InjectedFault> {
        self.plan().injected.clone()
    }

    /// Counts an append, and returns its fault, if any.
    pub(crate) fn next_append(&self) -> Option<AppendFault> {
        let mut plan = self.plan();
        plan.appends += 1;
        let number = plan.appends;
        let scripted = plan.at_append.remove(&number);
        let drawn = plan.drawn.as_mut().and_then(DrawnFaults::append);
        let fault = if plan.full { Some(AppendFault::OutOfSpace) } else { scripted.or(drawn) }?;
        plan.full |= fault == AppendFault::OutOfSpace;
        plan.injected.push(InjectedFault::Append(number, fault));
        Some(fault)
    }

    /// Counts a read, and returns its fault, if any.
    pub(crate) fn next_read(&self) -> Option<ReadFault> {
        let mut plan = self.plan();
        plan.reads += 1;
        let number = plan.reads;
        let scripted = plan.at_read.remove(&number);
        let drawn = plan.drawn.as_mut().and_then(DrawnFaults::read);
        let fault = scripted.or(drawn)?;
        plan.injected.push(InjectedFault::Read(number, fault));
        Some(fault)
    }

    pub(crate) fn refuses_opening(&self) -> bool {
        std::mem::take(&mut self.plan().refuse_opening)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DrawnFaults {
    /// Returns the next number of `SplitMix64`: small, and the same on every machine.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn hits(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.next().is_multiple_of(one_in)
    }

    fn append(&mut self) -> Option<AppendFault> {
        let hits = self.hits(self.one_append_in);
        hits.then(|| match self.next() % 6 {
            0 => AppendFault::BeforeWrite,
            1 => AppendFault::AfterWrite,
            2 => AppendFault::LoseAnswer,
            3 => AppendFault::OutOfSpace,
            landing => AppendFault::TearGroup { landing: usize::try_from(landing - 4).unwrap_or(0) },
        })
    }

    fn read(&mut self) -> Option<ReadFault> {
        let hits = self.hits(self.one_read_in);
        hits.then(|| match self.next() {
            drawn if drawn % 2 == 0 => ReadFault::Refuse,
            drawn => ReadFault::FlipBit { bit: usize::try_from(drawn >> 33).unwrap_or(0) },
        })
    }
}
