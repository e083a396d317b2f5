//! Passes over a whole log by several threads show what one thread shows: on logs of any length, at damage in any place,
//! after an early end, and while the log is closed.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod store_support;

use std::ops::ControlFlow;
use std::path::Path;

use futures_util::future::join_all;
use proto_events::id::Position;
use store_support::{quick_dir, runtime};
use taskreel_log::api::{Compare, EventReader, EventStore as _, ReadError, StoredRecord};
use taskreel_log::read::{for_each_mapped, scan_mapped};
use taskreel_log::sled::{ReadOnlyLog, SledOptions, SledStore};
use taskreel_log::testing::conformance::{Author, stream};

/// Makes a closed log with at least this number of values, of records of various sizes.
fn closed(dir: &Path, values: u64) {
    let store = SledStore::open(dir).unwrap();
    let mut author = Author::new(store.fence());
    for value in 0..values {
        let records = value % 5 + 1;
        let body = |n: u64| vec![7; usize::try_from(value * 31 % 900 + n).unwrap()];
        let appends: Vec<_> = (0..records)
            .map(|n| author.append_one(&stream(&format!("s{}", (value + n) % 23)), &body(n)))
            .collect();
        let appended = appends.into_iter().map(|append| store.append(append));
        assert!(runtime().block_on(join_all(appended)).iter().all(Result::is_ok));
    }
    store.close().unwrap();
}

fn open(dir: &Path, scan_threads: usize) -> SledStore {
    SledStore::open_with(dir, SledOptions { scan_threads, ..SledOptions::default() }).unwrap()
}

/// The records that a scan shows, and its end.
type Scan = (Vec<(Position, String)>, Result<(), ReadError>);

/// All that the passes over a log show.
#[derive(Debug, PartialEq)]
struct Shown {
    scanned: [Scan; 2],
    records: (Vec<StoredRecord>, Result<(), ReadError>),
    surveyed: Vec<Result<StoredRecord, ReadError>>,
}

fn shown(log: &SledStore) -> Shown {
    let scanned = [Compare::Checksums, Compare::Hashes].map(|compare| {
        let mut shown = Vec::new();
        let name = |scanned: &taskreel_log::api::ScannedRecord<'_>| {
            Ok((scanned.position, scanned.record.stream.to_owned()))
        };
        let ended = scan_mapped(log, compare, name, |record| {
            shown.push(record);
            Ok(ControlFlow::Continue(()))
        });
        (shown, ended)
    });
    let mut records = Vec::new();
    let ended = for_each_mapped(
        log,
        |record| record,
        |record| {
            records.push(record);
            Ok::<_, ReadError>(ControlFlow::Continue(()))
        },
    );
    let mut surveyed = Vec::new();
    log.survey(&mut |read| surveyed.push(read));
    Shown { scanned, records: (records, ended), surveyed }
}

/// Shows the same log to one thread and to several.
fn compared(dir: &Path) -> Shown {
    let alone = open(dir, 1);
    let by_one = shown(&alone);
    alone.close().unwrap();
    for threads in [2, 3] {
        let log = open(dir, threads);
        assert_eq!((log.scan_threads(), log.pieces().is_ok()), (threads, true));
        let by_several = shown(&log);
        assert!(by_several.scanned == by_one.scanned, "{threads} threads scan another log than one");
        assert!(by_several.records == by_one.records, "{threads} threads read other records than one");
        assert!(by_several.surveyed == by_one.surveyed, "{threads} threads survey another log than one");
        log.close().unwrap();
    }
    by_one
}

fn key(ordinal: u64) -> Vec<u8> {
    [&ordinal.to_be_bytes()[..], &[0]].concat()
}

/// Changes a value of a closed log, and returns what it was.
fn change(dir: &Path, ordinal: u64, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let db = sled::Config::new().path(dir).segment_size(4 * 1024 * 1024).open().unwrap();
    let log = db.open_tree("log").unwrap();
    let before = log.get(key(ordinal)).unwrap().unwrap().to_vec();
    let mut after = before.clone();
    change(&mut after);
    log.insert(key(ordinal), after).unwrap();
    db.flush().unwrap();
    drop((log, db));
    // Until sled's own threads have released the directory.
    std::fs::File::open(dir.join("db")).unwrap().lock().unwrap();
    before
}

