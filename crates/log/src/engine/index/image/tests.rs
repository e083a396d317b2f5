//! The image of an index, beside the index that was written and one that took the same records.

use proto_events::id::{Digest, Position};

use super::*;
use crate::api::open_work::WorkChange;
use crate::engine::index::load::{BlockParser, enter_after_image};
use crate::engine::index::stream_listing::open_work;
use crate::engine::slot::{BlockRecord, IndexedRecord, RecordSlot};

const LOG: LogId = LogId([7; 16]);

/// An index, the builder of its blocks, and the end of its log.
#[derive(Default)]
struct Log {
    index: Index,
    blocks: Option<BlockBuilder>,
    head: Head,
    finished: Vec<(u64, Vec<u8>)>,
}

impl Log {
    /// Adds records in groups of fifty to a value.
    fn grow(&mut self, to: u32) {
        let blocks = self.blocks.get_or_insert_with(|| BlockBuilder::from_zero(3));
        for n in u32::try_from(self.index.records()).unwrap()..to {
            let name = format!("task-a/{}", u64::from(n) * u64::from(n) % 4_999);
            let version = Version(self.index.end_of(&name).version.0 + u64::from(n % 5) + 1);
            let slot = RecordSlot { ordinal: n / 50, offset: u16::try_from(n % 50 * 1_000 + 16).unwrap() };
            let work = [WorkChange::Unchanged, WorkChange::Opened, WorkChange::Ended][n as usize % 3];
            let (hash, events) = (Digest::compute(&n.to_be_bytes()), u16::try_from(n % 5 + 1).unwrap());
            let end = StreamEnd::new(version, hash);
            self.index.add_to_blocks(&name, &IndexedRecord { end, slot, events, work }, blocks);
            self.head.frontier.push(hash);
            self.head.position = self.index.head();
            if n % 50 == 49 {
                blocks.end_group(self.index.next_ordinal(), || self.head.clone());
            }
        }
        self.finished.append(&mut blocks.take_finished());
    }

    fn image(&self) -> Vec<u8> {
        encode(LOG, &self.index, self.blocks.as_ref().unwrap(), self.head.clone())
    }
}

fn grown(records: u32) -> Log {
    let mut log = Log::default();
    log.grow(records);
    log
}

fn assert_same(one: &Index, other: &Index) {
    assert_eq!((one.records(), one.streams(), one.head()), (other.records(), other.streams(), other.head()));
    assert_eq!((one.next_ordinal(), one.last()), (other.next_ordinal(), other.last()));
    assert_eq!(open_work(&|question| question(one)), open_work(&|question| question(other)));
    for n in 0..4_999 {
        let name = format!("task-a/{n}");
        assert_eq!(one.number_of(&name), other.number_of(&name));
        assert_eq!((one.end_of(&name), one.places_of(&name)), (other.end_of(&name), other.places_of(&name)));
    }
    for position in (1..=one.head().0).step_by(977) {
        assert_eq!(one.value_range_for(Position(position)), other.value_range_for(Position(position)));
    }
}

#[test]
fn an_index_read_from_its_image_answers_as_the_one_that_was_written_and_goes_on_with_the_same_blocks() {
    for records in [0, 50, 1_450, 20_000] {
        let mut log = grown(records);
        let Image { index, mark, block } = decode(LOG, &log.image()).unwrap();
        assert_same(&index, &log.index);
        let blocks = BlockBuilder::after(&mark, index.streams()).with_open_block(block);
        let mut again = Log { index, blocks: Some(blocks), head: log.head.clone(), finished: Vec::new() };
        log.finished.clear();
        log.grow(records + 9_000);
        again.grow(records + 9_000);
        assert_same(&again.index, &log.index);
        assert_eq!(again.finished, log.finished);
        assert_eq!(again.image(), log.image());
    }
}

#[test]
fn blocks_that_were_finished_after_an_image_complete_it() {
    for records in [100, 1_450, 9_950] {
        let mut log = grown(records);
        let Image { mut index, mark, block } = decode(LOG, &log.image()).unwrap();
        log.grow(records + 12_000);
        let newest = log.blocks.as_mut().unwrap().take_mark().unwrap();
        let later = log.finished.iter().filter(|(ordinal, _)| (mark.blocks..newest.blocks).contains(ordinal));
        let mut parser = BlockParser::after(usize::try_from(block.first_stream).unwrap());
        for (_, block) in later {
            enter_after_image(&mut index, &parser.parse(block).unwrap()).unwrap();
        }
        let covered = u32::try_from(newest.head.frontier.size()).unwrap();
        assert!(covered > records + 8_000);
        assert_same(&index, &grown(covered).index);
    }
}

#[test]
fn a_block_that_does_not_follow_or_has_other_streams_does_not_complete_an_image() {
    let (log, whole) = (grown(500), grown(12_000));
    let mut parser = BlockParser::default();
    let parsed: Vec<_> = whole.finished.iter().map(|(_, block)| parser.parse(block).unwrap()).collect();
    let enter = |block| enter_after_image(&mut decode(LOG, &log.image()).unwrap().index, block);
    let next = decode(LOG, &log.image()).unwrap().mark.blocks - 3;
    assert!(parsed.len() > 5 && (0..).zip(&parsed).all(|(at, block)| enter(block).is_ok() == (at == next)));
    // Of one log the first block has these streams, of another it has others.
    let mut other = BlockBuilder::from_zero(3);
    for n in 0..2_000_u32 {
        let slot = RecordSlot { ordinal: n / 50, offset: u16::try_from(n % 50 * 1_000 + 16).unwrap() };
        let (tag, work) = (u64::from(n), WorkChange::Unchanged);
        let record = BlockRecord { stream: n, slot, events: 1, tag, work };
        other.push(&record, Some(&format!("task-b/{n}")));
    }
    other.end_group(40, Head::default);
    let block = other.take_finished().remove(0).1;
    assert!(enter(&BlockParser::default().parse(&block).unwrap()).unwrap_err().contains("other streams"));
}

#[test]
fn an_image_that_was_changed_or_cut_or_is_of_another_log_is_refused() {
    let image = grown(3_000).image();
    decode(LogId([8; 16]), &image).unwrap_err();
    for length in (0..image.len()).step_by(331) {
        decode(LOG, &image[..length]).unwrap_err();
    }
    for bit in (0..image.len() * 8).step_by(1_013) {
        let mut bad = image.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        decode(LOG, &bad).unwrap_err();
    }
}

#[test]
fn an_image_with_a_right_checksum_and_any_wrong_byte_is_refused_or_answers_without_a_hang() {
    let image = grown(150).image();
    for at in 4..image.len() {
        let mut bad = image.clone();
        bad[at] ^= 0xff;
        let crc = crc32c::crc32c(&bad[4..]);
        bad[..4].copy_from_slice(&crc.to_le_bytes());
        let Ok(Image { index, .. }) = decode(LOG, &bad) else { continue };
        for n in 0..151_u64 {
            let _ = index.places_of(&format!("task-a/{}", n * n % 4_999));
        }
    }
}

#[test]
fn an_image_is_due_after_a_quarter_of_what_the_last_one_covers() {
    let index = grown(40_000).index;
    assert!(is_due(&index, 0) && is_due(&index, 20_000) && !is_due(&index, 32_001));
    assert!(!is_due(&grown(16_000).index, 0));
}
