//! A full disk: commands fail with a clear error, what was acknowledged stays readable, and work continues
//! once there is room. Tested on a disk of a few megabytes if this user can mount one; otherwise with a store
//! that runs out of space, and with a limit on the size of files.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

mod binary;
mod served;
mod small_disk;

use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

use binary::{Place, Ran};
use futures_util::future::join_all;
use proto_events::id::Position;
use proto_events::json;
use served::{Served, task, until};
use small_disk::{SmallDisk, WATCHDOG, in_time};
use taskreel::{Error, Part, System, TaskState};
use taskreel_log::api::{Append, AppendError, EventReader as _, EventStore, StoredRecord};
use taskreel_log::memory::MemoryStore;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{Author, check_log, stream};
use taskreel_log::testing::{AppendFault, Faults, FaultyStore};
use tokio::runtime::{Builder, Runtime};

/// The disk size in KiB that leaves enough room for all that follows.
const ROOM: u32 = 256 * 1024;

/// Prints on stderr that a test checks less than it would as root.
fn not_mounted(instead: &str) {
    eprintln!("no disk could be mounted here; instead: {instead}");
}

fn append(store: &SledStore, appends: Vec<Append>) -> Vec<Result<(), AppendError>> {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap());
    let runtime = &*RUNTIME;
    let answers = join_all(appends.into_iter().map(|append| store.append(append)));
    let answers = runtime.block_on(async { tokio::time::timeout(WATCHDOG, answers).await });
    answers.expect("appends on a full disk hang").into_iter().map(|answer| answer.map(drop)).collect()
}

/// Appends `at_once` at a time until the log takes no more. Returns the number acknowledged, in order, and the
/// unknown ones: none if the write that failed was one of the log's own, of its index or `HEAD`.
fn fill(store: &SledStore, body: usize, at_once: usize) -> (usize, Vec<[u8; 16]>) {
    let mut author = Author::new(store.fence());
    let mut acknowledged = 0;
    let mut unknown = Vec::new();
    let mut full = false;
    while !full {
        let appends: Vec<_> = (0..at_once)
            .map(|n| {
                author.append_one(&stream(&format!("s{n}")), &vec![u8::try_from(n % 251).unwrap(); body])
            })
            .collect();
        let ids: Vec<_> = appends.iter().map(|append| append.set_id).collect();
        for (answer, set_id) in append(store, appends).into_iter().zip(ids) {
            match answer {
                Ok(()) => acknowledged += 1,
                Err(AppendError::Ambiguous { why } | AppendError::NotWritten { why }) => {
                    assert!(why.contains("no space left"), "{why}");
                    unknown.push(set_id);
                    full = true;
                }
                Err(AppendError::Poisoned { why }) => {
                    assert!(why.contains("no space left"), "{why}");
                    full = true;
                }
                Err(other) => panic!("unexpected: {other}"),
            }
        }
    }
    (acknowledged, unknown)
}

/// Reads all records one by one: none may fail.
fn one_by_one(store: &SledStore) -> Vec<StoredRecord> {
    let head = store.head().unwrap().0;
    (1..=head).map(|position| store.read_all(Position(position), 1).unwrap().remove(0)).collect()
}

fn a_log_on_a_disk_of(kib: u32, body: usize, at_once: usize) {
    let Some(disk) = SmallDisk::mount(kib) else {
        return not_mounted("the conformance suite's full disk");
    };
    let log = disk.log();
    let open = move || SledStore::open(&log);
    let opening = open.clone();
    let store = in_time("opening", opening).unwrap();
    let (acknowledged, unknown) = fill(&store, body, at_once);
    assert!(acknowledged > 10, "{acknowledged}");
    let late = append(&store, vec![Author::new(store.fence()).append_one(&stream("late"), b"late")]);
    assert!(matches!(late[0], Err(AppendError::Poisoned { .. })), "{late:?}");
    let before = one_by_one(&store);
    assert_eq!(before.len(), acknowledged, "all that was acknowledged, and nothing else, can be read");
    let closed = in_time("closing", move || store.close().map_err(|error| error.to_string()));
    assert!(closed.as_ref().is_err_and(|why| why.contains("no space left")), "{closed:?}");

    // On a disk that is still full, opening may fail; it then gives the reason, and loses nothing.
    let opening = open.clone();
    if let Err(error) = in_time("opening a log on a full disk", opening) {
        assert!(error.to_string().to_lowercase().contains("space"), "{error}");
    }
    disk.enlarge(ROOM);
    let store = in_time("opening with room", open).unwrap();
    let after = one_by_one(&store);
    assert_eq!(after[..before.len()], before);
    let landed = unknown.iter().filter(|set_id| store.resolve(**set_id).unwrap().is_some()).count();
    assert_eq!(after.len(), before.len() + landed, "what is more than acknowledged is what was unknown");
    let mut author = Author::new(store.fence()).with_sets_from(1_000_000);
    assert_eq!(append(&store, vec![author.append_one(&stream("new"), b"room")]), [Ok(())]);
    assert_eq!(check_log(&store), after.len() as u64 + 1);
}

