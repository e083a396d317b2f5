//! The index stored on disk: it is used, it is only a cache, and damage to it changes no result.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::path::Path;

use crate::store_support::{all, append, runtime};
use futures_util::future::join_all;
use proto_events::id::{StreamId, Version};
use taskreel_log::api::{EventReader as _, EventStore as _, OpenNote, ReadError, StoredRecord};
use taskreel_log::audit::{FindingKind, verify};
use taskreel_log::doctor::rebuild_index;
use taskreel_log::read::open_work;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{Author, check_log, stream};

const STREAMS: u64 = 40;
const EVENTS: u64 = 6_000;

/// The records that are appended at once, so that no group is larger: a group of more could jump over the place where
/// a block may end, and the watermark would stay where it was.
const AT_ONCE: usize = 400;

/// Makes a closed log with several sorted blocks of its index, and a part that no block covers.
fn closed(dir: &Path) -> (Vec<StoredRecord>, Author) {
    let store = SledStore::open(dir).unwrap();
    let mut author = Author::new(store.fence());
    let name = |n: u64| stream(&format!("s{}", n * n % STREAMS));
    let appends: Vec<_> = (0..EVENTS).map(|n| author.append_one(&name(n), &n.to_be_bytes())).collect();
    for together in appends.chunks(AT_ONCE) {
        let together = together.iter().cloned().map(|append| store.append(append));
        assert!(runtime().block_on(join_all(together)).iter().all(Result::is_ok));
    }
    let records = all(&store);
    store.close().unwrap();
    (records, author)
}

/// Changes the trees of a closed log directly.
fn tamper(dir: &Path, change: impl FnOnce(&dyn Fn(&str) -> sled::Tree)) {
    let db = sled::Config::new().path(dir).segment_size(4 * 1024 * 1024).open().unwrap();
    change(&|name| db.open_tree(name).unwrap());
    db.flush().unwrap();
    drop(db);
    // Until sled's own threads have released the directory.
    std::fs::File::open(dir.join("db")).unwrap().lock().unwrap();
}

fn key(ordinal: u64) -> Vec<u8> {
    [&ordinal.to_be_bytes()[..], &[0]].concat()
}

/// Returns the number of sorted blocks that the watermark covers; 0 without one.
fn runs_kept(dir: &Path) -> u64 {
    let mut kept = 0;
    tamper(dir, |tree| {
        let Some(mark) = tree("meta").get("index").unwrap() else { return };
        let text = String::from_utf8(mark.to_vec()).unwrap();
        kept = text.lines().find_map(|line| line.strip_prefix("runs ")).unwrap().parse().unwrap();
    });
    kept
}

/// Checks that the log reads as the list of its records, and takes further appends.
fn assert_whole(dir: &Path, records: &[StoredRecord], author: &Author) {
    let store = SledStore::open(dir).unwrap();
    assert!(all(&store) == records, "the log is another");
    assert_eq!(store.head().unwrap(), records.last().unwrap().last_position());
    for n in (0..STREAMS).step_by(13) {
        let name = stream(&format!("s{n}"));
        let own: Vec<_> = records.iter().filter(|stored| stored.record.stream == name).cloned().collect();
        let end = own.last().map_or(Version(0), |last| last.record.last_version());
        assert_eq!(store.stream_version(&name).unwrap(), end);
        assert!(store.read_stream(&name, Version(1), usize::MAX).unwrap() == own, "{name}");
    }
    let mut author = author.clone().with_fence(store.fence()).with_sets_from(store.fence().epoch * 1_000_000);
    append(&store, author.append_one(&stream(&format!("new{}", store.fence().epoch)), b"goes on"));
    assert_eq!(check_log(&store), records.len() as u64 + 1);
    store.close().unwrap();
}

#[test]
fn opening_reads_only_what_the_index_does_not_cover() {
    let dir = tempfile::tempdir().unwrap();
    let (records, author) = closed(dir.path());
    assert!(runs_kept(dir.path()) >= 2);
    assert_whole(dir.path(), &records, &author);
    // A value that the index covers: opening does not read it, a reader gets the error.
    tamper(dir.path(), |tree| {
        let log = tree("log");
        let mut value = log.get(key(0)).unwrap().unwrap().to_vec();
        value[40] ^= 1;
        log.insert(key(0), value).unwrap();
    });
    let store = SledStore::open(dir.path()).unwrap();
    let broken = store.read_stream(&records[0].record.stream, Version(1), 1);
    assert!(matches!(broken, Err(ReadError::Corrupt { .. })), "{broken:?}");
}

