//! Reading what sled would read of its log: the segments in their order, each to its last whole message. A read
//! error is an error here; sled takes one for the end of the log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use crate::sled::guard::disk::{read_segment, read_up_to};
use crate::sled::guard::pages::PageTable;
use crate::sled::guard::segment::{
    HEADER_BYTES, Header, PageWrite, RED_ZONE, SEGMENT_BYTES, SEGMENT_LSN, SearchBudget, SegmentMessages,
    header, search, stable_then,
};

/// Most threads that read segments: more do not read faster.
const READERS_MAX: usize = 4;

/// A segment of the part of the log that sled will read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) lsn: u64,
    pub(crate) offset: u64,
    /// Whether the header cannot be read: sled would skip the segment.
    pub(crate) headless: bool,
    /// Whether the header is neither whole nor empty. A header is in one sector, so that no crash tears
    /// it.
    pub(crate) bad: bool,
    /// The highest lsn that was stable when the segment was begun.
    pub(crate) stable: u64,
}

/// The bytes of the shortest message: its checksum, its kind, and three numbers.
const MESSAGE_BYTES_MIN: u64 = 8;

/// The part of the log that sled will read: its segments and their ends, in the log's order.
#[derive(Debug)]
pub(crate) struct SegmentWalk {
    pub(crate) segments: Vec<Segment>,
    pub(crate) ends: Vec<End>,
    /// Two segments with whole messages and one lsn, if there are such: one is a copy.
    pub(crate) doubled: Option<Doubled>,
}

/// The offsets of two segments of one lsn, the one with more whole messages first.
type Doubled = (u64, u64);

impl SegmentWalk {
    /// Reads the log from the segment of this lsn on.
    pub(crate) fn from(db: &File, from: u64) -> io::Result<Self> {
        let (segments, doubled) = segments(db, from / SEGMENT_LSN * SEGMENT_LSN)?;
        let ends = segment_ends(db, &segments)?;
        Ok(Self { segments, ends, doubled })
    }

    /// Removes the segments without a header: sled skips them.
    pub(crate) fn without_headless(self) -> Self {
        let both = self.segments.into_iter().zip(self.ends);
        let (segments, ends) = both.filter(|(segment, _)| !segment.headless).unzip();
        Self { segments, ends, doubled: self.doubled }
    }

    /// Keeps the segments up to the first one that is not filled or does not follow: the others are being written.
    pub(crate) fn filled(self) -> Self {
        let tail = self.tail();
        let (mut segments, mut ends): (Vec<Segment>, Vec<End>) = (Vec::new(), Vec::new());
        for (segment, mut end) in self.segments.into_iter().zip(self.ends) {
            let follows = segments.last().is_none_or(|last| last.lsn + SEGMENT_LSN == segment.lsn);
            if segment.headless || !end.full || (segment.lsn > tail && !follows) {
                break;
            }
            // The next one is begun, so that the padding of this one stays.
            end.last_at = SEGMENT_BYTES;
            segments.push(segment);
            ends.push(end);
        }
        // The last one may still be the last of the log, whose padding is overwritten by the next opening.
        segments.pop();
        ends.pop();
        Self { segments, ends, doubled: self.doubled }
    }

    /// Returns the first lsn of the segments of which sled accepts none after a missing one.
    pub(crate) fn tail(&self) -> u64 {
        let stable = self.segments.iter().map(|segment| segment.stable).max();
        stable.unwrap_or(0) / SEGMENT_LSN * SEGMENT_LSN
    }

    /// Returns the number of a page that no database of this size has, if a message names one: each page has a message in the file.
    /// It would be taken as the length of the page table.
    pub(crate) fn impossible_page(&self, db: &File) -> io::Result<Option<u64>> {
        let most = db.metadata()?.len() / MESSAGE_BYTES_MIN;
        Ok(self.ends.iter().flat_map(|end| &end.writes).map(|write| write.page).find(|page| *page > most))
    }

    /// Adds all that was read to a page table, as sled does. Not for a log with a tear.
    pub(crate) fn add_to(&self, table: &mut PageTable) {
        for end in &self.ends {
            end.writes.iter().for_each(|write| table.apply(write));
        }
        let Some((last, end)) = self.segments.last().zip(self.ends.last()) else { return };
        (table.stable, table.active) = if end.last_at + RED_ZONE >= SEGMENT_BYTES {
            (Some(last.lsn + SEGMENT_LSN), None)
        } else {
            (Some(last.lsn + end.last_at as u64), Some(last.offset))
        };
    }
}

