//! A log in a directory survives closing, dropping, a killed process, and a second opener.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod store_support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use proto_events::id::{LogId, Position};
use store_support::{all, append, closed_log, fill, runtime};
use taskreel_log::api::{
    AppendError, Durability, EventReader as _, EventStore as _, Fence, OpenError, ReadError,
};
use taskreel_log::sled::{SledImport, SledOptions, SledStore, blob_files};
use taskreel_log::testing::conformance::{Author, check_log, stream};

#[test]
fn a_log_opened_again_is_the_same_and_has_a_new_fence() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let first = store.fence();
    let mut author = Author::new(first);
    fill(&store, &mut author, 50);
    let large: Vec<_> = (0..9).map(|n| (stream(&format!("large{n}")), vec![vec![n; 20_000]])).collect();
    let large = author.many(&large);
    append(&store, large.clone());
    let huge = vec![vec![1; 300_000], vec![2], vec![3; 100_000]];
    append(&store, author.many(&[(stream("huge"), huge)]));
    let before = all(&store);
    store.close().unwrap();

    let store = SledStore::open(dir.path()).unwrap();
    assert_eq!(all(&store), before);
    assert_eq!(check_log(&store), 62);
    assert_eq!(store.fence().epoch, first.epoch + 1);
    let again = runtime().block_on(store.append(large)).unwrap();
    assert_eq!(again.parts.last().unwrap().position, Position(59), "the first answer outlives the process");
    let stale = runtime().block_on(store.append(author.clone().append_one(&stream("s0"), b"stale")));
    assert!(matches!(stale, Err(AppendError::Fenced { .. })), "{stale:?}");
    let mut author = author.with_fence(store.fence()).with_sets_from(5_000);
    fill(&store, &mut author, 10);
    append(&store, author.append_one(&stream("huge"), &vec![4; 200_000]));
    assert_eq!(check_log(&store), 73);
    assert_eq!(blob_files(dir.path()).unwrap(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_store_dropped_without_closing_keeps_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let store = SledStore::open(dir.path()).unwrap();
        assert_eq!(check_log(&store), round * 10);
        let mut author = Author::new(store.fence()).with_sets_from(round * 100 + 1);
        for _ in 0..10 {
            append(&store, author.append_one(&stream(&format!("round{round}")), b"x"));
        }
        drop(store);
    }
}

#[test]
fn a_log_keeps_the_durability_that_it_was_made_with() {
    let dir = tempfile::tempdir().unwrap();
    let with =
        |durability| SledStore::open_with(dir.path(), SledOptions { durability, ..SledOptions::default() });
    let store = with(Some(Durability::Os)).unwrap();
    let mut author = Author::new(store.fence());
    fill(&store, &mut author, 30);
    store.close().unwrap();
    let header = std::fs::read_to_string(dir.path().join("taskreel.format")).unwrap();
    assert!(header.contains("\ndurability os\n"), "{header}");
    let refused = with(Some(Durability::Strict)).unwrap_err();
    assert!(matches!(refused, OpenError::OtherDurability { .. }), "{refused}");
    let store = with(None).unwrap();
    assert_eq!((store.durability(), check_log(&store)), (Durability::Os, 30));
}

#[test]
fn a_second_store_in_this_process_is_told_that_this_one_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let refused = SledStore::open(dir.path()).unwrap_err();
    assert!(refused.to_string().contains("in this process"), "{refused}");
    store.close().unwrap();
    SledStore::open(dir.path()).unwrap();
}

/// Entry of the process that the tests below start; not a test of its own.
#[test]
fn child() {
    let Ok(dir) = std::env::var("TASKREEL_TEST_LOG") else {
        return;
    };
    let store = match SledStore::open(dir) {
        Ok(store) => store,
        Err(error) => {
            println!("\nREFUSED {error}");
            return;
        }
    };
    let mut author = Author::new(store.fence()).with_sets_from(store.fence().epoch * 1_000_000);
    let mine = stream(&format!("epoch{}", store.fence().epoch));
    println!("\nOPEN {} {}", std::process::id(), store.head().unwrap());
    for n in 1_u32.. {
        append(&store, author.append_one(&mine, &n.to_be_bytes().repeat(50)));
        println!("\nACKED {}", store.head().unwrap());
    }
}

