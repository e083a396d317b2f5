//! Directories that opening refuses, and faults that it reports: other directories, other formats, damage, a
//! missing end.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod store_support;

use std::collections::BTreeMap;
use std::path::Path;

use proto_events::id::{LogId, Position, Version};
use store_support::{all, append, closed_log, fill};
use taskreel_log::api::{EventReader as _, EventStore as _, OpenError, OpenNote};
use taskreel_log::sled::{SledOptions, SledStore, log_header};
use taskreel_log::testing::conformance::{Author, check_log, stream};

/// Returns every file below a directory.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.insert(format!("{}/", path.display()), Vec::new());
            files.extend(contents(&path));
        } else {
            files.insert(path.display().to_string(), std::fs::read(&path).unwrap());
        }
    }
    files
}

/// Changes a closed log's tree directly.
fn tamper(dir: &Path, change: impl FnOnce(&sled::Tree)) {
    let db = sled::Config::new().path(dir).segment_size(4 * 1024 * 1024).open().unwrap();
    change(&db.open_tree("log").unwrap());
    db.flush().unwrap();
    drop(db);
    await_release(dir);
}

/// Waits until sled's own threads have released the directory.
fn await_release(dir: &Path) {
    std::fs::File::open(dir.join("db")).unwrap().lock().unwrap();
}

fn key(ordinal: u64) -> Vec<u8> {
    [&ordinal.to_be_bytes()[..], &[0]].concat()
}

#[test]
fn what_is_no_log_is_refused_and_left_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.txt"), "years of work").unwrap();
    let other = dir.path().join("other");
    sled::open(&other).unwrap().insert("key", "value").unwrap();
    await_release(&other);
    let file = dir.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let marked = dir.path().join("marked");
    std::fs::create_dir(&marked).unwrap();
    std::fs::write(marked.join("taskreel.format"), "something else\n").unwrap();
    let before = contents(dir.path());
    for path in [&foreign, &other, &file, &marked] {
        let refused = SledStore::open(path).unwrap_err();
        assert!(matches!(refused, OpenError::NotALog { .. }), "{refused}");
    }
    let absent = SledOptions { create: false, ..SledOptions::default() };
    for path in [dir.path().join("absent"), dir.path().to_owned()] {
        let refused = SledStore::open_with(path, absent).unwrap_err();
        assert!(matches!(refused, OpenError::NotALog { .. }), "{refused}");
    }
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn another_format_or_an_unknown_durability_is_refused_and_left_untouched() {
    let dir = tempfile::tempdir().unwrap();
    closed_log(dir.path());
    let marker = dir.path().join("taskreel.format");
    let text = std::fs::read_to_string(&marker).unwrap();
    let id = log_header(dir.path()).unwrap().id;
    assert_eq!(text, format!("taskreel log\nformat 2\ndurability strict\nid {id}\n"));
    // As a build of format 1 wrote it.
    let older = "taskreel log\nformat 1\ndurability strict\n".to_owned();
    for other in [older, text.replace("format 2", "format 3"), text.replace("strict", "lazy")] {
        std::fs::write(&marker, &other).unwrap();
        let before = contents(dir.path());
        let refused = SledStore::open(dir.path()).unwrap_err();
        match &refused {
            OpenError::OlderFormat { found, known, .. } => {
                assert_eq!((*found, *known), (1, 2));
                assert!(refused.to_string().contains("read it with the build that wrote it"), "{refused}");
            }
            OpenError::NewerFormat { found, known, .. } => assert_eq!((*found, *known), (3, 2)),
            OpenError::UnknownDurability { found, .. } => assert_eq!(found, "lazy"),
            other => panic!("{other}"),
        }
        assert_eq!(contents(dir.path()), before);
    }
    std::fs::write(&marker, text).unwrap();
    assert_eq!(check_log(&SledStore::open(dir.path()).unwrap()), 10);
}

#[test]
fn a_header_whose_id_was_changed_or_lost_is_refused_and_a_log_keeps_its_id() {
    let dir = tempfile::tempdir().unwrap();
    closed_log(dir.path());
    let marker = dir.path().join("taskreel.format");
    let text = std::fs::read_to_string(&marker).unwrap();
    let id = log_header(dir.path()).unwrap().id;
    assert_eq!(SledStore::open(dir.path()).unwrap().header().id, id);
    let other = text.replace(&id.to_string(), &LogId([7; 16]).to_string());
    std::fs::write(&marker, other).unwrap();
    let refused = SledStore::open(dir.path()).unwrap_err();
    assert!(refused.to_string().contains("disagree on the log's id"), "{refused}");
    std::fs::write(&marker, text.split_once("id ").unwrap().0).unwrap();
    assert!(matches!(SledStore::open(dir.path()), Err(OpenError::NotALog { .. })));
    let another = tempfile::tempdir().unwrap();
    closed_log(another.path());
    assert_ne!(log_header(another.path()).unwrap().id, id, "each log has an id of its own");
}

