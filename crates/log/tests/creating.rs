//! Several processes that create or open one directory at once, and what a new holder finds: one wins, the
//! others are told that it is in use, and the log is whole. A pipe in the place of one of its files is refused.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; its figures are to be seen"
)]

mod store_support;

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use proto_events::id::Position;
use store_support::{append, closed_log, quick_dir};
use taskreel_log::api::{EventReader as _, EventStore as _, OpenError, OpenNote};
use taskreel_log::sled::{SledOptions, SledStore};
use taskreel_log::testing::conformance::{Author, check_log, stream};

const WORKER: &str = "TASKREEL_CREATING";
const ENTRY: &str = "the_process_that_opens";

/// Entry of the processes that open; not a test of its own.
#[test]
fn the_process_that_opens() {
    if std::env::var_os(WORKER).is_none() {
        return;
    }
    let say = |line: &str| {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("\nTOLD {line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
    };
    let mut store = None;
    for line in std::io::stdin().lines().map_while(Result::ok) {
        if line == "close" {
            store.take().map_or(Ok(()), |store: SledStore| store.close()).unwrap();
            say("closed");
            continue;
        }
        match SledStore::open(line) {
            Ok(opened) => {
                if opened.head().unwrap() == Position(0) {
                    append(&opened, Author::new(opened.fence()).append_one(&stream("winner"), b"x"));
                }
                store = Some(opened);
                say("opened");
            }
            Err(OpenError::Held { .. }) => say("held"),
            Err(other) => say(&format!("OTHER {other}")),
        }
    }
}

/// A process that opens what it is told.
struct Opener {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Opener {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", ENTRY, "--nocapture", "--test-threads=1"])
            .env(WORKER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut told = self.lines.by_ref().map_while(Result::ok);
        told.find_map(|line| line.strip_prefix("TOLD ").map(str::to_owned)).unwrap()
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn holder(dir: &Path) -> Option<String> {
    std::fs::read_to_string(dir.join("holder")).ok()
}

#[test]
fn of_processes_that_create_one_directory_at_once_one_wins_and_the_others_are_told_that_it_is_in_use() {
    let root = quick_dir();
    let mut openers: Vec<Opener> = (0..3).map(|_| Opener::start()).collect();
    let (mut held, mut bad) = (0, Vec::new());
    for round in 0..60 {
        let dir = root.path().join(format!("parent-{round}/log"));
        for opener in &mut openers {
            opener.tell(dir.to_str().unwrap());
        }
        let answers: Vec<_> = openers.iter_mut().map(Opener::answer).collect();
        held += answers.iter().filter(|answer| *answer == "held").count();
        let won = answers.iter().filter(|answer| *answer == "opened").count();
        if won != 1 || answers.iter().any(|answer| answer.starts_with("OTHER")) {
            bad.push(format!("round {round}: {answers:?}"));
        }
        for opener in &mut openers {
            opener.tell("close");
            assert_eq!(opener.answer(), "closed");
        }
        match SledStore::open(&dir) {
            Ok(store) => {
                assert_eq!((check_log(&store), store.open_notes()), (1, &[][..]), "round {round}");
                store.close().unwrap();
            }
            Err(why) => bad.push(format!("round {round}: it does not open any more: {why}")),
        }
    }
    eprintln!("creating: 60 directories by 3 processes at once, {held} told that it was in use");
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(held, 120);
}

#[test]
fn a_log_that_is_opened_while_another_process_closes_it_keeps_the_new_holders_file() {
    let root = quick_dir();
    let dir = root.path().join("log");
    closed_log(&dir);
    let mut opener = Opener::start();
    for round in 0..60 {
        opener.tell(dir.to_str().unwrap());
        assert_eq!(opener.answer(), "opened");
        opener.tell("close");
        let store = loop {
            match SledStore::open(&dir) {
                Ok(store) => break store,
                Err(OpenError::Held { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(opener.answer(), "closed");
        let text = holder(&dir);
        let own = format!("pid {}\n", std::process::id());
        assert!(text.is_some_and(|text| text.starts_with(&own)), "round {round}: {:?}", holder(&dir));
        store.close().unwrap();
        assert_eq!(holder(&dir), None);
    }
}

#[test]
fn a_holder_file_of_another_process_stays_when_this_one_closes() {
    let root = quick_dir();
    let dir = root.path().join("log");
    let store = SledStore::open(&dir).unwrap();
    let other = "pid 1\nprogram other\nstarted 2026-01-01T00:00:00Z\n";
    std::fs::write(dir.join("holder"), other).unwrap();
    store.close().unwrap();
    assert_eq!(holder(&dir).as_deref(), Some(other));
}

#[test]
fn an_epoch_below_that_of_the_records_is_raised_over_them_and_noted() {
    let root = quick_dir();
    let dir = root.path().join("log");
    let mut author = closed_log(&dir);
    for large in [1, 6_000] {
        for _ in 0..4 {
            let store = SledStore::open(&dir).unwrap();
            author = author.with_fence(store.fence());
            // The last ones end a block of the index, so that nothing is left to be scanned.
            let many = (0..large).map(|n| (stream(&format!("s{n}")), vec![b"x".to_vec()]));
            for part in many.collect::<Vec<_>>().chunks(1_000) {
                append(&store, author.many(part));
            }
            store.close().unwrap();
        }
        let before = SledStore::open(&dir).unwrap();
        let epoch = before.fence().epoch;
        before.close().unwrap();
        set_epoch(&dir, 1);
        let store = SledStore::open(&dir).unwrap();
        let notes = store.open_notes();
        assert!(
            matches!(notes, [OpenNote::EpochBehind { database: 1, records }] if *records == epoch - 1),
            "{notes:?}"
        );
        assert_eq!(store.fence().epoch, epoch, "one more than the records'");
        store.close().unwrap();
        assert_eq!(SledStore::open(&dir).unwrap().open_notes(), []);
    }
}

fn set_epoch(dir: &Path, epoch: u64) {
    let db = sled::Config::new().path(dir).segment_size(4 * 1024 * 1024).open().unwrap();
    db.open_tree("meta").unwrap().insert("epoch", &epoch.to_be_bytes()).unwrap();
    db.flush().unwrap();
    drop(db);
    std::fs::File::open(dir.join("db")).unwrap().lock().unwrap();
}

#[test]
fn a_log_opens_with_a_cache_of_any_number_of_bytes() {
    let dir = quick_dir();
    closed_log(dir.path());
    let head = SledStore::open(dir.path()).unwrap().head().unwrap();
    for cache_bytes in [0, 1, 255, 256, 1 << 20, u64::MAX] {
        let options = SledOptions { cache_bytes, ..SledOptions::default() };
        let store = SledStore::open_with(dir.path(), options).unwrap();
        assert_eq!(store.head().unwrap(), head, "{cache_bytes} bytes");
        assert_eq!(store.read_all(Position(0), 100).unwrap().len() as u64, head.0, "{cache_bytes} bytes");
        store.close().unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_in_the_place_of_a_file_of_the_log_is_refused_by_its_name_and_nobody_waits_for_a_writer() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use taskreel_log::sled::{ReadOnlyLog, SledRemains};

    // The last one is a name under which sled looks for the newest snapshot of its own.
    for name in ["HEAD", "taskreel.format", "db", "conf", "snap.00000000FFFFFFFF"] {
        let folder = quick_dir();
        let dir = folder.path().to_owned();
        SledStore::open(&dir).unwrap().close().unwrap();
        let _ = std::fs::remove_file(dir.join(name));
        mknodat(CWD, dir.join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let reader = ReadOnlyLog::open(&dir).map(|_| ());
            let writer = SledStore::open(&dir).map(|_| ());
            // What is left of a log is searched for in its database file alone.
            let remains = SledRemains::search(&dir).map(|_| ());
            let refused = [reader, writer].map(|opened| opened.unwrap_err().to_string()).to_vec();
            let _ =
                tell.send(refused.into_iter().chain(remains.err().map(|error| error.to_string())).collect());
        });
        let refused = told.recv_timeout(std::time::Duration::from_secs(30)).expect("it waits for a writer");
        let refused: Vec<String> = refused;
        assert_eq!(refused.len(), if name == "db" { 3 } else { 2 }, "{name}: {refused:?}");
        for why in refused {
            assert!(why.contains(name) && why.contains("no plain file"), "{why}");
        }
    }
}

#[test]
fn a_log_whose_folder_of_blobs_is_gone_opens_and_has_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("deep").join("log");
    SledStore::open(&dir).unwrap().close().unwrap();
    std::fs::remove_dir(dir.join("blobs")).unwrap();
    SledStore::open(&dir).unwrap().close().unwrap();
    assert!(dir.join("blobs").is_dir());
    std::fs::remove_dir(dir.join("blobs")).unwrap();
    std::fs::write(dir.join("blobs"), "a file").unwrap();
    let refused = SledStore::open(&dir).err().unwrap().to_string();
    assert!(refused.contains("blobs"), "{refused}");
}

#[cfg(unix)]
#[test]
fn a_new_log_is_its_owners_alone_and_its_group_reads_it_where_that_was_wanted() {
    use std::os::unix::fs::PermissionsExt as _;
    let rights = |dir: &Path| {
        let mut all = vec![(dir.to_owned(), std::fs::metadata(dir).unwrap())];
        all.extend(std::fs::read_dir(dir).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            let found = std::fs::metadata(&path).unwrap();
            (path, found)
        }));
        all.into_iter().map(|(path, found)| (path, found.permissions().mode() & 0o777)).collect::<Vec<_>>()
    };
    // A snapshot after each append, so that all files of a log were made.
    let options = SledOptions { snapshot_every_bytes: 1, ..SledOptions::default() };
    let live = |dir: &Path| {
        let store = SledStore::open_with(dir, options).unwrap();
        let mut author = Author::new(store.fence()).with_sets_from(store.fence().epoch * 1_000);
        for number in 0..4 {
            append(&store, author.append_one(&stream(&format!("{}-{number}", store.fence().epoch)), b"x"));
        }
        store.close().unwrap();
    };
    let place = quick_dir();
    let made = place.path().join("made").join("log");
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for dir in [&made, &empty] {
        for _ in 0..2 {
            live(dir);
            let open = rights(dir);
            let open: Vec<_> = open.iter().filter(|(_, rights)| rights & 0o077 != 0).collect();
            assert!(open.is_empty(), "{open:?}");
        }
        taskreel_log::sled::let_group_read(dir).unwrap();
        for _ in 0..2 {
            live(dir);
            for (path, rights) in rights(dir) {
                let expected = if path == *dir {
                    0o750
                } else if path.is_dir() {
                    rights
                } else {
                    0o640
                };
                assert_eq!((rights, rights & 0o007), (expected, 0), "{}", path.display());
            }
        }
    }
    // A log of an earlier release stays as open as it was.
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (path, _) in rights(&made).into_iter().filter(|(path, _)| path.is_file()) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    live(&made);
    for (path, rights) in rights(&made).into_iter().filter(|(path, _)| path.is_file()) {
        assert_eq!(rights, 0o644, "{}", path.display());
    }
}
