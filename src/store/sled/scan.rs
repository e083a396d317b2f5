//! The scan of the log on opening, from where the kept index ends, or of all of it: it completes index and frontier, and
//! finds damage. Bodies are not compared with their digests here; every reading does that.

use std::collections::VecDeque;

use proto_events::id::{Digest, Position, StreamId};

use crate::limits::APPENDS_REMEMBERED;
use crate::store::ReadError;
use crate::store::head::{Frontier, Head};
use crate::store::index::{Entered, Index, Slot, StreamEnd, tag};
use crate::store::keys::{Key, parse};
use crate::store::open_work::work_of;
use crate::store::reading::{Located, walk};
use crate::store::runs::RunBuilder;

use super::index::Kept;

/// What the scan has found.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) index: Index,
    pub(super) frontier: Frontier,
    /// The highest ordinal that has spacers.
    pub(super) last_spaced: Option<u64>,
    /// What will be written of the index.
    pub(super) runs: RunBuilder,
    /// The newest appends, each with the value that it begins in.
    lately: VecDeque<([u8; 16], u32)>,
    /// An append that is not whole yet.
    open: Option<OpenSet>,
    next_position: u64,
    next_ordinal: u64,
    head: Option<Head>,
}

#[derive(Debug)]
struct OpenSet {
    id: [u8; 16],
    of: u16,
    records: Vec<Held>,
}

/// A record that waits for the rest of its append.
#[derive(Debug)]
struct Held {
    stream: String,
    hash: Digest,
    entered: Entered,
}

/// Why the scan cannot be accepted.
#[derive(Debug)]
pub(super) enum ScanError {
    /// Damage.
    Damaged(String),
    /// The log is shorter than `HEAD` says.
    EndsBefore { head: Position, log: Position },
}

