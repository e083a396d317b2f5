//! Values read past the database, beside those that the database returns.

use std::fs::OpenOptions;
use std::sync::atomic::{AtomicBool, Ordering};

use proto_events::id::{Position, Version};

use super::*;
use crate::api::durability::Durability;
use crate::api::page::Page;
use crate::api::reader::EventReader as _;
use crate::api::record::StoredRecord;
use crate::api::scan::Compare;
use crate::api::store::EventStore as _;
use crate::engine::values::Values as _;
use crate::sled::database::open_database;
use crate::sled::guard::disk::write_at;
use crate::sled::guard::walk::SegmentWalk;
use crate::sled::options::SledOptions;
use crate::sled::store::SledStore;
use crate::testing::conformance::sketch::{Author, ok, stream};

/// The values of the log: several segments.
const VALUES: u64 = 1_500;
const BODY_BYTES: usize = 6_000;

/// Appends values of one record each, now and then with a body outside its record, and closes the log.
fn write(dir: &Path, values: std::ops::Range<u64>) {
    let options = SledOptions { durability: Some(Durability::Os), ..SledOptions::default() };
    let store = ok(SledStore::open_with(dir, options));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut author = Author::new(store.fence()).with_sets_from(values.start + 1);
    for at in values {
        let name = if at % 9 == 0 { "other" } else { "long" };
        let bytes = if at % 400 == 399 { 200_000 } else { BODY_BYTES };
        ok(runtime
            .block_on(store.append(author.append_one(&stream(name), &vec![at.to_le_bytes()[0]; bytes]))));
    }
    ok(store.close());
}

/// Returns the page table at the end of a log that nobody has open.
fn table(dir: &Path) -> PageTable {
    let mut table = PageTable::default();
    let walk = SegmentWalk::from(&File::open(dir.join(DATA_FILE)).unwrap(), 0).unwrap();
    walk.add_to(&mut table);
    table
}

fn database_has(store: &SledStore, ordinal: u64) -> IVec {
    ok(store.read(|trees| trees.require(ordinal)))
}

/// Compares what is read past the database with these values; returns how many were.
fn compare(straight: &Straight, values: &[IVec]) -> usize {
    let same = |(ordinal, value): (u64, &IVec)| {
        let found = straight.get(ordinal);
        assert!(found.as_ref().is_none_or(|found| found == value), "value {ordinal}");
        found.is_some()
    };
    (0..).zip(values).filter(|pair| same(*pair)).count()
}

#[test]
fn nearly_all_values_are_read_as_the_database_has_them_whatever_their_order_and_none_that_an_opening_left() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 0..VALUES);
    let store = ok(SledStore::open(dir.path()));
    let values: Vec<IVec> = (0..VALUES).map(|ordinal| database_has(&store, ordinal)).collect();
    let fresh = || Straight::of(dir.path(), table(dir.path())).unwrap();
    let found = compare(&fresh(), &values);
    assert!(found > values.len() - 40, "{found} of {VALUES}");
    let (backwards, here_and_there) = (fresh(), fresh());
    for (step, ordinal) in (0..VALUES).rev().enumerate() {
        let other = (step as u64 * 7_919) % VALUES;
        for (straight, ordinal) in [(&backwards, ordinal), (&here_and_there, other)] {
            let found = straight.get(ordinal);
            let value = &values[usize::try_from(ordinal).unwrap()];
            assert!(found.is_none_or(|found| found == *value), "value {ordinal}");
        }
    }
    assert!([VALUES, VALUES + 1, u64::MAX].iter().all(|ordinal| fresh().get(*ordinal).is_none()));
    let bounded = fresh().before(700);
    assert!(bounded.get(700).is_none() && bounded.get(699).is_some(), "what may be written again");
    assert!(ok(store.read(|trees| Ok(trees.straight.as_ref().unwrap().end == VALUES))));
}

#[test]
fn whatever_byte_of_the_file_is_wrong_a_value_is_the_right_one_or_left_to_the_database() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 0..VALUES);
    let values: Vec<IVec> = {
        let store = ok(SledStore::open(dir.path()));
        (0..VALUES).map(|ordinal| database_has(&store, ordinal)).collect()
    };
    let (table, path) = (table(dir.path()), dir.path().join(DATA_FILE));
    let db = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let found = || Straight::of(dir.path(), table.clone()).map(|straight| compare(&straight, &values));
    let all = found().unwrap();
    // Single bytes, the last ones first, so that the pages of the tree are not gone at once.
    for at in (0..good.len()).step_by(1_000_003).rev() {
        write_at(&db, &[!good[at]], at as u64).unwrap();
        found();
    }
    write_at(&db, &good, 0).unwrap();
    // A segment that was given to another part of the log, whole and in the middle of being overwritten.
    for bytes in [SEGMENT_BYTES, SEGMENT_BYTES / 2, 100_000] {
        write_at(&db, &good[SEGMENT_BYTES..SEGMENT_BYTES + bytes], 0).unwrap();
        assert!(found().is_none_or(|found| found < all), "{bytes}");
        write_at(&db, &good[..bytes], 0).unwrap();
    }
    assert_eq!(found(), Some(all));
    // A file that ends early, and one that cannot be read.
    for length in [good.len() / 2, SEGMENT_BYTES + 77, 20, 0] {
        db.set_len(length as u64).unwrap();
        assert!(found().is_none_or(|found| found < all), "{length}");
    }
    std::fs::write(&path, &good).unwrap();
    let unreadable = OpenOptions::new().write(true).open(&path).unwrap();
    let straight = Straight { db: unreadable, ..Straight::of(dir.path(), table.clone()).unwrap() };
    assert_eq!(compare(&straight, &values), 0);
}

