//! Commands at size: `run` is linear in its tasks and gives its first result soon, `replay --all` holds the
//! states of one pass.
//! `TASKREEL_SIZE_TASKS` sets the number of tasks.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod binary;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use binary::Place;
use proto_events::json;

/// The factor between the two sizes that are compared.
const FACTOR: usize = 4;

fn tasks() -> usize {
    std::env::var("TASKREEL_SIZE_TASKS").map_or(1_200, |text| text.parse().unwrap())
}

/// Writes a file of tasks that each call a tool; their texts have this length.
fn write_tasks(place: &Place, name: &str, count: usize, length: usize) {
    let mut all = String::new();
    for number in 0..count {
        let content = json!({"tool_name": "echo", "args": {"text": "x".repeat(length)}, "call_id": "c"});
        let part = json!({"type": "tool_call", "content": content});
        let message = json!({"id": format!("m-{number}"), "role": "user", "parts": [part]});
        writeln!(all, "{}", json!({"id": format!("t-{number:06}"), "messages": [message]})).unwrap();
    }
    std::fs::write(place.path().join(name), all).unwrap();
}

fn spawn(place: &Place, line: &str) -> Child {
    let mut command = place.command(line.split(' '));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns the fields of `/proc/PID/stat` behind the program's name, which has blanks. A process that has ended has them
/// until it is waited for.
fn stat(child: &Child) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    text.rsplit_once(") ").unwrap().1.split(' ').map(str::to_owned).collect()
}

/// The cost of a run of tasks.
#[derive(Debug)]
struct Took {
    /// The processor time, in clock ticks.
    ticks: u64,
    first: Duration,
    all: Duration,
}

fn run(count: usize) -> Took {
    let place = Place::new();
    // More than what is checked before anything is executed, so that the tasks are executed as they are read.
    write_tasks(&place, "tasks.ndjson", count, (5 << 20) / count + 200);
    let began = Instant::now();
    let mut child = spawn(&place, "run tasks.ndjson --durability os");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("completed"));
    let first = began.elapsed();
    assert_eq!(lines.count() + 1, count);
    while stat(&child)[0] != "Z" {
        std::thread::yield_now();
    }
    let all = began.elapsed();
    let ended = stat(&child);
    let ticks = ended[11].parse::<u64>().unwrap() + ended[12].parse::<u64>().unwrap();
    assert_eq!(binary::exit_code(&mut child), Some(0));
    Took { ticks, first, all }
}

#[test]
fn a_run_is_linear_in_its_tasks_and_its_first_result_comes_soon() {
    let (few, many) = (run(tasks() / FACTOR), run(tasks()));
    println!("{} tasks: {few:?}; {}: {many:?}", tasks() / FACTOR, tasks());
    // A quadratic run would take the square of the factor.
    let most = few.ticks * FACTOR as u64 * 2;
    assert!(many.ticks <= most, "{many:?} after {few:?}");
    assert!(many.first * 3 < many.all, "{many:?}");
}

/// Returns the most memory that a command had resident, in KiB.
fn peak(place: &Place, line: &str) -> u64 {
    let mut command = place.command(line.split(' '));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    // The figure only rises; a process that has ended has none.
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let Some(figure) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) else { break };
        peak = figure.trim().trim_end_matches(" kB").parse().unwrap();
    }
    assert_eq!(binary::exit_code(&mut child), Some(0));
    peak
}

/// The most memory that `replay --all` may take beyond what `verify` takes, which holds no state, in KiB: the states of one
/// pass over the log. 100,000 tasks are far larger.
const PASS_KIB: u64 = 96 << 10;

#[test]
fn a_replay_of_all_streams_holds_the_states_of_one_pass_whatever_the_length_of_the_log() {
    let place = Place::new();
    write_tasks(&place, "tasks.ndjson", tasks(), 2_000);
    place.run("run tasks.ndjson --durability os").ended(0);
    let (verify, replay) = (peak(&place, "verify"), peak(&place, "replay --all"));
    println!("{} tasks: verify {verify} KiB, replay {replay} KiB", tasks());
    assert!(replay < verify + PASS_KIB, "{} tasks: {replay} KiB, verify {verify} KiB", tasks());
}

/// The most memory that a command which reads a whole log may have resident, in KiB: 180 MB in a debug build. Figures of the release
/// build stand in docs/performance.md. Where passes leave the pages that they read in the cache of the database, `verify` takes 214 MB.
const READING_KIB: u64 = 180_000_000 / 1024;

#[test]
fn commands_that_read_a_whole_log_need_little_memory() {
    let place = Place::new();
    // Larger texts than a log of 200,000 small tasks has: a command that kept what it reads would need far more.
    write_tasks(&place, "tasks.ndjson", tasks(), 40_000);
    place.run("run tasks.ndjson --durability os").ended(0);
    for line in ["verify", "stats", "export", "replay --all"] {
        let peak = peak(&place, line);
        println!("{} tasks: {line} {peak} KiB", tasks());
        assert!(peak < READING_KIB, "{} tasks: {line} {peak} KiB", tasks());
    }
}
