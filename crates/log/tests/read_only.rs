//! Reading a log without a trace: a private copy is read, the directory stays as it is, and a program may write the log
//! meanwhile.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "read_only/in_place.rs"]
mod in_place;
mod store_support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use proto_events::id::{Digest, Position};
use store_support::{all, closed_log, fill, quick_dir};
use taskreel_log::api::{EventReader, EventStore as _, OpenError, OpenNote, ReadError};
use taskreel_log::audit::export;
use taskreel_log::jsonl::JsonLines;
use taskreel_log::sled::{ReadOnlyLog, ReadOnlyOptions, SledDamaged, SledStore};
use taskreel_log::testing::conformance;
use taskreel_log::testing::conformance::Author;

/// The state of a directory that a reader could change: names, contents, times.
type Trace = BTreeMap<String, (Option<SystemTime>, Option<Digest>)>;

fn trace(dir: &Path) -> Trace {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let modified = std::fs::metadata(&folder).unwrap().modified().ok();
        found.insert(folder.display().to_string(), (modified, None));
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let modified = std::fs::metadata(&path).unwrap().modified().ok();
            let digest = std::fs::read(&path).map(|bytes| Digest::compute(&bytes)).ok();
            found.insert(path.display().to_string(), (modified, digest));
        }
    }
    found
}

struct Place {
    log: tempfile::TempDir,
    scratch: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { log: quick_dir(), scratch: quick_dir() }
    }

    fn dir(&self) -> &Path {
        self.log.path()
    }

    fn options(&self) -> ReadOnlyOptions {
        ReadOnlyOptions::default().scratch(self.scratch.path())
    }

    fn read(&self) -> ReadOnlyLog {
        ReadOnlyLog::open_with(self.dir(), &self.options()).unwrap()
    }

    fn copies(&self) -> usize {
        std::fs::read_dir(self.scratch.path()).unwrap().count()
    }
}

/// Leaves a log as a process does that is killed: with its `holder` file.
fn unclean(place: &Place) {
    let kept = quick_dir();
    let store = SledStore::open(place.dir()).unwrap();
    let mut author = Author::new(store.fence());
    fill(&store, &mut author, 10);
    for entry in std::fs::read_dir(place.dir()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), kept.path().join(entry.file_name())).unwrap();
        }
    }
    store.close().unwrap();
    for entry in std::fs::read_dir(place.dir()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    for entry in std::fs::read_dir(kept.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), place.dir().join(entry.file_name())).unwrap();
    }
}

#[test]
fn reading_a_closed_log_leaves_every_byte_name_and_time_and_no_copy() {
    let place = Place::new();
    closed_log(place.dir());
    let before = trace(place.dir());
    let log = place.read();
    assert_eq!(log.read_all(Position(1), usize::MAX).unwrap().len(), 10);
    assert_eq!((log.is_live(), log.open_notes(), place.copies()), (false, &[][..], 1));
    conformance::check_pages(&log, &log.read_all(Position(1), usize::MAX).unwrap());
    drop(log);
    assert_eq!(trace(place.dir()), before);
    assert_eq!(place.copies(), 0);
}

#[test]
fn the_trace_of_an_unclean_end_is_told_to_every_reader_and_stays() {
    let place = Place::new();
    unclean(&place);
    let before = trace(place.dir());
    for _ in 0..2 {
        let log = place.read();
        assert!(
            matches!(log.open_notes(), [OpenNote::NotClosed { holder: Some(_), .. }, ..]),
            "{:?}",
            log.open_notes()
        );
        assert_eq!(log.head().unwrap(), Position(10));
    }
    assert_eq!(trace(place.dir()), before);
    let store = SledStore::open(place.dir()).unwrap();
    assert!(matches!(store.open_notes(), [OpenNote::NotClosed { .. }]), "{:?}", store.open_notes());
}

#[test]
fn a_log_that_is_held_is_read_and_its_holder_and_its_end_are_no_trace_of_a_crash() {
    let place = Place::new();
    let store = SledStore::open(place.dir()).unwrap();
    let mut author = Author::new(store.fence());
    fill(&store, &mut author, 10);
    let log = place.read();
    assert_eq!(log.read_all(Position(1), usize::MAX).unwrap(), all(&store));
    assert_eq!((log.is_live(), log.open_notes()), (true, &[][..]));
    // The writer is not hindered, and the reader has the log as it was.
    fill(&store, &mut author, 5);
    assert_eq!((log.head().unwrap(), store.head().unwrap()), (Position(10), Position(15)));
    store.close().unwrap();
}

