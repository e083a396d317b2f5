//! The commands that only read leave no trace: on closed, unclean and damaged logs, in directories that cannot be
//! written, by another user, many at once, and beside a program that writes.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;
mod small_disk;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use binary::{Place, Ran, small_log};
use proto_events::id::Digest;
use small_disk::SmallDisk;
use taskreel_log::sled::SledStore;

const LOG: &str = "taskreel-log";

/// The commands that only read, each with a task of the log, and their exit codes on a sound log.
fn reading(place: &Place) -> Vec<(String, i32)> {
    let shown = place.run("show ask-0001 --json").ended(0).json();
    let call = shown[0]["calls"][0]["call_id"].as_str().unwrap();
    // The disk on which the tests run may be full.
    let attention = place.run("attention --json").json().iter().any(|row| row["kind"] == "disk");
    let prompt = format!("prompt {call}");
    [
        ("ls", 0),
        ("ls --sessions", 0),
        ("ls --tools", 0),
        ("show sum-0001", 0),
        ("events sum-0001", 0),
        ("events --all", 0),
        ("event sum-0001 2", 0),
        ("state sum-0001", 0),
        ("artifact sum-0001", 0),
        (prompt.as_str(), 0),
        ("replay --all", 0),
        ("verify", 0),
        ("diff sum-0001 1 2", 1),
        ("diff sum-0001 bad-0001", 1),
        ("explain sum-0001", 0),
        ("calls", 0),
        ("attention", i32::from(attention)),
        ("stats", 0),
        ("search Oslo", 0),
        ("search nowhere-at-all", 1),
        ("trace ask-0001", 0),
        ("seq ask-0001", 0),
        ("graph ask-0001", 0),
        ("transcript ask-0001", 0),
        ("report ask-0001", 0),
        ("export", 0),
        ("doctor", 0),
        // It follows the log until it is asked to end.
        ("tail", 130),
        ("tail sum-0001", 130),
    ]
    .map(|(line, code)| (line.to_owned(), code))
    .to_vec()
}

/// The exit codes where some commands end with another one than on a sound log.
fn with(mut codes: Vec<(String, i32)>, other: &[(&str, i32)]) -> Vec<(String, i32)> {
    for (line, code) in &mut codes {
        *code = other.iter().find(|(other, _)| line == other).map_or(*code, |(_, code)| *code);
    }
    codes
}

/// Mode, owner, inode, time of change and contents of every file, and of the folders.
type Trace = BTreeMap<String, (u32, u32, u64, (i64, i64), Option<Digest>)>;

fn trace(dir: &Path) -> Trace {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let seen = std::fs::symlink_metadata(&path).unwrap();
        let mut digest = None;
        if seen.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            digest = std::fs::read(&path).map(|bytes| Digest::compute(&bytes)).ok();
        }
        let changed = (seen.mtime(), seen.mtime_nsec());
        found.insert(path.display().to_string(), (seen.mode(), seen.uid(), seen.ino(), changed, digest));
    }
    found
}

/// Runs all these commands, each of which must leave the directory as it is. Returns their exit codes.
#[track_caller]
fn read_all(place: &Place, lines: &[(String, i32)]) -> Vec<(String, i32)> {
    let before = trace(&place.path().join(LOG));
    let codes = lines.iter().map(|(line, _)| {
        let ran = place.read(line);
        assert_eq!(trace(&place.path().join(LOG)), before, "{line}: {}", ran.err());
        assert_eq!(place.copies(), Vec::<String>::new(), "{line}");
        (line.clone(), ran.code().unwrap())
    });
    let codes = codes.collect();
    place.run("salvage taskreel-log saved.ndjson").ended(0);
    assert_eq!(trace(&place.path().join(LOG)), before);
    std::fs::remove_file(place.path().join("saved.ndjson")).unwrap();
    codes
}

#[test]
fn reading_a_closed_log_changes_no_byte_name_mode_or_time() {
    let place = small_log();
    let sound = reading(&place);
    assert_eq!(read_all(&place, &sound), sound);
}