/// Runs `child` on a log, and reads its lines.
fn spawn_child(dir: &Path) -> (std::process::Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env("TASKREEL_TEST_LOG", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    (child, lines)
}

#[test]
fn a_store_in_another_process_is_told_who_holds_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let (mut child, mut lines) = spawn_child(dir.path());
    let refused = lines.find(|line| line.starts_with("REFUSED")).unwrap();
    assert!(refused.contains(&format!("in process {}", std::process::id())), "{refused}");
    child.wait().unwrap();
    drop(store);

    let (mut child, mut lines) = spawn_child(dir.path());
    lines.find(|line| line.starts_with("ACKED")).unwrap();
    match SledStore::open(dir.path()).unwrap_err() {
        OpenError::Held { holder: Some(holder), .. } => assert_eq!(holder.pid, child.id()),
        other => panic!("{other}"),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The dead process's `holder` file is still there and means nothing.
    SledStore::open(dir.path()).unwrap();
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut acked = 0;
    for round in 1..=12 {
        let (mut child, lines) = spawn_child(dir.path());
        let mut heads = lines.filter_map(|line| line.strip_prefix("ACKED ").map(str::to_owned));
        acked = heads.nth(round * 13).unwrap().parse().unwrap();
        child.kill().unwrap();
        // The lines printed until it was killed count as well.
        acked = heads.last().map_or(acked, |last| last.parse().unwrap());
        child.wait().unwrap();
        let store = SledStore::open(dir.path()).unwrap();
        assert!(check_log(&store) >= acked, "round {round}");
    }
    assert!(acked > 500);
}

#[test]
fn a_missing_head_is_computed_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    closed_log(dir.path());
    let path = dir.path().join("HEAD");
    let head = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    SledStore::open(dir.path()).unwrap().close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), head);
}

#[test]
fn head_follows_the_log_while_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    append(&store, Author::new(store.fence()).append_one(&stream("a"), b"x"));
    let since = std::time::Instant::now();
    // There are no more appends: the writer rewrites it by itself.
    while !std::fs::read_to_string(dir.path().join("HEAD")).unwrap().contains("position 1\n") {
        assert!(since.elapsed().as_secs() < 20, "HEAD was not rewritten");
        std::thread::yield_now();
    }
}

#[test]
fn closing_does_not_wait_for_a_survey_which_ends_and_may_read_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let mut author = Author::new(store.fence());
    for n in 0..50 {
        append(&store, author.append_one(&stream(&format!("s{n}")), b"x"));
    }
    let (seen, first) = channel();
    let (go_on, told) = channel();
    let (closed, done) = channel();
    std::thread::scope(|threads| {
        let store = &store;
        let surveys = threads.spawn(move || {
            let (mut records, mut errors) = (0, Vec::new());
            store.survey(&mut |read| match read {
                Ok(_) if records == 0 => {
                    records = 1;
                    seen.send(()).unwrap();
                    told.recv().unwrap();
                    assert!(matches!(store.head(), Err(ReadError::Closed)));
                }
                Ok(_) => records += 1,
                Err(error) => errors.push(error),
            });
            (records, errors)
        });
        first.recv().unwrap();
        threads.spawn(move || closed.send(store.close()).unwrap());
        let ended = done.recv_timeout(Duration::from_secs(20));
        go_on.send(()).unwrap();
        ended.expect("closing waits for the survey").unwrap();
        let (records, errors) = surveys.join().unwrap();
        assert!((1..50).contains(&records), "{records}");
        assert!(matches!(errors.as_slice(), [ReadError::Closed]), "one error, then the end: {errors:?}");
    });
    let mut told = Vec::new();
    store.survey_index(&mut |error| told.push(error));
    assert!(matches!(told.as_slice(), [ReadError::Closed]), "{told:?}");
}

#[test]
fn an_import_takes_no_epoch_that_leaves_the_log_few_openings() {
    for (epoch, is_taken) in
        [(u64::MAX, false), (u64::MAX - 1, false), ((1 << 62) + 1, false), (1 << 62, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut author = Author::new(Fence { partition: 0, epoch });
        let append = author.append_one(&stream("a"), b"x");
        let mut import = SledImport::create(dir.path(), LogId::default(), Durability::Strict).unwrap();
        let taken = import.take(append.parts.into_iter().map(|part| part.record).collect());
        assert_eq!(taken.is_ok(), is_taken, "{epoch}: {taken:?}");
        if is_taken {
            import.finish().unwrap();
            for later in 1..=3 {
                let store = SledStore::open(dir.path()).unwrap();
                assert_eq!(store.fence().epoch, epoch + later);
                store.close().unwrap();
            }
        }
    }
}
