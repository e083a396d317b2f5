//! A closed log whose values are read from its own file: the reader says what one of a whole copy says, whatever was damaged,
//! left by a crash, or is written meanwhile, and copies little.

use std::ops::ControlFlow;
use std::path::Path;

use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{
    Compare, EventReader, EventStore as _, OpenError, OpenNote, Page, ReadError, StoredRecord,
};
use taskreel_log::sled::{ReadOnlyLog, SledStore};
use taskreel_log::testing::conformance::{Author, stream};

use crate::store_support::{append, closed_log, quick_dir};
use crate::{Place, trace, unclean};

/// The records of the log of these tests: several segments of the database.
const RECORDS: u64 = 1_500;

/// Appends records, some with bodies outside of them, and closes the log.
fn write(dir: &Path, numbers: std::ops::Range<u64>) {
    let store = SledStore::open(dir).unwrap();
    let mut author = Author::new(store.fence()).with_sets_from(numbers.start + 1);
    for name in ["other", "long"] {
        let version = store.stream_version(&stream(name)).unwrap();
        for last in store.read_stream(&stream(name), version, 1).unwrap() {
            author.learn(&last);
        }
    }
    for number in numbers {
        let name = if number % 9 == 0 { "other" } else { "long" };
        let bytes = if number % 400 == 399 { 200_000 } else { 6_000 };
        append(&store, author.append_one(&stream(name), &vec![number.to_le_bytes()[0]; bytes]));
    }
    store.close().unwrap();
}

/// Returns a closed log of several segments that was opened once since it was written.
fn large() -> Place {
    let place = Place::new();
    write(place.dir(), 0..RECORDS);
    SledStore::open(place.dir()).unwrap().close().unwrap();
    place
}

fn in_place(place: &Place) -> Result<ReadOnlyLog, OpenError> {
    ReadOnlyLog::open_with(place.dir(), &place.options().in_place())
}

/// Returns the bytes of the disk that the private copies take.
#[cfg(unix)]
fn copied(place: &Place) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let (mut bytes, mut folders) = (0, vec![place.scratch.path().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                bytes += entry.metadata().unwrap().blocks() * 512;
            }
        }
    }
    bytes
}

/// Returns what the ways to read of a list and of a look show: pages of the log and of a stream, and a scan.
fn looked_at(log: &ReadOnlyLog) -> (Result<Vec<StoredRecord>, ReadError>, Result<usize, ReadError>) {
    let page = |from: u64| log.page_stream(&stream("long"), Version(from), Page::with_limit(100));
    let mut scanned = 0;
    let scan = log.scan(Position(1), Compare::Hashes, &mut |_| {
        scanned += 1;
        Ok(ControlFlow::Continue(()))
    });
    let pages = page(1).and_then(|_| page(700)).and_then(|_| log.read_all(Position(1), usize::MAX));
    (pages, scan.map(|()| scanned))
}

fn surveyed(log: &ReadOnlyLog) -> Vec<Result<StoredRecord, String>> {
    let mut shown = Vec::new();
    log.survey(&mut |read| shown.push(read.map_err(|error| error.to_string())));
    shown
}

#[test]
fn a_closed_log_is_read_in_place_as_from_a_copy_and_only_a_survey_copies_all_of_it() {
    let place = large();
    let (before, whole) = (trace(place.dir()), place.read());
    let known = whole.read_all(Position(1), usize::MAX).unwrap();
    let log = in_place(&place).unwrap();
    assert_eq!((log.is_live(), log.open_notes(), place.copies()), (false, &[][..], 2));
    assert_eq!((log.head(), log.header()), (whole.head(), whole.header()));
    assert_eq!(log.list_streams("", None, 10), whole.list_streams("", None, 10));
    for name in ["long", "other"] {
        let name: StreamId = stream(name);
        let page = |log: &ReadOnlyLog| log.page_stream(&name, Version(80), Page::with_limit(5)).unwrap();
        assert!(page(&log) == page(&whole));
    }
    assert_eq!(place.copies(), 2, "nothing of this needs all of it");
    assert!(looked_at(&log) == (Ok(known.clone()), Ok(known.len())));
    log.survey_index(&mut |fault| panic!("{fault}"));
    assert_eq!(log.trees(), whole.trees());
    let again = in_place(&place).unwrap();
    let before_it = place.copies();
    assert!(surveyed(&again).into_iter().map(Result::unwrap).eq(known));
    assert_eq!(place.copies(), before_it + 1, "what looks for damage reads a whole copy");
    drop((log, whole, again));
    assert_eq!((trace(place.dir()), place.copies()), (before, 0));
}