type Damage<'a> = (&'a str, Box<dyn Fn(&dyn Fn(&str) -> sled::Tree) + 'a>);

#[test]
fn whatever_becomes_of_the_index_it_is_built_anew_and_every_answer_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (records, author) = closed(dir.path());
    let before = runs_kept(dir.path());
    let flip = |tree: sled::Tree, key: Vec<u8>| {
        let mut value = tree.get(&key).unwrap().unwrap().to_vec();
        let middle = value.len() / 2;
        value[middle] ^= 4;
        tree.insert(key, value).unwrap();
    };
    let damages: [Damage<'_>; 8] = [
        ("no watermark", Box::new(|tree| drop(tree("meta").remove("index").unwrap()))),
        ("no runs", Box::new(|tree| tree("runs").clear().unwrap())),
        ("a run is missing", Box::new(|tree| drop(tree("runs").remove(key(0)).unwrap()))),
        ("a run is changed", Box::new(|tree| flip(tree("runs"), key(1)))),
        ("the watermark is changed", Box::new(|tree| flip(tree("meta"), b"index".to_vec()))),
        ("the watermark is no text", Box::new(|tree| drop(tree("meta").insert("index", &[255, 0]).unwrap()))),
        ("a stray key", Box::new(|tree| drop(tree("runs").insert(b"stray", b"x").unwrap()))),
        (
            "all is gone",
            Box::new(|tree| {
                tree("runs").clear().unwrap();
                tree("meta").remove("index").unwrap();
            }),
        ),
    ];
    let mut records = records;
    for (what, damage) in damages {
        tamper(dir.path(), |tree| damage(tree));
        // Opening and closing is enough to restore it.
        SledStore::open(dir.path()).unwrap().close().unwrap();
        assert!(runs_kept(dir.path()) >= before, "{what}: opening keeps nothing");
        assert_whole(dir.path(), &records, &author);
        assert!(runs_kept(dir.path()) >= before, "{what}: nothing is kept again");
        let store = SledStore::open(dir.path()).unwrap();
        records = all(&store);
        store.close().unwrap();
    }
}

/// Changes the entry of a record in a sorted block, and gives the block the checksum of what it then holds.
fn change_entry(dir: &Path, block: u64, change: impl Fn(&mut Vec<u8>)) {
    tamper(dir, |tree| {
        let runs = tree("runs");
        let mut bytes = runs.get(key(block)).unwrap().unwrap().to_vec();
        change(&mut bytes);
        let checksum = crc32c::crc32c(&bytes[4..]).to_be_bytes();
        bytes[..4].copy_from_slice(&checksum);
        runs.insert(key(block), bytes).unwrap();
    });
}

/// The length of an entry of a stream that is known: number, ordinal, offset, events, work, tag.
const ENTRY: usize = 4 + 4 + 2 + 2 + 1 + 8;

#[test]
fn an_entry_that_leads_to_another_record_is_found_by_verify_and_mended_by_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let (records, author) = closed(dir.path());
    let wrong = |dir: &Path| {
        let store = SledStore::open(dir).unwrap();
        let found = verify(&store).findings.into_iter().filter(|found| found.kind == FindingKind::Index);
        let found: Vec<_> = found.collect();
        store.close().unwrap();
        found
    };
    assert_eq!(wrong(dir.path()), []);
    // Two entries exchange their streams; opening compares only the last one with the log.
    change_entry(dir.path(), 1, |bytes| {
        let (one, other) = (bytes.len() - 800 * ENTRY, bytes.len() - 801 * ENTRY);
        for at in 0..4 {
            bytes.swap(one + at, other + at);
        }
    });
    let found = wrong(dir.path());
    assert!(found.iter().any(|found| found.stream.is_some() && found.version.is_some()), "{found:?}");
    let store = SledStore::open(dir.path()).unwrap();
    let read = (0..STREAMS).map(|n| store.read_stream(&stream(&format!("s{n}")), Version(1), usize::MAX));
    let errors: Vec<_> = read.filter_map(Result::err).collect();
    assert!(!errors.is_empty(), "no reader meets the entry");
    for error in errors {
        assert!(matches!(error, ReadError::Index { .. }), "{error}");
        assert!(error.to_string().contains("doctor --rebuild-index"), "{error}");
    }
    store.close().unwrap();
    let examined = rebuild_index(dir.path()).unwrap();
    assert!(examined.findings.iter().all(|found| found.part != "index"), "{:?}", examined.findings);
    assert!(examined.notes.iter().any(|note| note.contains("rebuilt")), "{:?}", examined.notes);
    assert_eq!(wrong(dir.path()), []);
    assert_whole(dir.path(), &records, &author);
}