#[test]
fn readers_beside_a_busy_writer_find_a_whole_log_with_all_that_was_acknowledged() {
    let place = Place::new();
    let store = Arc::new(SledStore::open(place.dir()).unwrap());
    let (done, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut author = Author::new(store.fence());
            while !done.load(Ordering::Acquire) {
                fill(&store, &mut author, 1);
                acknowledged.fetch_add(1, Ordering::AcqRel);
            }
        });
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..8 {
                        let sure = acknowledged.load(Ordering::Acquire);
                        let log = place.read();
                        assert_eq!(log.open_notes(), []);
                        assert!(conformance::check_log(&log) >= sure);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Release);
        writer.join().unwrap();
        assert!(ended.into_iter().all(|reader| reader.is_ok()));
    });
    assert!(acknowledged.load(Ordering::Acquire) > 0);
    assert_eq!(place.copies(), 0);
    store.close().unwrap();
}

#[test]
fn a_reader_does_not_keep_a_program_from_starting() {
    let place = Place::new();
    closed_log(place.dir());
    let reader = place.read();
    let since = Instant::now();
    let store = SledStore::open(place.dir()).unwrap();
    assert!(since.elapsed() < Duration::from_secs(5));
    drop(reader);
    store.close().unwrap();
    // Nor do readers that begin all the time.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                drop(place.read());
            }
        });
        let opened: Vec<_> = (0..10).map(|_| SledStore::open(place.dir()).map(drop)).collect();
        done.store(true, Ordering::Release);
        reader.join().unwrap();
        assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    });
}

#[test]
fn a_damaged_log_is_refused_by_its_own_name_and_read_as_far_as_it_can_be_without_a_trace() {
    let place = Place::new();
    closed_log(place.dir());
    let db = place.dir().join("db");
    let mut bytes = std::fs::read(&db).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end / 2] ^= 1;
    std::fs::write(&db, bytes).unwrap();
    let before = trace(place.dir());
    match ReadOnlyLog::open_with(place.dir(), &place.options()) {
        Err(OpenError::Corrupt { path, .. } | OpenError::EndsBeforeHead { path, .. }) => {
            assert_eq!(path, place.dir());
        }
        // The flipped bit may be in a part that no reader needs.
        Ok(log) => assert_eq!(log.head().unwrap(), Position(10)),
        Err(other) => panic!("{other}"),
    }
    drop(SledDamaged::open_with(place.dir(), &place.options()));
    assert_eq!(trace(place.dir()), before);
    assert_eq!(place.copies(), 0);
}

#[test]
fn what_is_no_log_is_refused_and_left() {
    let place = Place::new();
    let before = trace(place.dir());
    let refused = ReadOnlyLog::open_with(place.dir(), &place.options()).unwrap_err();
    assert!(matches!(refused, OpenError::NotALog { .. }), "{refused}");
    let missing = place.dir().join("none");
    assert!(ReadOnlyLog::open_with(&missing, &place.options()).is_err());
    assert_eq!(trace(place.dir()), before);
}

#[test]
fn a_survey_of_a_copy_that_is_no_longer_wanted_reads_nothing() {
    let place = Place::new();
    closed_log(place.dir());
    let (copy, elsewhere) = (place.read(), quick_dir());
    let file = elsewhere.path().join("export");
    let mut shown = Vec::new();
    copy.survey_index_while(&|| false, &mut |error| shown.push(error));
    assert_eq!(shown, [ReadError::Closed]);
    let damaged = SledDamaged::open_with(place.dir(), &place.options()).unwrap();
    let mut lines = String::new();
    let header = copy.header();
    export::<ReadError>(&copy, header.id, header.durability.name(), |line| {
        lines.push_str(line);
        lines.push('\n');
        Ok(())
    })
    .unwrap();
    std::fs::write(&file, lines).unwrap();
    let export = JsonLines::open(&file).unwrap();
    for log in [&copy as &dyn EventReader, &damaged, &export] {
        let (mut records, mut asked) = (0, 0);
        log.survey(&mut |_| asked += 1);
        assert!(asked > 0);
        log.survey_while(&|| false, &mut |shown| records += usize::from(shown.is_ok()));
        assert_eq!(records, 0);
    }
}
