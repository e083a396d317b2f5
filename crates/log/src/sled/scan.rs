//! The scan of the log on opening, from the end of the kept index, or of all of it: it completes index and
//! frontier, and finds damage. Bodies are not compared with their digests here; every read does that.

use std::collections::VecDeque;

use proto_events::id::{Digest, Position, StreamId};

use crate::api::error::ReadError;
use crate::api::open_work::work_change_in;
use crate::engine::blocks::BlockBuilder;
use crate::engine::head::{Frontier, Head};
use crate::engine::index::Index;
use crate::engine::keys::{Key, parse};
use crate::engine::located_records::{LocatedRecord, located_records_of};
use crate::engine::slot::{IndexedRecord, RecordSlot, StreamEnd, tag};
use crate::limits::APPENDS_REMEMBERED;
use crate::sled::fetch::{LogEntry, TreeAfter};
use crate::sled::index::KeptIndex;

/// The state of the scan.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) index: Index,
    /// The Merkle tree up to the last whole append, or up to the last value behind which no append is open, if the trees of
    /// values are computed ahead.
    pub(crate) frontier: Frontier,
    /// The number of records in whole appends.
    records: u64,
    /// The tree after the value that is being taken, if it was computed ahead.
    tree: Option<TreeAfter>,
    /// The highest epoch of the records read.
    pub(crate) epoch: u64,
    /// The highest ordinal that has spacers.
    pub(crate) last_spaced: Option<u64>,
    /// The sorted blocks of the index to be written.
    pub(crate) blocks: BlockBuilder,
    /// The newest appends, each with the value that it begins in.
    recent: VecDeque<([u8; 16], u32)>,
    /// The last append, while it is not whole yet.
    open: Option<ScannedAppend>,
    next_position: u64,
    next_ordinal: u64,
    head: Option<Head>,
}

#[derive(Debug)]
struct ScannedAppend {
    id: [u8; 16],
    pub(crate) of: u16,
    records: Vec<PendingRecord>,
}

/// A record that waits for the rest of its append.
#[derive(Debug)]
struct PendingRecord {
    stream: String,
    hash: Digest,
    entered: IndexedRecord,
}

/// The reasons why a scan fails.
#[derive(Debug)]
pub(crate) enum ScanError {
    /// The log is damaged.
    Damaged(String),
    /// A newer release wrote a part of the log.
    Newer(String),
    /// The log is shorter than `HEAD` says.
    EndsBefore { head: Position, log: Position },
}