#[test]
fn whoever_closes_a_log_beside_another_finds_the_directory_free_when_it_returns() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let store = SledStore::open(dir.path()).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| store.close().unwrap());
            // Most often behind the first, sometimes before it.
            std::thread::yield_now();
            store.close().unwrap();
            let next = SledStore::open(dir.path());
            assert!(next.is_ok(), "round {round}: {:?}", next.err());
        });
    }
}

#[test]
fn a_blob_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    closed_log(dir.path());
    std::fs::write(dir.path().join("blobs/1"), "unsynced").unwrap();
    let refused = SledStore::open(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::BlobsPresent { count: 1, .. }), "{refused}");
}

#[test]
fn a_log_that_ends_before_its_head_is_refused_with_both_positions() {
    let dir = tempfile::tempdir().unwrap();
    let author = closed_log(dir.path());
    let old: Vec<_> = contents(dir.path()).into_iter().filter(|(name, _)| !name.ends_with('/')).collect();
    let store = SledStore::open(dir.path()).unwrap();
    fill(&store, &mut author.with_fence(store.fence()), 4);
    store.close().unwrap();
    let head = std::fs::read(dir.path().join("HEAD")).unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
    for (name, bytes) in &old {
        std::fs::write(name, bytes).unwrap();
    }
    std::fs::write(dir.path().join("HEAD"), head).unwrap();
    match SledStore::open(dir.path()).unwrap_err() {
        OpenError::EndsBeforeHead { head, log, .. } => assert_eq!((head, log), (Position(14), Position(10))),
        other => panic!("{other}"),
    }
    std::fs::remove_file(dir.path().join("HEAD")).unwrap();
    assert_eq!(check_log(&SledStore::open(dir.path()).unwrap()), 10);
}

#[test]
fn an_emptied_log_a_foreign_head_and_a_damaged_head_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (log, other) = (dir.path().join("log"), dir.path().join("other"));
    closed_log(&log);
    let store = SledStore::open(&other).unwrap();
    append(&store, Author::new(store.fence()).append_one(&stream("elsewhere"), b"x"));
    store.close().unwrap();
    let (own, foreign) =
        (std::fs::read(log.join("HEAD")).unwrap(), std::fs::read(other.join("HEAD")).unwrap());

    std::fs::write(log.join("HEAD"), foreign).unwrap();
    let refused = SledStore::open(&log).unwrap_err();
    assert!(matches!(&refused, OpenError::Corrupt { what, .. } if what.contains("HEAD")), "{refused}");

    std::fs::write(log.join("HEAD"), &own[1..]).unwrap();
    let refused = SledStore::open(&log).unwrap_err();
    assert!(matches!(&refused, OpenError::Corrupt { what, .. } if what.contains("HEAD")), "{refused}");

    std::fs::write(log.join("HEAD"), &own).unwrap();
    tamper(&log, |tree| tree.clear().unwrap());
    let refused = SledStore::open(&log).unwrap_err();
    assert!(matches!(refused, OpenError::EndsBeforeHead { log: Position(0), .. }), "{refused}");
}

#[test]
fn an_older_head_beside_a_kept_index_is_noted_and_a_foreign_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (log, other) = (dir.path().join("log"), dir.path().join("other"));
    let mut heads = Vec::new();
    for (dir, name) in [(&log, "here"), (&other, "elsewhere")] {
        let store = SledStore::open(dir).unwrap();
        append(&store, Author::new(store.fence()).append_one(&stream(name), b"x"));
        store.close().unwrap();
        heads.push(std::fs::read(dir.join("HEAD")).unwrap());
    }
    // Enough records for a block of the index.
    let store = SledStore::open(&log).unwrap();
    let mut author = Author::new(store.fence()).with_sets_from(1_000);
    for n in 0..5_u32 {
        let many: Vec<_> =
            (0..1_000).map(|at| (stream(&format!("s{n}-{at}")), vec![b"x".to_vec()])).collect();
        append(&store, author.many(&many));
    }
    let end = store.head().unwrap();
    store.close().unwrap();
    let newest = std::fs::read(log.join("HEAD")).unwrap();

    std::fs::write(log.join("HEAD"), &heads[1]).unwrap();
    let before = contents(&log);
    let refused = SledStore::open(&log).unwrap_err();
    assert!(matches!(&refused, OpenError::Corrupt { what, .. } if what.contains("another log")), "{refused}");
    assert_eq!(std::fs::read(log.join("HEAD")).unwrap(), heads[1], "it is evidence");
    assert!(before.len() <= contents(&log).len());

    std::fs::write(log.join("HEAD"), &heads[0]).unwrap();
    let store = SledStore::open(&log).unwrap();
    let [OpenNote::HeadOlder { head: Position(1), index }] = store.open_notes() else {
        panic!("{:?}", store.open_notes())
    };
    assert!((2..=end.0).contains(&index.0), "{index}");
    store.close().unwrap();
    assert_eq!(std::fs::read(log.join("HEAD")).unwrap(), newest);
    let store = SledStore::open(&log).unwrap();
    assert_eq!(store.open_notes(), [], "it is noted once");
}

