//! The index on disk: what it takes in of each record, in the order of the log, cut into runs of at most 56 KiB. So it
//! is loaded in one pass, and a run is written once in a few thousand records. A watermark says how much of the log
//! the runs cover; what lies behind it is read from the log. All of it may be deleted.
//!
//! A run, integers big-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | CRC32C of all that follows |
//! | 8 | number of the run's first record in the log, from 0 |
//!
//! and for each record:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | number of its stream, in the order of the streams' first records, from 0 |
//! | 2 + n | the stream's name, if this is its first record |
//! | 4 | ordinal of its value |
//! | 2 | where in the value it begins |
//! | 2 | how many events it holds |
//! | 1 | work: 0 as before, 1 open, 2 none |
//! | 8 | the beginning of its leaf hash |

use super::head::{Head, checksum_line};
use super::index::{Index, Row, Slot};
use super::open_work::Work;

/// Largest run, in bytes: like a value of the log it must stay inline in its leaf.
const RUN_BYTES_MAX: usize = 56 * 1024;

/// Size from which a run is ended with its group, in bytes: so that most are nearly full, and none is cut in a group.
const RUN_BYTES_FULL: usize = 40 * 1024;

const CRC_BYTES: usize = 4;

/// First line of a watermark.
const TITLE: &str = "taskreel index 1";

/// How much of the log the runs cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watermark {
    /// Ordinal of the first run: those before it are of an index that was given up.
    pub(super) first: u64,
    /// Ordinal behind the last one.
    pub(super) runs: u64,
    /// How many values of the log.
    pub(super) values: u64,
    /// Where the log stood behind them.
    pub(super) head: Head,
}

impl Watermark {
    pub(super) fn to_text(&self) -> String {
        let mut text = format!(
            "{TITLE}\nfirst {}\nruns {}\nvalues {}\n{}",
            self.first,
            self.runs,
            self.values,
            self.head.to_text()
        );
        let crc = crc32c::crc32c(text.as_bytes());
        text.push_str(&checksum_line(crc));
        text
    }

    /// `None` if the text is not what was written.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (body, checksum) = text.split_at_checked(text.rfind("checksum ")?)?;
        if checksum != checksum_line(crc32c::crc32c(body.as_bytes())) {
            return None;
        }
        let (first, rest) = body.strip_prefix(TITLE)?.strip_prefix("\nfirst ")?.split_once("\nruns ")?;
        let (runs, rest) = rest.split_once("\nvalues ")?;
        let (values, head) = rest.split_once('\n')?;
        let (first, runs, values) = (first.parse().ok()?, runs.parse().ok()?, values.parse().ok()?);
        Some(Self { first, runs, values, head: Head::parse(head)? })
    }
}

/// Cuts what the index takes in into runs.
#[derive(Debug)]
pub(super) struct RunBuilder {
    bytes: Vec<u8>,
    first_run: u64,
    /// Ordinal of the run that is being built.
    next_run: u64,
    records: u64,
    finished: Vec<(u64, Vec<u8>)>,
    mark: Option<Watermark>,
}

impl RunBuilder {
    /// Begins with this ordinal.
    pub(super) fn from_zero(first_run: u64) -> Self {
        Self {
            bytes: Vec::new(),
            first_run,
            next_run: first_run,
            records: 0,
            finished: Vec::new(),
            mark: None,
        }
    }

    /// Goes on behind what is kept.
    pub(super) fn behind(mark: &Watermark) -> Self {
        let records = mark.head.frontier.size();
        Self { next_run: mark.runs, records, ..Self::from_zero(mark.first) }
    }