#[test]
fn an_index_that_contradicts_the_rest_of_the_log_is_built_anew_and_the_log_is_not_called_damaged() {
    // A log that rested before it was closed has no records behind its index, and nothing that contradicts it.
    let is_rebuilt = (0..20).any(|_| {
        let dir = tempfile::tempdir().unwrap();
        let (records, author) = closed(dir.path());
        // The tags of the streams' last entries: their next records, after the index, do not follow them.
        change_entry(dir.path(), runs_kept(dir.path()) - 1, |bytes| {
            for entry in 1..40 {
                let tag = bytes.len() - entry * ENTRY - 1;
                bytes[tag] ^= 1;
            }
        });
        let store = SledStore::open(dir.path()).unwrap();
        let rebuilt = |note: &OpenNote| matches!(note, OpenNote::IndexRebuilt { .. });
        let is_rebuilt = store.open_notes().iter().any(rebuilt);
        store.close().unwrap();
        if is_rebuilt {
            assert_whole(dir.path(), &records, &author);
        }
        is_rebuilt
    });
    assert!(is_rebuilt, "no log of twenty had records behind its index");
}

#[test]
fn an_entry_whose_offset_cannot_be_one_makes_the_index_be_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (records, author) = closed(dir.path());
    change_entry(dir.path(), 1, |bytes| {
        let offset = bytes.len() - ENTRY + 8;
        bytes[offset..offset + 2].copy_from_slice(&3_u16.to_be_bytes());
    });
    let store = SledStore::open(dir.path()).unwrap();
    let rebuilt = |note: &OpenNote| matches!(note, OpenNote::IndexRebuilt { .. });
    assert!(store.open_notes().iter().any(rebuilt), "{:?}", store.open_notes());
    store.close().unwrap();
    assert_whole(dir.path(), &records, &author);
}

#[test]
fn a_log_that_rests_before_it_is_closed_is_whole_to_the_last_byte() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let mut author = Author::new(store.fence());
    let appends: Vec<_> = (0..EVENTS)
        .map(|n| store.append(author.append_one(&stream(&format!("s{}", n % STREAMS)), b"x")))
        .collect();
    assert!(runtime().block_on(join_all(appends)).iter().all(Result::is_ok));
    // At rest HEAD is rewritten, and the watermark after it, following the last flush that a caller waits
    // for.
    let since = std::time::Instant::now();
    while !std::fs::read_to_string(dir.path().join("HEAD")).unwrap().contains(&format!("position {EVENTS}\n"))
    {
        assert!(since.elapsed() < std::time::Duration::from_secs(20), "HEAD is not rewritten");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    store.close().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.open_notes(), []);
    store.close().unwrap();
    assert!(runs_kept(dir.path()) >= 2);
}

#[test]
fn an_old_head_put_back_is_no_reason_to_refuse_the_log() {
    let dir = tempfile::tempdir().unwrap();
    drop(SledStore::open(dir.path()).unwrap());
    let old = std::fs::read(dir.path().join("HEAD")).unwrap();
    let (records, author) = closed(dir.path());
    std::fs::write(dir.path().join("HEAD"), old).unwrap();
    assert_whole(dir.path(), &records, &author);
}

#[test]
fn the_index_knows_the_open_work_that_the_log_tells_of() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(SledStore::open(dir.path()).unwrap());
    let log = store.clone();
    let ids: Vec<StreamId> = runtime.block_on(async move {
        let hang = |_: Nothing| std::future::pending::<Result<(), std::convert::Infallible>>();
        let system =
            taskreel::System::builder("-").store(log).tool("hang", "Hangs", hang).start().await.unwrap();
        let mut hanging = Vec::new();
        for n in 0..20 {
            let name = if n % 3 == 0 { "hang" } else { "nothing" };
            let part = taskreel::Part::tool_call(name, proto_events::json!({})).unwrap();
            let task = system.submit(part).await.unwrap();
            if n % 3 == 0 {
                hanging.push(task.stream().clone());
            } else {
                task.finished().await.unwrap();
            }
        }
        hanging.sort();
        hanging
    });
    // As a killed process leaves it.
    store.close().unwrap();
    drop(runtime);
    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.open_work().unwrap(), ids);
    assert_eq!(open_work(&store).unwrap(), ids, "read from the log");
}

#[derive(serde::Deserialize, taskreel::JsonSchema)]
struct Nothing {}