impl From<ReadError> for ScanError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Corrupt { what, position, .. } => Self::Damaged(
                position.map_or(what.clone(), |position| format!("{what} (position {position})")),
            ),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl Scan {
    /// A scan that goes on behind what was kept of the index, and will compare the log with what `HEAD` said of it.
    ///
    /// # Errors
    /// [`ScanError::Damaged`] if `HEAD` was written there for other records.
    pub(super) fn behind(kept: Option<Kept>, next_run: u64, head: Option<Head>) -> Result<Self, ScanError> {
        let mut scan = Self {
            index: Index::default(),
            frontier: Frontier::default(),
            last_spaced: None,
            runs: RunBuilder::from_zero(next_run),
            lately: VecDeque::new(),
            open: None,
            next_position: 1,
            next_ordinal: 0,
            head,
        };
        if let Some(Kept { index, mark, builder }) = kept {
            scan.next_position = mark.head.position.0 + 1;
            scan.next_ordinal = mark.values;
            scan.frontier = mark.head.frontier;
            (scan.index, scan.runs) = (index, builder);
        }
        scan.compare_with_head()?;
        Ok(scan)
    }

    /// Whether `HEAD` is from before the end of what was kept of the index, so that nothing here can be compared
    /// with it.
    pub(super) fn head_is_older(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.frontier.size() < self.frontier.size())
    }

    /// Takes the next key of the tree.
    pub(super) fn take(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), ScanError> {
        match parse(key) {
            Some(Key::Spacer(ordinal)) if bytes.is_empty() => {
                self.last_spaced = Some(ordinal);
                Ok(())
            }
            Some(Key::Value(ordinal)) => self.take_value(ordinal, bytes),
            _ => Err(ScanError::Damaged(format!("the log holds a key that is none: {key:02x?}"))),
        }
    }

    fn take_value(&mut self, ordinal: u64, bytes: &[u8]) -> Result<(), ScanError> {
        let expected = (self.next_ordinal, self.next_position);
        let mut records = walk(bytes, ordinal)?;
        let first = records.next_position();
        if (ordinal, first.0) != expected {
            return Err(ScanError::Damaged(format!(
                "value {} with position {} is missing; value {ordinal} with position {first} follows",
                expected.0, expected.1
            )));
        }
        self.next_ordinal += 1;
        for located in &mut records {
            self.take_record(ordinal, &located?)?;
        }
        self.next_position = records.next_position().0;
        if self.next_position == first.0 {
            return Err(ScanError::Damaged(format!("value {ordinal} holds no record")));
        }
        self.end_value(ordinal)
    }

    /// Enters the values so far, unless the append at their end goes on. Such values hold nothing else.
    fn end_value(&mut self, ordinal: u64) -> Result<(), ScanError> {
        let begins = |held: &Held| u64::from(held.entered.slot.ordinal) == self.index.next_ordinal();
        let alone = |open: &OpenSet| open.records.first().is_some_and(begins);
        match &self.open {
            None => {
                let Self { index, frontier, runs, .. } = self;
                let position = index.head();
                runs.end_group(index.next_ordinal(), || Head { position, frontier: frontier.clone() });
                Ok(())
            }
            Some(open) if alone(open) => Ok(()),
            Some(_) => Err(ScanError::Damaged(format!("an append breaks off inside value {ordinal}"))),
        }
    }

    fn take_record(&mut self, ordinal: u64, located: &Located<'_>) -> Result<(), ScanError> {
        let view = &located.view;
        let wrong = |what: &str| {
            let at = (view.stream, view.first_version, located.position);
            ScanError::Damaged(format!("stream {} at version {} (position {}): {what}", at.0, at.1, at.2))
        };
        let end = self.index.end_of(view.stream);
        // A name that is known was looked at with the stream's first record.
        if end.version.0 == 0 && StreamId::parse(view.stream).is_err() {
            return Err(wrong("its name is no stream id"));
        }
        if view.first_version.0 != end.version.0 + 1 {
            return Err(wrong(&format!("the stream ends at version {} before it", end.version)));
        }
        if tag(view.previous) != end.tag {
            return Err(wrong("it does not name the hash of the stream's record before it"));
        }
        let slot = Slot {
            ordinal: u32::try_from(ordinal).map_err(|_| wrong("it is in a value too many"))?,
            offset: located.entry.offset,
        };
        if !self.hold(slot, located) {
            return Err(wrong(
                "it is not the next record of its append, or the append before it is not whole",
            ));
        }
        self.compare_with_head()
    }

    /// Puts a record with the others of its append, and enters them when they are all there. Answers whether it is
    /// the next one.
    fn hold(&mut self, slot: Slot, located: &Located<'_>) -> bool {
        let view = &located.view;
        let end = StreamEnd::of(view.last_version(), located.entry.hash);
        let entered = Entered { end, slot, events: view.event_count, work: work_of(view) };
        if view.parts == 1 && self.open.is_none() {
            // By far the most: nothing needs to be held.
            self.remember(view.set_id, slot.ordinal);
            self.index.add_to_runs(view.stream, &entered, &mut self.runs);
            self.frontier.push(located.entry.hash);
            return true;
        }
        let mut open = self.open.take().unwrap_or_else(|| OpenSet {
            id: view.set_id,
            of: view.parts,
            records: Vec::new(),
        });
        let next = (open.id, usize::from(open.of), open.records.len());
        if next != (view.set_id, view.parts.into(), view.part.into()) {
            return false;
        }
        let (stream, hash) = (view.stream.to_owned(), located.entry.hash);
        open.records.push(Held { stream, hash, entered });
        if open.records.len() < usize::from(open.of) {
            self.open = Some(open);
        } else {
            self.enter(open);
        }
        true
    }

    /// Notes an append for the index, which hears of the newest ones only.
    fn remember(&mut self, set_id: [u8; 16], ordinal: u32) {
        if self.lately.len() >= APPENDS_REMEMBERED {
            self.lately.pop_front();
        }
        self.lately.push_back((set_id, ordinal));
    }

    fn enter(&mut self, open: OpenSet) {
        if let Some(first) = open.records.first() {
            self.remember(open.id, first.entered.slot.ordinal);
        }
        for held in open.records {
            self.index.add_to_runs(&held.stream, &held.entered, &mut self.runs);
            self.frontier.push(held.hash);
        }
    }

    /// Compares the log with `HEAD` at the record up to which `HEAD` was written.
    fn compare_with_head(&self) -> Result<(), ScanError> {
        let Some(head) = &self.head else { return Ok(()) };
        let reached = head.frontier.size() == self.frontier.size() && self.open.is_none();
        if !reached || (head.frontier == self.frontier && head.position == self.index.head()) {
            return Ok(());
        }
        Err(ScanError::Damaged(format!(
            "its first {} records are not those that HEAD was written for (position {}): they were changed, or HEAD is another log's",
            head.frontier.size(),
            head.position
        )))
    }

    /// Ends the scan. Answers the ordinals of values to remove: those of an append at the end that is not whole.
    pub(super) fn finish(&mut self) -> Result<std::ops::Range<u64>, ScanError> {
        self.compare_with_head()?;
        for (set_id, ordinal) in self.lately.drain(..) {
            self.index.remember(set_id, ordinal);
        }
        if let Some(head) = &self.head
            && (head.frontier.size() > self.frontier.size() || head.position > self.index.head())
        {
            return Err(ScanError::EndsBefore { head: head.position, log: self.index.head() });
        }
        Ok(self.index.next_ordinal()..self.next_ordinal)
    }
}
