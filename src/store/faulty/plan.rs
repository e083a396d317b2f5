//! What is to go wrong, and when.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What goes wrong with an append. Whatever it is, the store takes no more of them until it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendFault {
    /// The disk refuses before anything is written: `NotWritten`, and it is not in the log.
    BeforeWrite,
    /// The write lands, its flush fails: `Ambiguous`. It is in the log, but shown to nobody until the log is opened
    /// again.
    AfterWrite,
    /// It is durable and shown, but whoever was to answer is gone: `Ambiguous`.
    LoseAnswer,
    /// Of the appends that wait together, this and those after it, only so many reach the disk: `Ambiguous` all of
    /// them, since nobody can say which. The group ends when the first of its callers is answered.
    TearGroup {
        /// How many of them land; 0 is a write that was lost as a whole.
        landing: usize,
    },
    /// The disk is full: `NotWritten`, and it stays full, however often the log is opened, until
    /// [`Faults::free_space`].
    OutOfSpace,
}

/// What goes wrong with the reading of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadFault {
    /// The disk refuses: `Io`.
    Refuse,
    /// One bit of one record is not what was written. Every store compares what it reads with its digests, and so
    /// does this one: `Corrupt`, with stream, version and position.
    FlipBit {
        /// Which bit, counted over all records that the reading would give; it wraps round.
        bit: usize,
    },
}

/// A fault that has struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Struck {
    /// The append of this number.
    Append(u64, AppendFault),
    /// The reading of this number.
    Read(u64, ReadFault),
}

/// What is to go wrong: scripted by number, drawn from a seed, or both. A handle; its clones are the same plan,
/// also for the stores that are opened later on the same log. Appends and readings are counted from 1, over all
/// of these stores; an append that writes nothing, since it is repeated or refused, does not count.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    appends: u64,
    reads: u64,
    at_append: BTreeMap<u64, AppendFault>,
    at_read: BTreeMap<u64, ReadFault>,
    drawn: Option<Drawn>,
    full: bool,
    refuse_opening: bool,
    struck: Vec<Struck>,
}

/// Faults drawn from a seed.
#[derive(Debug)]
struct Drawn {
    state: u64,
    one_append_in: u64,
    one_read_in: u64,
}

impl Faults {
    /// Nothing goes wrong until you say so.
    pub fn none() -> Self {
        Self::default()
    }

    /// Of appends and of readings, about one in so many goes wrong (0: none), each with a fault of its own. The
    /// same seed gives the same faults to the same calls in the same order.
    pub fn drawn(seed: u64, one_append_in: u64, one_read_in: u64) -> Self {
        let faults = Self::none();
        faults.plan().drawn = Some(Drawn { state: seed, one_append_in, one_read_in });
        faults
    }

    /// The append of this number goes wrong.
    pub fn at_append(&self, number: u64, fault: AppendFault) {
        self.plan().at_append.insert(number, fault);
    }

    /// The next append goes wrong.
    pub fn at_next_append(&self, fault: AppendFault) {
        let mut plan = self.plan();
        let number = plan.appends + 1;
        plan.at_append.insert(number, fault);
    }

    /// The reading of records of this number goes wrong.
    pub fn at_read(&self, number: u64, fault: ReadFault) {
        self.plan().at_read.insert(number, fault);
    }

    /// The next reading of records goes wrong.
    pub fn at_next_read(&self, fault: ReadFault) {
        let mut plan = self.plan();
        let number = plan.reads + 1;
        plan.at_read.insert(number, fault);
    }

    /// From now on the disk is full.
    pub fn fill_disk(&self) {
        self.plan().full = true;
    }

    /// There is room again. A store that has failed takes appends again once it is opened anew.
    pub fn free_space(&self) {
        self.plan().full = false;
    }

    /// The next opening anew fails, once.
    pub fn refuse_next_opening(&self) {
        self.plan().refuse_opening = true;
    }

    /// How many appends have counted.
    pub fn appends(&self) -> u64 {
        self.plan().appends
    }

    /// How often records have been read.
    pub fn reads(&self) -> u64 {
        self.plan().reads
    }

    /// What has gone wrong so far, in order.
    pub fn struck(&self) -> Vec<Struck> {
        self.plan().struck.clone()
    }

    /// Counts an append, and says what goes wrong with it.
    pub(super) fn next_append(&self) -> Option<AppendFault> {
        let mut plan = self.plan();
        plan.appends += 1;
        let number = plan.appends;
        let scripted = plan.at_append.remove(&number);
        let drawn = plan.drawn.as_mut().and_then(Drawn::append);
        let fault = if plan.full { Some(AppendFault::OutOfSpace) } else { scripted.or(drawn) }?;
        plan.full |= fault == AppendFault::OutOfSpace;
        plan.struck.push(Struck::Append(number, fault));
        Some(fault)
    }

    /// Counts a reading, and says what goes wrong with it.
    pub(super) fn next_read(&self) -> Option<ReadFault> {
        let mut plan = self.plan();
        plan.reads += 1;
        let number = plan.reads;
        let scripted = plan.at_read.remove(&number);
        let drawn = plan.drawn.as_mut().and_then(Drawn::read);
        let fault = scripted.or(drawn)?;
        plan.struck.push(Struck::Read(number, fault));
        Some(fault)
    }

    pub(super) fn refuses_opening(&self) -> bool {
        std::mem::take(&mut self.plan().refuse_opening)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drawn {
    /// `SplitMix64`: small, and the same everywhere.
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