#[cfg(unix)]
#[test]
fn of_a_log_that_is_read_in_place_little_is_copied() {
    let place = large();
    let log = in_place(&place).unwrap();
    let scan = log.scan(Position(1), Compare::Checksums, &mut |_| Ok(ControlFlow::Continue(())));
    let (all, copied) = (std::fs::metadata(place.dir().join("db")).unwrap().len(), copied(&place));
    assert!(scan.is_ok() && copied < all / 4, "{copied} of {all}");
}

#[test]
fn a_log_that_is_read_in_place_may_be_opened_written_and_removed_meanwhile() {
    let place = large();
    let known = place.read().read_all(Position(1), usize::MAX).unwrap();
    let (first, second) = (in_place(&place).unwrap(), in_place(&place).unwrap());
    assert!(first.read_all(Position(1), 300).unwrap() == known[..300]);
    write(place.dir(), RECORDS..RECORDS + 700);
    let store = SledStore::open(place.dir()).unwrap();
    for log in [&first, &second] {
        assert!(looked_at(log) == (Ok(known.clone()), Ok(known.len())), "as it was when it was opened");
        assert!(surveyed(log).into_iter().map(Result::unwrap).eq(known.iter().cloned()));
    }
    let third = in_place(&place).unwrap();
    assert!(third.is_live() && third.head().unwrap() > first.head().unwrap());
    store.close().unwrap();
    // What is read now can still be had by the file that is open, or nothing is said of it.
    let late = in_place(&place).unwrap();
    let known = third.read_all(Position(1), usize::MAX).unwrap();
    for entry in std::fs::read_dir(place.dir()).unwrap() {
        let path = entry.unwrap().path();
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
    }
    let mut found = 0;
    let scanned = late.scan(Position(1), Compare::Hashes, &mut |scanned| {
        assert_eq!(scanned.hash, known[found].hash);
        found += 1;
        Ok(ControlFlow::Continue(()))
    });
    assert!(found > 300 && (scanned.is_err() || found == known.len()), "{found}: {scanned:?}");
    // Another log in its place is not taken for it.
    closed_log(place.dir());
    assert!(surveyed(&late).iter().all(Result::is_err));
}

#[test]
fn an_unclean_end_is_told_as_by_every_reader_and_so_is_a_log_that_is_held() {
    let place = Place::new();
    unclean(&place);
    let before = trace(place.dir());
    let log = in_place(&place).unwrap();
    assert!(matches!(log.open_notes(), [OpenNote::NotClosed { .. }, ..]), "{:?}", log.open_notes());
    assert_eq!(log.open_notes(), place.read().open_notes());
    drop(log);
    assert_eq!(trace(place.dir()), before);
    let store = SledStore::open(place.dir()).unwrap();
    assert!(in_place(&place).unwrap().is_live());
    store.close().unwrap();
}