#[test]
fn logs_of_any_length_are_shown_alike() {
    for values in [0, 1, 15, 16, 17, 33, 100] {
        let dir = quick_dir();
        closed(dir.path(), values);
        let shown = compared(dir.path());
        assert!(shown.scanned.iter().all(|(_, ended)| ended.is_ok()));
        assert_eq!(shown.surveyed.len(), shown.records.0.len());
        assert!(shown.records.0.len() as u64 >= values);
    }
}

#[test]
fn damage_is_met_where_one_thread_meets_it() {
    let dir = quick_dir();
    closed(dir.path(), 700);
    // So that an opening trusts the index and reads none of the values that are changed.
    let whole = compared(dir.path()).records.0;
    let covered = |ordinal: u64| {
        let before = change(dir.path(), ordinal, |value| value[60] ^= 1);
        let opened = SledStore::open(dir.path());
        let is_covered = opened.is_ok();
        drop(opened);
        change(dir.path(), ordinal, |value| *value = before);
        is_covered
    };
    let mut met = 0;
    for ordinal in [0, 15, 16, 203, 307] {
        if !covered(ordinal) {
            continue;
        }
        met += 1;
        // A wrong checksum, a wrong first position, a value cut short, an empty one.
        let damages: [fn(&mut Vec<u8>); 4] =
            [|value| value[60] ^= 1, |value| value[5] ^= 0xff, |value| value.truncate(50), Vec::clear];
        for damage in damages {
            let before = change(dir.path(), ordinal, damage);
            let shown = compared(dir.path());
            assert!(shown.scanned.iter().all(|(_, ended)| ended.is_err()), "value {ordinal}");
            assert!(shown.records.1.is_err());
            let sound = shown.records.0.len();
            assert!(shown.records.0 == whole[..sound], "value {ordinal}: the records before the damage");
            assert!(shown.surveyed.iter().any(Result::is_err));
            change(dir.path(), ordinal, |value| *value = before);
        }
    }
    assert!(met > 0, "the index covers none of the values");
    assert!(compared(dir.path()).records.0 == whole);
}

#[test]
fn a_pass_ends_where_its_visitor_says_and_with_its_error() {
    let dir = quick_dir();
    closed(dir.path(), 100);
    let log = open(dir.path(), 2);
    for wanted in [1, 2, 40, 150] {
        let mut seen = 0;
        let ended = scan_mapped(
            &log,
            Compare::Hashes,
            |_| Ok(()),
            |()| {
                seen += 1;
                Ok(if seen == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        );
        assert_eq!((seen, ended), (wanted, Ok(())));
        let mut seen = 0;
        let refused = || ReadError::Io("enough".to_owned());
        let ended = for_each_mapped(
            &log,
            |_| (),
            |()| {
                seen += 1;
                if seen == wanted { Err(refused()) } else { Ok(ControlFlow::Continue(())) }
            },
        );
        assert_eq!((seen, ended), (wanted, Err(refused())));
        let mut seen = 0;
        let at = log.read_all(Position(1), wanted).unwrap().pop().unwrap().position;
        let map = |scanned: &taskreel_log::api::ScannedRecord<'_>| {
            if scanned.position >= at { Err(scanned.corrupt("not this one")) } else { Ok(()) }
        };
        let ended = scan_mapped(&log, Compare::Checksums, map, |()| {
            seen += 1;
            Ok(ControlFlow::Continue(()))
        });
        assert_eq!(seen, wanted - 1);
        assert!(ended.unwrap_err().to_string().contains("not this one"));
    }
    // Closed in the middle: the pass ends with that, and nothing hangs.
    let mut seen = 0;
    let ended = scan_mapped(
        &log,
        Compare::Hashes,
        |_| Ok(()),
        |()| {
            seen += 1;
            if seen == 3 {
                log.close().unwrap();
            }
            Ok(ControlFlow::Continue(()))
        },
    );
    assert_eq!(ended, Err(ReadError::Closed));
}

#[test]
fn a_log_that_is_only_read_may_use_two_threads_and_one_that_is_written_one() {
    let dir = quick_dir();
    closed(dir.path(), 20);
    assert_eq!(SledStore::open(dir.path()).unwrap().scan_threads(), 1);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let log = ReadOnlyLog::open(dir.path()).unwrap();
    // A writer that is slow has written more values than one for each round.
    assert!(log.pieces().unwrap() >= 2);
    assert_eq!(log.scan_threads(), processors.min(2));
}