#[test]
fn an_unclean_end_is_noted_by_every_command_and_stays() {
    let place = small_log();
    let sound = reading(&place);
    // It has the log open, with a call in flight, when it is killed.
    let slow = r#"{"id":"slow-0001","messages":[{"role":"user","parts":[{"type":"tool_call","content":{"tool_name":"slow","args":{"ms":60000}}}]}]}"#;
    std::fs::write(place.path().join("slow.json"), slow).unwrap();
    let mut held =
        place.command(["run", "slow.json"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = std::time::Instant::now();
    while place.run("events slow-0001 --kind CallDispatched --json").out().is_empty() {
        assert!(began.elapsed().as_secs() < 30, "the call is not sent");
    }
    held.kill().unwrap();
    held.wait().unwrap();
    assert!(place.path().join(LOG).join("holder").exists(), "the holder's file is left");
    assert_eq!(read_all(&place, &sound), with(sound, &[("attention", 1)]));
    for _ in 0..2 {
        let said = place.run("ls").ended(0).err();
        assert!(said.contains("was not closed"), "{said}");
    }
}

/// Kills a process once a condition holds, or after a second.
fn kill_when(child: &mut std::process::Child, holds: impl Fn() -> bool) {
    let since = std::time::Instant::now();
    while !holds() && since.elapsed() < std::time::Duration::from_secs(1) {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_damaged_index_is_told_and_left_until_it_is_rebuilt_on_request() {
    let place = small_log();
    let sound = reading(&place);
    let dir = place.path().join(LOG);
    let db = sled::Config::new().path(&dir).segment_size(4 * 1024 * 1024).open().unwrap();
    db.open_tree("meta").unwrap().insert("index", "taskreel index 1").unwrap();
    db.flush().unwrap();
    drop(db);
    // Until the database's own threads have released the directory.
    std::fs::File::open(dir.join("db")).unwrap().lock().unwrap();
    assert_eq!(read_all(&place, &sound), with(sound, &[("doctor", 1)]));
    place.run("doctor --rebuild-index").ended(0);
    place.run("doctor").ended(0);
}

#[test]
fn a_directory_that_cannot_be_written_is_read() {
    let place = small_log();
    let sound = reading(&place);
    let dir = place.path().join(LOG);
    let Some(_mounted) = ReadOnlyMount::of(&dir) else {
        eprintln!("not tested: this user cannot mount");
        return;
    };
    assert!(std::fs::write(dir.join("x"), "").is_err(), "it can be written");
    assert_eq!(read_all(&place, &sound), sound);
}

/// A directory mounted over itself for reading only. Dropping it unmounts it.
struct ReadOnlyMount<'a>(&'a Path);

impl<'a> ReadOnlyMount<'a> {
    fn of(dir: &'a Path) -> Option<Self> {
        let mount = |options: &[&str]| {
            let mut command = Command::new("mount");
            command.args(options).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let path = dir.to_str().unwrap();
        if !mount(&["--bind", path, path]) {
            return None;
        }
        let mounted = Self(dir);
        mount(&["-o", "remount,ro,bind", path]).then_some(mounted)
    }
}

impl Drop for ReadOnlyMount<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[test]
fn another_user_reads_a_log_that_only_its_owner_writes() {
    let place = small_log();
    let sound = reading(&place);
    let dir = place.path().join(LOG);
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // The binary may stand in a folder that is closed to others.
    let binary = scratch.path().join("taskreel");
    std::fs::copy(env!("CARGO_BIN_EXE_taskreel"), &binary).unwrap();
    let is_there = Command::new("setpriv").arg("--version").output().is_ok();
    let as_member = |group: &str, line: &str| -> Option<Ran> {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", group, "--clear-groups"]).arg(&binary);
        command.args(line.split_whitespace()).args(["--data-dir", LOG, "--scratch"]);
        let command = command.arg(scratch.path().join("copies")).current_dir(place.path());
        is_there.then(|| binary::read(command, line))
    };
    let as_nobody = |line: &str| as_member("65534", line);
    if as_nobody("--version --json").is_none_or(|ran| ran.code() != Some(0)) {
        eprintln!("not tested: this user cannot become another");
        return;
    }
    as_nobody("ls").unwrap().ended(5).told(&["taskreel.format", "--group-readable"]);
    // The group is let in where that is wanted, and nobody else is.
    let group = std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(&dir).unwrap()).to_string();
    as_member(&group, "ls").unwrap().ended(5);
    place.run_tasks(binary::TASKS, "--script script.json --group-readable").ended(1);
    for (line, code) in &sound {
        as_member(&group, line).unwrap().ended(*code);
    }
    as_nobody("ls").unwrap().ended(5);
    let let_in = Command::new("chmod").args(["-R", "o+rX", LOG]).current_dir(place.path()).status();
    assert!(let_in.unwrap().success());
    let before = trace(&dir);
    for (line, code) in sound {
        as_nobody(&line).unwrap().ended(code);
        assert_eq!(trace(&dir), before, "{line}");
    }
    assert_eq!(std::fs::read_dir(scratch.path().join("copies")).unwrap().count(), 0);
}

#[test]
fn eight_readers_at_once_are_all_served_without_a_trace() {
    let place = small_log();
    let before = trace(&place.path().join(LOG));
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let mut command = place.command(["verify", "--json"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let ended: Vec<_> = readers.into_iter().map(binary::end).collect();
    for ran in &ended {
        assert!(ran.code() == Some(0), "{}", ran.err());
        assert!(ran.out().contains(r#""faults":0"#));
    }
    assert_eq!(trace(&place.path().join(LOG)), before);
    assert_eq!(place.copies(), Vec::<String>::new());
}

#[test]
fn a_log_is_read_in_a_loop_beside_processes_that_write_it() {
    let place = small_log();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::Acquire) {
                number += 1;
                let task = format!(
                    r#"{{"id":"more-{number:04}","messages":[{{"role":"user","parts":[{{"type":"text","content":"x"}}]}}]}}"#
                );
                place.run_tasks(&task, "").ended(0);
            }
            number
        });
        let mut last = 0;
        for _ in 0..12 {
            let ran = place.run("verify --json");
            if ran.code() != Some(0) {
                done.store(true, Ordering::Release);
            }
            let ran = ran.ended(0);
            assert!(!ran.err().contains("was not closed"), "{}", ran.err());
            let listed = place.run("ls --json").ended(0).json().len();
            assert!(listed >= last, "{listed} after {last}");
            last = listed;
        }
        done.store(true, Ordering::Release);
        assert!(writer.join().unwrap() > 1);
    });
}

#[test]
fn a_copy_without_room_is_refused_with_both_figures_and_the_ways_out() {
    let place = small_log();
    let Some(disk) = SmallDisk::mount(256) else {
        eprintln!("not tested: this user cannot mount");
        return;
    };
    let scratch = disk.path().display().to_string();
    let ran = place.run(&format!("ls --scratch {scratch}")).ended(5);
    ran.told(&["private copy", "bytes", "free", "--scratch", &scratch]);
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 0, "what was begun is removed");
    place.run("ls").ended(0);
}

#[test]
fn the_copy_of_a_killed_reader_is_removed_by_the_next_command() {
    let place = small_log();
    // The reader stands still with its copy, since nobody takes its output.
    let filler =
        r#"{"id":"long-0001","messages":[{"role":"user","parts":[{"type":"text","content":"TEXT"}]}]}"#;
    place.run_tasks(&filler.replace("TEXT", &"x".repeat(400_000)), "").ended(0);
    let mut reader = place.command(["export"]).stdout(Stdio::piped()).spawn().unwrap();
    kill_when(&mut reader, || !place.copies().is_empty());
    assert_eq!(place.copies().len(), 1, "the reader was killed with its copy");
    place.run("ls").ended(0);
    assert_eq!(place.copies(), Vec::<String>::new());
}

#[test]
fn a_reader_that_is_told_to_end_removes_its_copy_and_ends_as_interrupted() {
    let place = small_log();
    let filler =
        r#"{"id":"long-0001","messages":[{"role":"user","parts":[{"type":"text","content":"TEXT"}]}]}"#;
    place.run_tasks(&filler.replace("TEXT", &"x".repeat(400_000)), "").ended(0);
    for (signal, line) in [("INT", "export"), ("TERM", "state long-0001"), ("HUP", "events --all --full")] {
        // It stands still with its copy, since nobody takes its output.
        let mut reader = place.command(line.split(' ')).stdout(Stdio::piped()).spawn().unwrap();
        let began = std::time::Instant::now();
        while place.copies().is_empty() {
            assert!(began.elapsed().as_secs() < 30, "{line} made no copy");
            std::thread::yield_now();
        }
        let id = reader.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
        assert_eq!(binary::exit_code(&mut reader), Some(130), "SIG{signal} to {line}");
        assert_eq!(place.copies(), Vec::<String>::new(), "SIG{signal} to {line}");
    }
}

#[test]
fn a_log_that_is_held_without_a_socket_is_read_and_not_refused() {
    let place = small_log();
    let sound = reading(&place);
    let store = SledStore::open(place.path().join(LOG)).unwrap();
    for (line, code) in sound {
        let ran = place.read(&line).ended(code);
        assert!(!ran.err().contains("was not closed"), "{line}: {}", ran.err());
    }
    drop(store);
}