/// Returns the segments from this lsn on, in the log's order, and two with one lsn.
fn segments(db: &File, from: u64) -> io::Result<(Vec<Segment>, Option<Doubled>)> {
    let bytes = db.metadata()?.len();
    let mut found: BTreeMap<u64, Segment> = BTreeMap::new();
    let mut doubled = None;
    for offset in (0..bytes).step_by(SEGMENT_BYTES) {
        let mut head = [0; HEADER_BYTES];
        if read_up_to(db, &mut head, offset)? < HEADER_BYTES {
            continue;
        }
        let state = header(&head);
        let lsn = match state {
            Header::Good(lsn) => Some(lsn),
            Header::Blank | Header::Bad => part_of(&read_segment(db, offset)?, state, offset),
        };
        if let Some(lsn) = lsn.filter(|lsn| *lsn >= from) {
            let headless = !matches!(state, Header::Good(_));
            let stable = if headless { 0 } else { stable_then(&head) };
            let segment = Segment { lsn, offset, headless, bad: state == Header::Bad, stable };
            // Of two segments with the same lsn, the one with a header is valid.
            let known = found.entry(lsn).or_insert(segment);
            if !headless && !known.headless && known.offset != offset {
                let (one, other) = (end_of_messages(db, known)?, end_of_messages(db, &segment)?);
                if one > HEADER_BYTES && other > HEADER_BYTES {
                    let places = (known.offset, offset);
                    doubled = doubled.or(Some(if one >= other { places } else { (places.1, places.0) }));
                }
            }
            if !headless {
                *known = segment;
            }
        }
    }
    Ok((found.into_values().collect(), doubled))
}

/// Returns where the whole messages of a segment end: at its header, without any.
fn end_of_messages(db: &File, segment: &Segment) -> io::Result<usize> {
    let bytes = read_segment(db, segment.offset)?;
    let messages = SegmentMessages::new(&bytes, segment.lsn / SEGMENT_LSN, HEADER_BYTES);
    Ok(messages.map(|message| message.next).last().unwrap_or(HEADER_BYTES))
}

/// Returns the lsn of a segment without a header, determined from its messages. An unknown one sorts after
/// all others; `None` if the segment was cleared.
fn part_of(segment: &[u8], state: Header, offset: u64) -> Option<u64> {
    if state == Header::Blank && segment.iter().all(|byte| *byte == 0) {
        return None;
    }
    let number = search(segment, HEADER_BYTES, None, &mut SearchBudget::default()).map(|(_, number)| number);
    Some(number.and_then(|number| number.checked_mul(SEGMENT_LSN)).unwrap_or(u64::MAX - offset))
}

/// The end of a segment's messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct End {
    /// The offset at which the whole messages end.
    pub(crate) at: usize,
    /// The end without the padding of a filled segment, which sled overwrites in the last one.
    last_at: usize,
    /// Whether the segment is filled.
    pub(crate) full: bool,
    /// Whether anything was written after the messages.
    pub(crate) leftover: bool,
    /// The changes of pages that the messages record.
    writes: Vec<PageWrite>,
}

/// Returns the ends of all segments. Most of the time of the guard is spent here.
fn segment_ends(db: &File, segments: &[Segment]) -> io::Result<Vec<End>> {
    let readers = std::thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX);
    let share = segments.len().div_ceil(readers).max(1);
    std::thread::scope(|scope| {
        let shares: Vec<_> = segments.chunks(share).map(|share| scope.spawn(|| ends_of(db, share))).collect();
        let mut ends = Vec::with_capacity(segments.len());
        for share in shares {
            ends.extend(
                share
                    .join()
                    .unwrap_or_else(|_| Err(io::Error::other("a thread that read segments panicked")))?,
            );
        }
        Ok(ends)
    })
}

fn ends_of(db: &File, segments: &[Segment]) -> io::Result<Vec<End>> {
    let mut buffer = vec![0; SEGMENT_BYTES];
    let end = |segment: &Segment| {
        if segment.headless {
            return Ok(End::default());
        }
        let filled = read_up_to(db, &mut buffer, segment.offset)?;
        let bytes = buffer.get(..filled).unwrap_or_default();
        let mut messages = SegmentMessages::new(bytes, segment.lsn / SEGMENT_LSN, HEADER_BYTES);
        let (mut writes, mut last_at) = (Vec::new(), HEADER_BYTES);
        for message in messages.by_ref().filter(|message| !message.is_cap()) {
            last_at = message.next;
            writes.extend(message.page_write(segment.lsn, segment.offset));
        }
        let rest = bytes.get(messages.at..).unwrap_or_default();
        // A reused segment holds data of its first use after its messages until it is filled.
        let first_life = || {
            search(bytes, messages.at, None, &mut SearchBudget::default())
                .is_some_and(|(_, number)| number != messages.number)
        };
        let leftover = rest.iter().any(|byte| *byte != 0) && !first_life();
        Ok(End { at: messages.at, last_at, full: messages.full, leftover, writes })
    };
    segments.iter().map(end).collect()
}
