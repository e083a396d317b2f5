//! Damage at the end of a log, which may be cut off as after a crash, and damage anywhere else, which must be
//! refused. Opening reports its repairs in notes, and what was cut off is kept.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod store_support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proto_events::id::Position;
use store_support::{all, append, closed_log, fill, quick_dir};
use taskreel_log::api::{EventReader as _, EventStore as _, OpenError, OpenNote};
use taskreel_log::sled::{SledDamaged, SledStore};
use taskreel_log::testing::conformance::{Author, check_log, stream};

/// Returns a body that can be found in the file by its text.
fn body(name: &str) -> Vec<u8> {
    format!("<{name}>").repeat(40).into_bytes()
}

/// Makes a log as a killed process leaves it: groups `one` to `five`, `HEAD` from before them.
fn killed_log(root: &Path) -> PathBuf {
    let (live, dir) = (root.join("live"), root.join("log"));
    let store = SledStore::open(&live).unwrap();
    let head = fs::read(live.join("HEAD")).unwrap();
    let mut author = Author::new(store.fence());
    for name in ["one", "two", "three", "four", "five"] {
        append(&store, author.append_one(&stream(name), &body(name)));
    }
    fs::create_dir(&dir).unwrap();
    for name in ["db", "conf", "holder", "taskreel.format"] {
        fs::copy(live.join(name), dir.join(name)).unwrap();
    }
    fs::write(dir.join("HEAD"), head).unwrap();
    store.close().unwrap();
    dir
}

/// Flips a bit in the body of a group.
fn flip(dir: &Path, name: &str) {
    let mut bytes = fs::read(dir.join("db")).unwrap();
    let body = body(name);
    let at = bytes.windows(body.len()).position(|piece| piece == body).unwrap();
    bytes[at + 20] ^= 4;
    fs::write(dir.join("db"), bytes).unwrap();
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_flip_before_a_later_group_is_damage_and_nothing_is_touched() {
    for name in ["one", "two", "three", "four"] {
        let root = quick_dir();
        let dir = killed_log(root.path());
        flip(&dir, name);
        let before = contents(&dir);
        let refused = SledStore::open(&dir).unwrap_err();
        assert!(
            matches!(&refused, OpenError::Corrupt { what, .. } if what.contains("byte")),
            "{name}: {refused}"
        );
        assert_eq!(contents(&dir), before, "{name}");
        // Reading what is left removes nothing either.
        let left = SledDamaged::open(&dir).unwrap();
        assert!(left.head().unwrap() < Position(5), "{name}");
        drop(left);
        assert_eq!(contents(&dir), before, "{name}");
        assert!(
            !fs::read_dir(&dir)
                .unwrap()
                .any(|entry| { entry.unwrap().file_name().to_str().unwrap().starts_with("looked-at") })
        );
    }
}

#[test]
fn the_last_group_alone_is_cut_and_kept_and_the_log_goes_on() {
    let root = quick_dir();
    let dir = killed_log(root.path());
    flip(&dir, "five");
    let damaged = fs::read(dir.join("db")).unwrap();
    let store = SledStore::open(&dir).unwrap();
    assert_eq!(check_log(&store), 4);
    let [OpenNote::TailSetAside { bytes, kept }, OpenNote::NotClosed { holder: Some(holder), proven, end }] =
        store.open_notes()
    else {
        panic!("{:?}", store.open_notes());
    };
    assert_eq!((*proven, *end, holder.pid), (Position(0), Position(4), std::process::id()));
    let piece = fs::read(kept).unwrap();
    assert_eq!(piece.len() as u64, *bytes);
    assert!(damaged.windows(piece.len()).any(|there| there == piece), "what is kept is not what stood there");
    fill(&store, &mut Author::new(store.fence()).with_sets_from(900), 6);
    store.close().unwrap();
    let store = SledStore::open(&dir).unwrap();
    assert_eq!((check_log(&store), store.open_notes()), (10, &[][..]));
}

#[test]
fn a_log_of_a_killed_process_that_is_whole_says_only_that_it_was_not_closed() {
    let root = quick_dir();
    let dir = killed_log(root.path());
    let store = SledStore::open(&dir).unwrap();
    assert_eq!(check_log(&store), 5);
    assert!(
        matches!(store.open_notes(), [OpenNote::NotClosed { end: Position(5), .. }]),
        "{:?}",
        store.open_notes()
    );
    assert!(!dir.join("damaged").exists());
}

#[test]
fn a_damaged_snapshot_is_moved_aside_and_a_half_written_one_is_removed() {
    let root = quick_dir();
    let dir = root.path().join("log");
    let author = closed_log(&dir);
    let store = SledStore::open(&dir).unwrap();
    fill(&store, &mut author.with_fence(store.fence()), 4);
    store.close().unwrap();
    let before = all(&SledStore::open(&dir).unwrap());
    let names = || contents(&dir).into_keys().map(|path| path.file_name().unwrap().to_owned());
    let snapshot = names().find(|name| name.to_str().unwrap().starts_with("snap.")).unwrap();
    let mut bytes = fs::read(dir.join(&snapshot)).unwrap();
    // As a crash while opening leaves it: sled would take it for the newest.
    fs::write(dir.join("snap.7FFFFFFFFFFFFFFF.generating"), &bytes[..9]).unwrap();
    bytes[5] ^= 1;
    fs::write(dir.join(&snapshot), &bytes).unwrap();

    let store = SledStore::open(&dir).unwrap();
    assert_eq!(all(&store), before);
    let [OpenNote::FileSetAside { file, kept, .. }] = store.open_notes() else {
        panic!("{:?}", store.open_notes())
    };
    assert_eq!((file.as_str(), fs::read(kept).unwrap()), (snapshot.to_str().unwrap(), bytes));
    assert!(!names().any(|name| name.to_str().unwrap().ends_with(".generating")));
    store.close().unwrap();
    assert_eq!(SledStore::open(&dir).unwrap().open_notes(), []);
}

#[test]
fn parameters_of_the_database_that_are_not_whole_are_written_anew() {
    let root = quick_dir();
    let dir = root.path().join("log");
    closed_log(&dir);
    let conf = fs::read(dir.join("conf")).unwrap();
    for bad in [Vec::new(), vec![0; conf.len()], conf[1..].to_vec()] {
        fs::write(dir.join("conf"), bad).unwrap();
        let store = SledStore::open(&dir).unwrap();
        assert_eq!(check_log(&store), 10);
        assert!(matches!(store.open_notes(), [OpenNote::FileSetAside { file, .. }] if file == "conf"));
        store.close().unwrap();
        assert_eq!(fs::read(dir.join("conf")).unwrap(), conf);
    }
}