    /// Adds the log's next record; the name of its stream, if this is its first.
    pub(super) fn push(&mut self, row: &Row, name: Option<&str>) {
        let needed = 21 + name.map_or(0, |name| 2 + name.len());
        if self.bytes.len() + needed > RUN_BYTES_MAX {
            self.cut();
        }
        if self.bytes.is_empty() {
            self.bytes.resize(CRC_BYTES, 0);
            self.bytes.extend_from_slice(&self.records.to_be_bytes());
        }
        let out = &mut self.bytes;
        out.extend_from_slice(&row.stream.to_be_bytes());
        if let Some(name) = name {
            // Names come from records, whose texts have at most 65,535 bytes.
            out.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        out.extend_from_slice(&row.slot.ordinal.to_be_bytes());
        out.extend_from_slice(&row.slot.offset.to_be_bytes());
        out.extend_from_slice(&row.events.to_be_bytes());
        out.push(match row.work {
            Work::Same => 0,
            Work::Open => 1,
            Work::None => 2,
        });
        out.extend_from_slice(&row.tag.to_be_bytes());
        self.records += 1;
    }

    /// All records of the values so far were added, and every append among them is whole: the one place where the
    /// runs may end.
    pub(super) fn end_group(&mut self, values: u64, head: impl FnOnce() -> Head) {
        if self.bytes.len() >= RUN_BYTES_FULL {
            self.cut();
            let (first, runs) = (self.first_run, self.next_run);
            self.mark = Some(Watermark { first, runs, values, head: head() });
        }
    }

    /// Takes the runs that are ready to be written, with their ordinals.
    pub(super) fn take_finished(&mut self) -> Vec<(u64, Vec<u8>)> {
        std::mem::take(&mut self.finished)
    }

    /// Takes the newest watermark. It holds once the runs before it are written.
    pub(super) fn take_mark(&mut self) -> Option<Watermark> {
        self.mark.take()
    }

    fn cut(&mut self) {
        let mut run = std::mem::take(&mut self.bytes);
        let crc = crc32c::crc32c(run.get(CRC_BYTES..).unwrap_or_default());
        if let Some(place) = run.first_chunk_mut::<CRC_BYTES>() {
            *place = crc.to_be_bytes();
        }
        self.finished.push((self.next_run, run));
        self.next_run += 1;
    }
}

/// Takes a run into the index that ends where the run begins. Says what is wrong otherwise; the index is of no use
/// then.
pub(super) fn load(index: &mut Index, run: &[u8]) -> Result<(), String> {
    let (crc, body) = run.split_first_chunk::<CRC_BYTES>().ok_or("it is too short")?;
    if u32::from_be_bytes(*crc) != crc32c::crc32c(body) {
        return Err("its checksum is wrong".to_owned());
    }
    let (first, mut rest) = body.split_first_chunk::<8>().ok_or("it is too short")?;
    if u64::from_be_bytes(*first) != index.records() as u64 {
        return Err(format!("it does not go on at record {}", index.records()));
    }
    while !rest.is_empty() {
        rest = load_row(index, rest).ok_or("it ends within a record")?;
    }
    Ok(())
}

fn load_row<'a>(index: &mut Index, rest: &'a [u8]) -> Option<&'a [u8]> {
    let (stream, mut rest) = rest.split_first_chunk::<4>()?;
    let stream = u32::from_be_bytes(*stream);
    let mut name = None;
    if stream as usize == index.streams() {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (text, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
        name = Some(std::str::from_utf8(text).ok()?);
        rest = after;
    }
    let (ordinal, rest) = rest.split_first_chunk::<4>()?;
    let (offset, rest) = rest.split_first_chunk::<2>()?;
    let (events, rest) = rest.split_first_chunk::<2>()?;
    let ([work], rest) = rest.split_first_chunk::<1>()?;
    let (tag, rest) = rest.split_first_chunk::<8>()?;
    let row = Row {
        stream,
        slot: Slot { ordinal: u32::from_be_bytes(*ordinal), offset: u16::from_be_bytes(*offset) },
        events: u16::from_be_bytes(*events),
        tag: u64::from_be_bytes(*tag),
        work: match work {
            0 => Work::Same,
            1 => Work::Open,
            2 => Work::None,
            _ => return None,
        },
    };
    index.add_row(&row, name).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::index::Entered;
    use proto_events::id::{Digest, Position, Version};

    /// An index of many records over many values and groups, and the runs of it.
    fn built(records: u32) -> (Index, Vec<Vec<u8>>, Option<Watermark>) {
        let (mut index, mut builder) = (Index::default(), RunBuilder::from_zero(0));
        for n in 0..records {
            let name = format!("task-a/{}", n * n % 997);
            let version = Version(index.end_of(&name).version.0 + u64::from(n % 5) + 1);
            let tag = u64::from(n) << 20;
            let work = [Work::Same, Work::Open, Work::None][n as usize % 3];
            let slot = Slot { ordinal: n / 50, offset: u16::try_from(n % 50 * 1_000 + 16).unwrap() };
            let events = u16::try_from(n % 5 + 1).unwrap();
            let mut hash = Digest::of(b"");
            hash.0[..8].copy_from_slice(&tag.to_be_bytes());
            let entered =
                Entered { end: super::super::index::StreamEnd::of(version, hash), slot, events, work };
            index.add_to_runs(&name, &entered, &mut builder);
            if n % 50 == 49 {
                let position = index.head();
                builder.end_group(index.next_ordinal(), || Head { position, ..Head::default() });
            }
        }
        let mark = builder.take_mark();
        (index, builder.take_finished().into_iter().map(|(_, run)| run).collect(), mark)
    }

    #[test]
    fn a_loaded_index_answers_as_the_one_that_was_written() {
        let (index, runs, mark) = built(20_000);
        let mark = mark.unwrap();
        assert_eq!(mark.runs, runs.len() as u64);
        assert!(runs.len() > 3 && runs.iter().all(|run| run.len() <= RUN_BYTES_MAX));
        let mut loaded = Index::default();
        for run in &runs {
            load(&mut loaded, run).unwrap();
        }
        assert_eq!((loaded.next_ordinal(), loaded.head()), (mark.values, mark.head.position));
        // The rest, as opening takes it from the log.
        let (again, _, _) = built(u32::try_from(loaded.records()).unwrap());
        assert_eq!(loaded.open_work(), again.open_work());
        for n in 0..997 {
            let name = format!("task-a/{n}");
            assert_eq!(
                (loaded.end_of(&name), loaded.slots_of(&name)),
                (again.end_of(&name), again.slots_of(&name))
            );
        }
        assert_eq!(loaded.around(Position(30_000)), again.around(Position(30_000)));
        assert!(index.records() > loaded.records());
    }

    #[test]
    fn a_damaged_run_or_one_out_of_order_is_refused() {
        let (_, runs, _) = built(5_000);
        load(&mut Index::default(), &runs[1]).unwrap_err();
        for bit in (0..runs[0].len() * 8).step_by(1_013) {
            let mut bad = runs[0].clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            load(&mut Index::default(), &bad).unwrap_err();
        }
        for length in (0..runs[0].len()).step_by(997) {
            load(&mut Index::default(), &runs[0][..length]).unwrap_err();
        }
    }

    #[test]
    fn a_watermark_comes_back_and_a_changed_one_does_not() {
        let mark = built(5_000).2.unwrap();
        let text = mark.to_text();
        assert_eq!(Watermark::parse(&text), Some(mark));
        for at in 0..text.len() {
            let mut bad = text.clone().into_bytes();
            bad[at] ^= 1;
            assert_eq!(String::from_utf8(bad).ok().and_then(|bad| Watermark::parse(&bad)), None, "byte {at}");
        }
    }
}