impl From<ReadError> for ScanError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Corrupt { what, position, .. } => Self::Damaged(
                position.map_or(what.clone(), |position| format!("{what} (position {position})")),
            ),
            ReadError::Newer { what, .. } => Self::Newer(what),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl Scan {
    /// Creates a scan that continues after the kept index, and will compare the log with `HEAD`.
    ///
    /// # Errors
    /// [`ScanError::Damaged`] if `HEAD` covers exactly the kept index, but was written for other records.
    pub(crate) fn after(
        kept: Option<KeptIndex>,
        next_block: u64,
        head: Option<Head>,
    ) -> Result<Self, ScanError> {
        let mut scan = Self {
            index: Index::default(),
            frontier: Frontier::default(),
            records: 0,
            tree: None,
            epoch: 0,
            last_spaced: None,
            blocks: BlockBuilder::from_zero(next_block),
            recent: VecDeque::new(),
            open: None,
            next_position: 1,
            next_ordinal: 0,
            head,
        };
        if let Some(KeptIndex { index, mark, builder, epoch }) = kept {
            scan.epoch = epoch;
            scan.next_position = mark.head.position.0 + 1;
            scan.next_ordinal = mark.values;
            scan.frontier = mark.head.frontier;
            scan.records = scan.frontier.size();
            (scan.index, scan.blocks) = (index, builder);
        }
        scan.compare_with_head()?;
        Ok(scan)
    }

    /// Takes the next entry of the tree.
    pub(crate) fn accept_entry(&mut self, entry: LogEntry) -> Result<(), ScanError> {
        let LogEntry { key, value, checked, tree } = entry;
        match parse(&key) {
            Some(Key::Spacer(ordinal)) if value.is_empty() => {
                self.last_spaced = Some(ordinal);
                Ok(())
            }
            Some(Key::Value(ordinal)) => {
                self.tree = tree;
                self.take_value(ordinal, &value, checked)
            }
            _ => Err(ScanError::Damaged(format!("the log has an unknown key: {key:02x?}"))),
        }
    }

    fn take_value(
        &mut self,
        ordinal: u64,
        bytes: &[u8],
        checked: Result<(), String>,
    ) -> Result<(), ScanError> {
        let expected = (self.next_ordinal, self.next_position);
        let mut records = located_records_of(bytes, ordinal, checked)?;
        let first = records.next_position();
        if (ordinal, first.0) != expected {
            return Err(ScanError::Damaged(format!(
                "value {} with position {} is missing; value {ordinal} with position {first} follows",
                expected.0, expected.1
            )));
        }
        self.next_ordinal += 1;
        let located: Vec<_> = (&mut records).collect();
        let names = located.iter().map(|located| located.as_ref().map_or("", |located| located.view.stream));
        let numbers = self.index.numbers_of(names);
        for (located, number) in located.iter().zip(numbers) {
            match located {
                Ok(located) => self.take_record(ordinal, located, number)?,
                Err(error) => return Err(error.clone().into()),
            }
        }
        self.next_position = records.next_position().0;
        if self.next_position == first.0 {
            return Err(ScanError::Damaged(format!("value {ordinal} has no record")));
        }
        self.end_value(ordinal)
    }

    /// Enters the values so far, unless the append at their end continues. Values of such an append hold
    /// nothing else.
    fn end_value(&mut self, ordinal: u64) -> Result<(), ScanError> {
        let begins =
            |record: &PendingRecord| u64::from(record.entered.slot.ordinal) == self.index.next_ordinal();
        let alone = |open: &ScannedAppend| open.records.first().is_some_and(begins);
        match &self.open {
            None => {
                if let Some(tree) = self.tree.take() {
                    self.frontier = tree.whole;
                }
                let Self { index, frontier, blocks, .. } = self;
                let position = index.head();
                blocks.end_group(index.next_ordinal(), || Head { position, frontier: frontier.clone() });
                Ok(())
            }
            Some(open) if alone(open) => Ok(()),
            Some(_) => Err(ScanError::Damaged(format!("an append ends incomplete inside value {ordinal}"))),
        }
    }

    /// Takes the next record. `known` is the number of its stream, if a record before this value has it.
    fn take_record(
        &mut self,
        ordinal: u64,
        located: &LocatedRecord<'_>,
        known: Option<u32>,
    ) -> Result<(), ScanError> {
        let view = &located.view;
        self.epoch = self.epoch.max(view.epoch);
        let wrong = |what: &str| {
            let at = (view.stream, view.first_version, located.position);
            ScanError::Damaged(format!("stream {} at version {} (position {}): {what}", at.0, at.1, at.2))
        };
        let number = known.or_else(|| self.index.number_of(view.stream));
        let end = number.map_or_else(StreamEnd::default, |number| self.index.end_of_number(number));
        // A known name was checked with the stream's first record.
        if end.version.0 == 0 && StreamId::parse(view.stream).is_err() {
            return Err(wrong("its name is not a stream id"));
        }
        if view.first_version.0 != end.version.0 + 1 {
            return Err(wrong(&format!("the stream ends at version {} before this record", end.version)));
        }
        if tag(view.previous) != end.tag {
            return Err(wrong("it does not name the hash of the stream's previous record"));
        }
        let slot = RecordSlot {
            ordinal: u32::try_from(ordinal).map_err(|_| wrong("the ordinal of its value exceeds 32 bits"))?,
            offset: located.entry.offset,
        };
        if !self.add_to_append(slot, number, located) {
            return Err(wrong(
                "it is not the next record of its append, or the previous append is incomplete",
            ));
        }
        self.compare_with_head()
    }

    /// Adds a record to the others of its append, and enters them when the append is whole. Returns false if
    /// the record is not the next one of the append. `number` is that of its stream, if the index has it.
    fn add_to_append(&mut self, slot: RecordSlot, number: Option<u32>, located: &LocatedRecord<'_>) -> bool {
        let view = &located.view;
        let end = StreamEnd::new(view.last_version(), located.entry.hash);
        let entered = IndexedRecord { end, slot, events: view.event_count, work: work_change_in(view) };
        if view.parts == 1 && self.open.is_none() {
            // The most frequent case: nothing needs to be held.
            self.remember(view.set_id, slot.ordinal);
            match number {
                Some(number) => self.index.add_numbered_to_blocks(number, &entered, &mut self.blocks),
                None => self.index.add_to_blocks(view.stream, &entered, &mut self.blocks),
            }
            self.count(located.entry.hash);
            return true;
        }
        let mut open = self.open.take().unwrap_or_else(|| ScannedAppend {
            id: view.set_id,
            of: view.parts,
            records: Vec::new(),
        });
        let next = (open.id, usize::from(open.of), open.records.len());
        if next != (view.set_id, view.parts.into(), view.part.into()) {
            return false;
        }
        let (stream, hash) = (view.stream.to_owned(), located.entry.hash);
        open.records.push(PendingRecord { stream, hash, entered });
        if open.records.len() < usize::from(open.of) {
            self.open = Some(open);
        } else {
            self.enter(open);
        }
        true
    }

    /// Remembers an append for the index, up to the number of newest ones that the index keeps.
    fn remember(&mut self, set_id: [u8; 16], ordinal: u32) {
        if self.recent.len() >= APPENDS_REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((set_id, ordinal));
    }

    fn enter(&mut self, open: ScannedAppend) {
        if let Some(first) = open.records.first() {
            self.remember(open.id, first.entered.slot.ordinal);
        }
        for record in open.records {
            self.index.add_to_blocks(&record.stream, &record.entered, &mut self.blocks);
            self.count(record.hash);
        }
    }

    /// Counts a record of a whole append, and adds it to the tree unless that is computed ahead.
    fn count(&mut self, leaf: Digest) {
        self.records += 1;
        if self.tree.is_none() {
            self.frontier.push(leaf);
        }
    }

    /// Compares the log with `HEAD` at the record up to which `HEAD` was written.
    fn compare_with_head(&self) -> Result<(), ScanError> {
        let Some(head) = &self.head else { return Ok(()) };
        if head.frontier.size() != self.records || self.open.is_some() {
            return Ok(());
        }
        let frontier = match &self.tree {
            Some(tree) => tree.at_head.as_ref(),
            None => Some(&self.frontier),
        };
        if frontier == Some(&head.frontier) && head.position == self.index.head() {
            return Ok(());
        }
        Err(ScanError::Damaged(format!(
            "its first {} records are not those that HEAD was written for (position {}): the records were changed, or HEAD belongs to another log",
            head.frontier.size(),
            head.position
        )))
    }

    /// Ends the scan. Returns the ordinals of values to remove: the values of an append at the end that is not
    /// whole.
    pub(crate) fn finish(&mut self) -> Result<std::ops::Range<u64>, ScanError> {
        self.compare_with_head()?;
        for (set_id, ordinal) in self.recent.drain(..) {
            self.index.remember(set_id, ordinal);
        }
        if let Some(head) = &self.head
            && (head.frontier.size() > self.records || head.position > self.index.head())
        {
            return Err(ScanError::EndsBefore { head: head.position, log: self.index.head() });
        }
        Ok(self.index.next_ordinal()..self.next_ordinal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::error::OpenError;
    use crate::api::reader::EventReader as _;
    use crate::api::store::EventStore as _;
    use crate::sled::{SledOptions, SledStore};
    use crate::testing::conformance::sketch::{Author, stream};

    #[test]
    fn a_head_that_ends_inside_a_value_is_compared_with_the_tree_that_was_computed_ahead() {
        let dir = tempfile::tempdir().unwrap();
        let store = SledStore::open(dir.path()).unwrap();
        let mut author = Author::new(store.fence());
        let appends: Vec<_> =
            (0..200).map(|n| store.append(author.append_one(&stream("s"), &[n; 40]))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for append in appends {
            runtime.block_on(append).unwrap();
        }
        let records = store.read_all(Position(1), usize::MAX).unwrap();
        let leaves: Vec<Digest> = records.iter().map(|stored| stored.hash).collect();
        store.close().unwrap();
        let rebuilt = SledOptions { rebuild_index: true, ..SledOptions::default() };
        for covered in [1, 57, 128, 200] {
            for is_sound in [false, true] {
                let mut head = Head { position: Position(covered as u64), ..Head::default() };
                let first = if is_sound { leaves[0] } else { Digest::compute(b"another log") };
                head.frontier.push(first);
                for leaf in &leaves[1..covered] {
                    head.frontier.push(*leaf);
                }
                head.write(dir.path()).unwrap();
                match SledStore::open_with(dir.path(), rebuilt) {
                    Ok(store) => {
                        assert!(is_sound, "{covered}");
                        store.close().unwrap();
                    }
                    Err(OpenError::Corrupt { what, .. }) => {
                        assert!(!is_sound && what.contains(&format!("first {covered} records")), "{what}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        // The frontier that is written is that of a log without a rebuild.
        let mut whole = Frontier::default();
        for leaf in &leaves {
            whole.push(*leaf);
        }
        assert_eq!(Head::read(dir.path()).unwrap().unwrap().frontier, whole);
    }
}