#[test]
fn pages_that_the_database_moves_and_segments_that_it_uses_again_meanwhile_yield_nothing_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let database = || open_database(dir.path(), SledOptions::default()).unwrap();
    let value = |ordinal: u64, life: u8| vec![ordinal.to_le_bytes()[0] ^ life; 20_000];
    {
        let db = database();
        let (log, other) = (db.open_tree("log").unwrap(), db.open_tree("other").unwrap());
        let mut spacer = crate::engine::spacer::Spacer::after(None);
        for ordinal in 0..600 {
            for key in spacer.before(ordinal) {
                log.insert(key, &[]).unwrap();
            }
            log.insert(value_key(ordinal), value(ordinal, 0)).unwrap();
            // Each segment has data of both.
            other.insert(value_key(ordinal), value(ordinal, 0)).unwrap();
        }
        db.flush().unwrap();
    }
    crate::sled::dir::await_release(dir.path(), || false).unwrap();
    let straight = Straight::of(dir.path(), table(dir.path())).unwrap();
    let right = |straight: &Straight| {
        let found = (0..600).filter_map(|ordinal| Some((ordinal, straight.get(ordinal)?)));
        found.inspect(|(ordinal, found)| assert!(*found == value(*ordinal, 0)[..], "{ordinal}")).count()
    };
    let before = right(&straight);
    assert!(before > 100, "{before}");
    let db = database();
    let other = db.open_tree("other").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                right(&straight);
            }
        });
        for life in 1..12 {
            for ordinal in 0..600 {
                other.insert(value_key(ordinal), value(ordinal, life)).unwrap();
            }
            db.flush().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(right(&straight) < before, "no segment was used again");
    drop((other, db));
}

#[test]
fn pages_scans_and_a_rebuilt_index_are_the_same_with_a_file_that_is_damaged_for_others_and_beside_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 0..VALUES);
    // What the database has read stays in its memory: the file is damaged below.
    let options = SledOptions { rebuild_index: true, cache_bytes: 1 << 30, ..SledOptions::default() };
    let store = ok(SledStore::open_with(dir.path(), options));
    let by_database = ok(store.read_all(Position(1), usize::MAX));
    assert_eq!(by_database.len() as u64, VALUES);
    let long: Vec<&StoredRecord> =
        by_database.iter().filter(|it| it.record.stream == stream("long")).collect();
    let pages = || {
        let (mut records, mut next) = (Vec::new(), 1);
        loop {
            let page = ok(store.page_stream(&stream("long"), Version(next), Page::default()));
            let Some(last) = page.last() else { break };
            next = last.record.last_version().0 + 1;
            records.extend(page);
        }
        records
    };
    let scanned = || {
        let mut hashes = Vec::new();
        ok(store.scan(Position(1), Compare::Hashes, &mut |scanned| {
            hashes.push(scanned.hash);
            Ok(std::ops::ControlFlow::Continue(()))
        }));
        hashes
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut author = Author::new(store.fence()).with_sets_from(VALUES + 1);
    let (is_over, appending) = (AtomicBool::new(false), &store);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let writing = scope.spawn(move || {
            let mut count = 0_usize;
            while !is_over.load(Ordering::Relaxed) {
                ok(runtime.block_on(appending.append(author.append_one(&stream("new"), &[7; 3_000]))));
                count += 1;
            }
            count
        });
        for _ in 0..2 {
            assert!(pages().iter().eq(long.iter().copied()));
            assert!(scanned().iter().zip(&by_database).all(|(hash, known)| *hash == known.hash));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(writing.join().unwrap() > 0);
    });
    let db = OpenOptions::new().write(true).open(dir.path().join(DATA_FILE)).unwrap();
    for at in (100..db.metadata().unwrap().len()).step_by(40_009) {
        write_at(&db, &[0x5a], at).unwrap();
    }
    assert!(pages().iter().eq(long.iter().copied()));
    assert!(scanned().iter().zip(&by_database).all(|(hash, known)| *hash == known.hash));
}