#[test]
fn whatever_byte_of_a_log_is_wrong_a_reader_in_place_shows_the_right_records_or_says_what_every_reader_says()
{
    let sound = large();
    let known = sound.read().read_all(Position(1), usize::MAX).unwrap();
    let files: Vec<_> = std::fs::read_dir(sound.dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let (mut dice, mut shown_right, mut refused) = (7_u64, 0, 0);
    let mut roll = |below: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(dice >> 33).unwrap() % below
    };
    for round in 0..30 {
        let place = Place { log: quick_dir(), ..Place::new() };
        let damaged = if round % 4 == 0 { roll(files.len()) } else { files.len() };
        for (number, file) in files.iter().enumerate().filter(|(_, file)| file.is_file()) {
            let mut bytes = std::fs::read(file).unwrap();
            let is_db = file.ends_with("db");
            if number == damaged || (is_db && damaged == files.len()) {
                let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                match round % 3 {
                    _ if used == 0 => {}
                    0 => bytes.truncate(roll(used)),
                    _ => (0..=roll(3)).for_each(|_| bytes[roll(used)] ^= 0x41),
                }
            }
            std::fs::write(place.dir().join(file.file_name().unwrap()), bytes).unwrap();
        }
        let before = trace(place.dir());
        let whole = ReadOnlyLog::open_with(place.dir(), &place.options());
        match (in_place(&place), whole) {
            (Err(here), Err(there)) => {
                assert_eq!(here.to_string(), there.to_string(), "{round}");
                refused += 1;
            }
            (Ok(log), whole) => {
                // The database may find more wrong than what is looked at, and says so before it reads.
                let (records, scanned) = looked_at(&log);
                let (is_all, end) = (log.open_notes().is_empty(), log.head().unwrap().0);
                assert!(!is_all || end == RECORDS, "{round}: {end}");
                if let Ok(records) = records {
                    assert!(
                        known.starts_with(&records) && (!is_all || records.len() == known.len()),
                        "{round}"
                    );
                    shown_right += 1;
                }
                assert!(scanned.is_err() || scanned == Ok(usize::try_from(end).unwrap()), "{round}");
                if let Ok(whole) = whole {
                    let same = surveyed(&log) == surveyed(&whole);
                    assert!(same && (log.open_notes() == whole.open_notes() || is_all), "{round}");
                }
            }
            (Err(error), Ok(_)) => panic!("{round}: {error}"),
        }
        assert_eq!(trace(place.dir()), before, "{round}");
    }
    assert!(shown_right > 0 && refused > 3, "{shown_right} {refused}");
}

#[cfg(unix)]
#[test]
fn values_that_are_damaged_after_a_reader_in_place_has_opened_are_shown_as_they_were_or_not_at_all() {
    use std::os::unix::fs::FileExt as _;

    let place = large();
    let known = place.read().read_all(Position(1), usize::MAX).unwrap();
    let path = place.dir().join("db");
    let sound = std::fs::read(&path).unwrap();
    let used = sound.iter().rposition(|byte| *byte != 0).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let (mut dice, mut right, mut wrong) = (11_u64, 0, 0);
    for round in 0..24 {
        let log = in_place(&place).unwrap();
        let mut changed = Vec::new();
        for _ in 0..=(round % 4) * 20 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(dice >> 33).unwrap() % used;
            file.write_all_at(&[sound[at] ^ 0x41], at as u64).unwrap();
            changed.push(at);
        }
        let mut scanned = Vec::new();
        let scan = log.scan(Position(1), Compare::Hashes, &mut |record| {
            scanned.push(record.hash);
            Ok(ControlFlow::Continue(()))
        });
        assert!(known.iter().map(|record| record.hash).take(scanned.len()).eq(scanned.iter().copied()));
        assert_eq!(scan.is_ok(), scanned.len() == known.len(), "{round}");
        for (first, page) in (1..).step_by(50).zip(known.chunks(50)) {
            match log.read_all(Position(first), page.len()) {
                Ok(records) => {
                    assert!(records == page, "{round}: {first}");
                    right += 1;
                }
                Err(_) => wrong += 1,
            }
        }
        drop(log);
        for at in changed {
            file.write_all_at(&sound[at..=at], at as u64).unwrap();
        }
    }
    assert!(right > 0 && wrong > 5, "{right} {wrong}");
    assert!(place.read().read_all(Position(1), usize::MAX).unwrap() == known);
}
