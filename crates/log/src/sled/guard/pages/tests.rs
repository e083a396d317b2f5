//! The page table of the guard compared with the one that sled makes of the same log.

use std::fs;
use std::fs::File;
use std::path::Path;

use crate::sled::guard::pages::{PageTable, snapshot_names};
use crate::sled::guard::segment::{SEGMENT_BYTES, put_varint, varint};
use crate::sled::guard::walk::SegmentWalk;

fn open(dir: &Path) -> ::sled::Db {
    let config = ::sled::Config::new().path(dir).segment_size(SEGMENT_BYTES).flush_every_ms(None);
    config.open().unwrap()
}

fn close(db: ::sled::Db, dir: &Path) {
    db.flush().unwrap();
    drop(db);
    File::open(dir.join("db")).unwrap().lock().unwrap();
}

/// Writes, overwrites and removes, so that pages are moved and given up, and segments are used again.
fn work(db: &::sled::Db, dice: &mut u64, rounds: usize) {
    let mut roll = || {
        *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *dice >> 33
    };
    for _ in 0..rounds {
        let tree = db.open_tree([u8::try_from(roll() % 3).unwrap()]).unwrap();
        let key = (roll() % 60).to_be_bytes();
        if roll() % 4 == 0 {
            tree.remove(key).unwrap();
        } else {
            let bytes = [9, 500, 20_000, 60_000][usize::try_from(roll() % 4).unwrap()];
            tree.insert(key, vec![1; bytes]).unwrap();
        }
    }
}

fn our_table(dir: &Path, before: Option<&PageTable>) -> PageTable {
    let mut table = before.cloned().unwrap_or_default();
    let db = File::open(dir.join("db")).unwrap();
    SegmentWalk::from(&db, table.stable.unwrap_or(0)).unwrap().add_to(&mut table);
    table
}

#[test]
fn a_page_table_is_byte_for_byte_the_one_that_sled_makes() {
    for seed in 0..12_usize {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (dir, mut dice, mut before) = (dir.path(), seed as u64, None);
        for life in 0..4_usize {
            let db = open(dir);
            work(&db, &mut dice, [3, 700, 90, 1][(seed + life) % 4]);
            close(db, dir);
            let from_zero = our_table(dir, None);
            let table = our_table(dir, before.as_ref());
            close(open(dir), dir);
            let names = snapshot_names(dir).unwrap();
            let [name] = names.as_slice() else { panic!("{names:?}") };
            let file = fs::read(dir.join(name)).unwrap();
            assert_eq!(format!("snap.{:016X}", table.stable.unwrap()), *name, "seed {seed}, life {life}");
            assert!(table.to_bytes().unwrap() == file, "seed {seed}, life {life}: another table");
            assert!(from_zero == table, "seed {seed}, life {life}: the whole log gives another table");
            assert_eq!(PageTable::parse(&file).unwrap(), table);
            before = Some(table);
        }
    }
}

#[test]
fn numbers_are_written_as_sled_writes_them() {
    for value in [0, 240, 241, 2_287, 2_288, 67_823, 67_824, 1 << 24, u64::from(u32::MAX), u64::MAX] {
        for value in [value.saturating_sub(1), value, value.saturating_add(1)] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(varint(&bytes), Some((value, bytes.len())), "{value}");
        }
    }
}