#[test]
fn a_log_whose_disk_is_full_says_so_keeps_all_and_goes_on_with_room() {
    // Small and large values, single appends and groups: each leaves sled's pages in a different state.
    a_log_on_a_disk_of(2 * 1024, 100, 1);
    a_log_on_a_disk_of(3 * 1024, 300, 50);
    a_log_on_a_disk_of(4 * 1024, 1_000, 16);
    a_log_on_a_disk_of(8 * 1024, 55_000, 5);
    a_log_on_a_disk_of(8 * 1024, 400_000, 2);
}

#[test]
fn a_disk_too_small_for_any_log_is_an_error_and_not_a_panic() {
    for kib in [4, 16, 64, 256, 512, 1_024, 2_048] {
        let Some(disk) = SmallDisk::mount(kib) else {
            return not_mounted("nothing, for this one");
        };
        let log = disk.log();
        let open = move || SledStore::open(&log).map(drop);
        let opening = open.clone();
        if let Err(error) = in_time("making a log", opening) {
            assert!(error.to_string().to_lowercase().contains("space"), "{kib} KiB: {error}");
        }
        disk.enlarge(ROOM);
        in_time("making a log with room", open).unwrap_or_else(|error| panic!("{kib} KiB: {error}"));
    }
}

/// Runs tasks until the log takes no more; returns those acknowledged as finished, and the first failure.
async fn work_until_full(system: &System, text: &str) -> (Vec<String>, Error) {
    let mut over = Vec::new();
    loop {
        let work = async {
            let task = system.submit(Part::text(text)).await?;
            task.finished().await
        };
        match tokio::time::timeout(WATCHDOG, work).await.expect("a command on a full disk hangs") {
            Ok(rested) => over.push(rested.task().id().to_owned()),
            Err(error) => return (over, error),
        }
    }
}