#[test]
fn an_append_whose_end_is_missing_was_never_made() {
    let dir = tempfile::tempdir().unwrap();
    let author = closed_log(dir.path());
    let head = std::fs::read(dir.path().join("HEAD")).unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let mut author = author.with_fence(store.fence());
    let lost: Vec<_> = (0..9).map(|n| (stream(&format!("large{n}")), vec![vec![n; 20_000]])).collect();
    let lost = author.clone().many(&lost);
    append(&store, lost.clone());
    store.close().unwrap();
    // As if the machine had stopped before the last two of its three values reached the disk, and HEAD too.
    std::fs::write(dir.path().join("HEAD"), head).unwrap();
    tamper(dir.path(), |tree| {
        for ordinal in [11, 12] {
            assert!(tree.remove(key(ordinal)).unwrap().is_some());
        }
    });
    for _ in 0..2 {
        let store = SledStore::open(dir.path()).unwrap();
        assert_eq!(check_log(&store), 10);
        assert_eq!(store.resolve(lost.set_id).unwrap(), None);
        assert_eq!(store.stream_version(&stream("large0")).unwrap(), Version(0));
    }
    let store = SledStore::open(dir.path()).unwrap();
    author = author.with_fence(store.fence()).with_sets_from(900);
    fill(&store, &mut author, 5);
    store.close().unwrap();
    assert_eq!(check_log(&SledStore::open(dir.path()).unwrap()), 15);
}

#[test]
fn a_missing_or_changed_value_is_named_on_opening() {
    for (what, told) in
        [(0, "value 4 with position 5 is missing"), (1, "checksum"), (2, "has an unknown key")]
    {
        let dir = tempfile::tempdir().unwrap();
        closed_log(dir.path());
        tamper(dir.path(), |tree| {
            let mut value = tree.get(key(4)).unwrap().unwrap().to_vec();
            match what {
                0 => drop(tree.remove(key(4)).unwrap()),
                1 => {
                    value[100] ^= 1;
                    tree.insert(key(4), value).unwrap();
                }
                _ => drop(tree.insert(b"foreign", b"x").unwrap()),
            }
        });
        let refused = SledStore::open(dir.path()).unwrap_err();
        assert!(refused.to_string().contains(told), "{refused}");
    }
}

#[test]
fn a_body_changed_with_a_right_checksum_is_named_on_reading() {
    let dir = tempfile::tempdir().unwrap();
    closed_log(dir.path());
    tamper(dir.path(), |tree| {
        let mut value = tree.get(key(4)).unwrap().unwrap().to_vec();
        *value.last_mut().unwrap() ^= 1;
        let crc = crc32c::crc32c(&value[4..]);
        value[..4].copy_from_slice(&crc.to_be_bytes());
        tree.insert(key(4), value).unwrap();
    });
    let store = SledStore::open(dir.path()).unwrap();
    let told = store.read_all(Position(1), usize::MAX).unwrap_err().to_string();
    assert!(told.contains("stream task-agent/s0 at version 3 at position 5"), "{told}");
    assert!(store.read_stream(&stream("s0"), Version(1), 9).is_err());
    assert_eq!(store.read_stream(&stream("s1"), Version(1), 9).unwrap().len(), 5, "the rest can be read");
    assert_eq!(store.read_all(Position(6), usize::MAX).unwrap().len(), 5);
}

#[test]
fn a_flipped_byte_in_the_database_is_an_error_or_harmless_but_never_another_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    closed_log(&log);
    let before = all(&SledStore::open(&log).unwrap());
    let files: Vec<_> = contents(&log).into_iter().filter(|(name, _)| !name.ends_with('/')).collect();
    let used = files.iter().find(|(name, _)| name.ends_with("/db")).map(|(_, bytes)| bytes.len()).unwrap();
    let mut refused = 0;
    for at in (0..used.min(24_000)).step_by(601) {
        let copy = dir.path().join(at.to_string());
        std::fs::create_dir(&copy).unwrap();
        for (name, bytes) in &files {
            let mut bytes = bytes.clone();
            if name.ends_with("/db") {
                bytes[at] ^= 0x40;
            }
            std::fs::write(copy.join(Path::new(name).file_name().unwrap()), bytes).unwrap();
        }
        match SledStore::open(&copy) {
            Ok(store) => assert_eq!(all(&store), before, "byte {at}"),
            Err(_) => refused += 1,
        }
        std::fs::remove_dir_all(&copy).unwrap();
    }
    assert!(refused > 0);
}
