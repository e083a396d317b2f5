//! A disk whose every sync fails from some moment on: closing, reopening and dropping a log return errors. The
//! database's panics reach nobody, nothing of them is printed, the process goes on, and the host's own panic
//! hook is called for the host's panics.
//!
//! strace lets the syncs fail whose file is in a directory of a certain name, which the log gets at that moment.
#![cfg(all(feature = "testing", unix))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; a host's hook prints"
)]

mod store_support;

use std::path::Path;
use std::process::{Command, Stdio};

use store_support::append;
use taskreel_log::api::{EventStore as _, OpenError};
use taskreel_log::sled::{SledDamaged, SledStore};
use taskreel_log::testing::conformance::{Author, stream};

const ROOT: &str = "TASKREEL_BAD_DISK_ROOT";
const WORK: &str = "TASKREEL_BAD_DISK_WORK";
const ENTRY: &str = "the_child_whose_disk_goes_bad";

/// Entry of the process whose disk goes bad; not a test of its own.
#[test]
fn the_child_whose_disk_goes_bad() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    std::panic::set_hook(Box::new(|panic| eprintln!("HOST {panic}")));
    let log = Path::new(&root).join("log");
    let store = SledStore::open(&log).unwrap();
    append(&store, Author::new(store.fence()).append_one(&stream("acknowledged"), b"x"));
    // From now on its files are in a directory where no sync succeeds.
    std::fs::rename(&log, log.with_file_name("bad")).unwrap();
    std::os::unix::fs::symlink("bad", &log).unwrap();
    let told = match std::env::var(WORK).unwrap().as_str() {
        "close" => format!("{:?}", store.close().unwrap_err()),
        "drop" => {
            drop(store);
            "dropped".to_owned()
        }
        "reopen" => {
            let first = store.reopen().err().unwrap();
            let second = store.reopen().err().unwrap();
            assert!(matches!(&first, OpenError::Io { .. }), "{first}");
            assert!(matches!(&second, OpenError::Io { .. }), "{second}");
            first.to_string()
        }
        "look" => {
            store.close().unwrap_err();
            format!("{:?}", SledDamaged::open(&log).map(drop))
        }
        "unwind" => {
            let unwound = std::thread::spawn(move || {
                let _store = store;
                panic!("of the host");
            });
            (*unwound.join().unwrap_err().downcast::<&str>().unwrap()).to_owned()
        }
        other => panic!("{other}"),
    };
    println!("\nTOLD {told}");
}

/// Returns what the child told, and its error output.
fn on_a_bad_disk(work: &str) -> (String, String) {
    let root = store_support::quick_dir();
    let bad = root.path().canonicalize().unwrap().join("bad/db");
    let done = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", "signal=none", "-e", "trace=fsync,fdatasync", "-P"])
        .arg(bad)
        .args(["-e", "inject=fsync,fdatasync:error=EIO"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", ENTRY, "--nocapture", "--test-threads=1"])
        .env(ROOT, root.path())
        .env(WORK, work)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (said, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{work}: {}\n{said}\n{errors}", done.status);
    let told = said.lines().find_map(|line| line.strip_prefix("TOLD ")).unwrap();
    (told.to_owned(), errors.into_owned())
}

fn strace_works() -> bool {
    let tried = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let works = tried.is_ok_and(|status| status.success());
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(works || !ci, "strace is missing or may not watch; with CI=true that is a failure");
    if !works {
        eprintln!("NOT CHECKED: strace is missing or may not watch, so no disk went bad");
    }
    works
}

#[test]
fn on_a_disk_that_stays_bad_every_end_of_a_log_is_an_error_and_none_a_panic() {
    if !strace_works() {
        return;
    }
    for (work, expected) in [
        ("close", "Input/output error"),
        ("drop", "dropped"),
        ("reopen", "Input/output error"),
        ("look", ""),
        ("unwind", "of the host"),
    ] {
        let (told, errors) = on_a_bad_disk(work);
        assert!(told.contains(expected), "{work}: {told}");
        let of_host = errors.lines().filter(|line| line.starts_with("HOST ")).count();
        assert_eq!(of_host, usize::from(work == "unwind"), "{work}: {errors}");
        assert!(!errors.contains("sled-0.34"), "{work}: a panic of the database was printed: {errors}");
    }
}