/// Checks a system whose disk has become full, on any kind of disk.
async fn a_system_on_a_full_disk(
    system: System,
    text: &str,
    room: impl FnOnce(),
    again: impl AsyncFnOnce() -> System,
) {
    let (over, error) = work_until_full(&system, text).await;
    assert!(error.command_id().is_some() && error.to_string().contains("no space left"), "{error}");
    assert!(over.len() > 3, "{}", over.len());
    let refused = tokio::time::timeout(WATCHDOG, system.submit(Part::text("more"))).await.expect("it hangs");
    assert!(refused.is_err_and(|error| error.to_string().contains("reopen it")));
    for id in &over {
        let seen = system.task(id).unwrap().snapshot().await.unwrap();
        assert!(seen.state().is_terminal() || seen.state() == TaskState::Submitted, "{id}: {}", seen.state());
    }
    let stopped = tokio::time::timeout(WATCHDOG, system.shutdown()).await.expect("stopping hangs");
    assert!(stopped.is_err(), "it says that a write had failed");
    room();
    let system = again().await;
    for id in &over {
        system.task(id).unwrap().snapshot().await.unwrap();
    }
    let task = system.submit(Part::text("there is room")).await.unwrap();
    task.finished().await.unwrap();
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_system_whose_disk_is_full_answers_everybody_and_goes_on_with_room() {
    let text = "a long text ".repeat(2_000);
    let Some(disk) = SmallDisk::mount(8 * 1024) else {
        return not_mounted("the same with a store that runs out of space");
    };
    let system = System::builder(disk.log()).start().await.unwrap();
    let again = async || System::builder(disk.log()).start().await.unwrap();
    a_system_on_a_full_disk(system, &text, || disk.enlarge(ROOM), again).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_system_whose_store_runs_out_of_space_answers_everybody_and_goes_on_with_room() {
    let (faults, memory) = (Faults::none(), Arc::new(MemoryStore::new()));
    faults.at_append(20, AppendFault::OutOfSpace);
    let start = async |store: Arc<dyn EventStore>| {
        let store = Arc::new(FaultyStore::new(store, faults.clone()));
        System::builder("unused").store(store).start().await.unwrap()
    };
    let system = start(memory.clone()).await;
    let again = async || start(memory.reopen().unwrap()).await;
    a_system_on_a_full_disk(system, "a text", || faults.free_space(), again).await;
}

/// Returns tasks with long texts, one per line.
fn long_tasks(count: usize) -> String {
    let task = |n: usize| {
        let text = format!("{n} ").repeat(20_000);
        json!({"id": format!("task-{n:04}"), "messages": [{"id": format!("m{n}"), "role": "user", "parts": [
            {"type": "text", "content": text},
            {"type": "tool_call", "content": {"tool_name": "add", "args": {"a": n, "b": 1}, "call_id": "c"}},
        ]}]})
    };
    let lines: Vec<_> = (0..count).map(|n| task(n).to_string()).collect();
    lines.join("\n")
}

fn output(mut command: Command) -> Ran {
    in_time("the command", move || Ran(command.stdin(Stdio::null()).output().unwrap()))
}

/// Checks the command line when the disk becomes full midway, and when there is room again. `command` makes a
/// command from its arguments.
fn the_command_line_on_a_full_disk(command: impl Fn(&[&str]) -> Command, room: impl FnOnce()) {
    // 60 kB each, on a disk of 3 MiB.
    const TASKS: usize = 90;
    let input = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(input.path(), long_tasks(TASKS)).unwrap();
    let run = ["run", input.path().to_str().unwrap()];
    let full = output(command(&run)).ended(1).told(&["task-", "free space"]);
    let done = full.json();
    assert!(!done.is_empty() && done.len() < TASKS, "{} tasks were done", done.len());
    let again = output(command(&run)).told(&["try: "]);
    assert!(matches!(again.code(), Some(1 | 5)), "{}{}", again.out(), again.err());
    for said in [full.err(), again.err()] {
        assert!(!said.contains("panicked") && !said.contains("Os {"), "{said}");
    }
    room();
    let whole = output(command(&run)).ended(0).json();
    assert_eq!(whole.len(), TASKS);
    assert!(done.iter().all(|task| whole.contains(task)), "what was done before is told as it was");
    output(command(&["verify"])).ended(0);
}

#[test]
fn the_command_line_reports_a_full_disk_and_the_same_command_succeeds_with_room() {
    let Some(disk) = SmallDisk::mount(3 * 1024) else {
        return not_mounted("the same with a limit on the size of files");
    };
    let place = Place::new();
    let command = |words: &[&str]| {
        let mut command = place.command(words);
        command.env("TASKREEL_DATA_DIR", disk.log());
        command
    };
    the_command_line_on_a_full_disk(command, || disk.enlarge(ROOM));
}

#[test]
fn a_server_whose_disk_was_full_says_that_it_is_not_ready_and_goes_on_by_itself_with_room() {
    let Some(disk) = SmallDisk::mount(8 * 1024) else {
        return not_mounted("nothing: a server needs a disk");
    };
    let place = Place::new();
    let log = disk.log();
    let served =
        Served::start(&place, "--listen 127.0.0.1:0", &[("TASKREEL_DATA_DIR", log.to_str().unwrap())]);
    let args = json!({"text": "x".repeat(100_000)}).to_string();
    let mut acknowledged = Vec::new();
    loop {
        let id = format!("t-{}", acknowledged.len());
        let (status, body) = served.send("POST", "/tasks/", "", &task(&id, "echo", &args)).unwrap();
        if status != 200 {
            assert!(body.contains("no space left"), "{status} {body}");
            break;
        }
        acknowledged.push(id);
        assert!(acknowledged.len() < 1_000, "the disk is never full");
    }
    let (status, why) = served.get("/readyz");
    assert!(status == 503 && why.contains("poisoned"), "{status} {why}");
    assert_eq!(served.get("/healthz").0, 200);
    disk.enlarge(ROOM);
    until("the server is ready again", || served.get("/readyz").0 == 200);
    let (status, body) =
        served.send("POST", "/tasks/", "", &task("after", "add", r#"{"a":1,"b":2}"#)).unwrap();
    assert!(status == 200 && body.contains(r#""state":"completed""#), "{body}");
    served.signal("-TERM");
    let ended = served.end().ended(0);
    assert!(
        ended.err().contains("takes no more appends") && ended.err().contains("open again"),
        "{}",
        ended.err()
    );
    let mut verify = place.command(["verify", "--data-dir", log.to_str().unwrap()]);
    binary::run(&mut verify).ended(0);
    for id in acknowledged {
        let mut state = place.command(["state", &id, "--data-dir", log.to_str().unwrap()]);
        assert!(binary::run(&mut state).ended(0).out().contains("completed"), "{id}");
    }
}

#[test]
fn the_command_line_tells_that_a_file_may_not_grow_and_goes_on_when_it_may() {
    let place = Place::new();
    let blocks = std::cell::Cell::new("6144");
    let command = |words: &[&str]| {
        // The signal would end the process; on a full disk a program gets an error instead.
        let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", blocks.get());
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_taskreel")]).args(words).current_dir(place.path());
        command.env_remove("TASKREEL_DATA_DIR").env_remove("RUST_LOG").env("NO_COLOR", "1");
        command
    };
    the_command_line_on_a_full_disk(command, || blocks.set("unlimited"));
}

#[test]
fn a_salvage_without_room_leaves_nothing_that_stands_in_the_way_of_another_one() {
    let place = binary::small_log();
    let out = place.path().join("saved.ndjson");
    let salvage = |blocks: &str| {
        let script =
            format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" salvage taskreel-log saved.ndjson");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_taskreel")]).current_dir(place.path());
        command.env_remove("TASKREEL_DATA_DIR").env_remove("RUST_LOG").env("NO_COLOR", "1");
        binary::read(&mut command, "salvage")
    };
    salvage("1").ended(8).told(&["saved.ndjson", "free space"]);
    assert!(!out.exists(), "a part of an export is left");
    salvage("unlimited").ended(0);
    let whole = std::fs::read(&out).unwrap();
    salvage("unlimited").ended(2).told(&["new file"]);
    assert_eq!(std::fs::read(&out).unwrap(), whole, "a file that is there stays");
}
