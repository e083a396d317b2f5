//! `tail` and `events --follow`: live, over restarts of the program, with filters.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use binary::{Place, TASKS, small_log};
use proto_events::json;
use proto_events::json::JsonValue as Value;

/// The longest wait for a line.
const SOON: Duration = Duration::from_secs(30);

/// A child process whose lines can be waited for. It is killed when it is dropped.
struct Watched {
    child: Child,
    input: Option<ChildStdin>,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Watched {
    fn start(place: &Place, line: &str) -> Self {
        Self::of(place.command(line.split_whitespace()))
    }

    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let (out, err) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        Self { child, input, out, err }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    #[track_caller]
    fn line(&self) -> String {
        self.out.recv_timeout(SOON).expect("a line on stdout in time")
    }

    #[track_caller]
    fn event(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    #[track_caller]
    fn says(&self, words: &str) {
        loop {
            let line =
                self.err.recv_timeout(SOON).unwrap_or_else(|_| panic!("`{words}` was not said in time"));
            if line.contains(words) {
                return;
            }
        }
    }

    /// Closes stdin and waits for the end.
    fn end(mut self) {
        drop(self.input.take());
        // A task that was not executed is a "no".
        assert!(matches!(self.child.wait().unwrap().code(), Some(0 | 1)));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    lines
}

fn sum(id: &str) -> String {
    TASKS.lines().next().unwrap().replace("sum-0001", id)
}

/// Takes events until one fits, and returns all of them.
#[track_caller]
fn until(tail: &Watched, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut seen = Vec::new();
    loop {
        let event = tail.event();
        let is_last = fits(&event);
        seen.push(event);
        if is_last {
            return seen;
        }
    }
}

fn is_end_of(id: &str) -> impl Fn(&Value) -> bool + '_ {
    move |event| event["id"] == id && event["payload"]["to"] == "completed"
}

#[test]
fn what_ends_at_the_end_shows_what_there_is_without_a_program() {
    let place = binary::small_log();
    let all = place.run("events --all --json").ended(0).out();
    assert_eq!(place.run("events --all --follow --exit-at-end --json").ended(0).out(), all);
    let newest = place.run("tail --exit-at-end --json").ended(0).out();
    assert!(all.ends_with(&newest) && newest.lines().count() == 10, "{newest}");
    let failed = place.run("tail --exit-at-end --limit 0 --json --where payload.to=failed").ended(0).json();
    assert_eq!(failed.len(), 1, "{failed:?}");
    place.run("events --all --exit-at-end").ended(2);
}

#[test]
fn events_are_printed_as_a_program_writes_them_and_over_its_restart_without_gap_or_repeat() {
    let place = small_log();
    let tail = Watched::start(&place, "tail --limit 0 --json");
    let mut seen = until(&tail, |event| event["kind"] == "Stopped");
    tail.says("no program has the log open");
    for round in 0..2 {
        let mut program = Watched::start(&place, "run -");
        let id = format!("live-{round}");
        program.write(&sum(&id));
        program.line();
        seen.extend(until(&tail, is_end_of(&id)));
        program.end();
        seen.extend(until(&tail, |event| event["kind"] == "Stopped"));
    }
    let positions: Vec<_> = seen.iter().map(|event| event["position"].as_u64().unwrap()).collect();
    assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>());
    drop(tail);
    assert_eq!(place.run("events --all --json").ended(0).json(), seen);
}

#[test]
fn a_killed_program_is_followed_by_the_next_one() {
    let place = small_log();
    let mut program = Watched::start(&place, "run -");
    program.write(&sum("first"));
    program.line();
    let tail = Watched::start(&place, "tail --limit 1 --json");
    tail.event();
    program.write(&sum("second"));
    program.line();
    let mut seen = until(&tail, is_end_of("second"));
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    let mut next = Watched::start(&place, "run -");
    next.write(&sum("third"));
    next.line();
    seen.extend(until(&tail, is_end_of("third")));
    let positions: Vec<_> = seen.iter().map(|event| event["position"].as_u64().unwrap()).collect();
    assert!(positions.windows(2).all(|pair| pair[1] == pair[0] + 1), "{positions:?}");
    next.end();
}

#[test]
fn filters_and_ids_choose_what_is_followed() {
    let place = small_log();
    let mut program = Watched::start(&place, "run -");
    program.write(&sum("begin"));
    program.line();
    let ended = Watched::start(&place, "events --all --follow --kind StateChanged --text completed --json");
    let one = Watched::start(&place, "tail begin --limit 2 --json");
    assert_eq!(until(&one, is_end_of("begin")).len(), 2);
    until(&ended, is_end_of("begin"));
    program.write(&sum("other"));
    program.line();
    let last = ended.event();
    assert_eq!(
        (&last["id"], &last["kind"], &last["payload"]["to"]),
        (&json!("other"), &json!("StateChanged"), &json!("completed"))
    );
    // A new message for the task that is followed alone.
    let mut again: Value = place.run("state begin").ended(0).json().remove(0);
    let message = json!({"id": "later", "role": "user", "parts": [{"type": "text", "content": "more"}]});
    again["messages"].as_array_mut().unwrap().push(message);
    program.write(&again.to_string());
    let next = one.event();
    assert_eq!((&next["id"], &next["kind"]), (&json!("begin"), &json!("MessageAppended")));
    program.end();
}

#[test]
fn lines_for_people_begin_with_the_newest_ten() {
    let place = small_log();
    let tail = Watched::start(&place, "tail");
    tail.says("waiting for one");
    // A heading with the date, then ten events.
    let shown: Vec<String> = (0..11).map(|_| tail.line()).collect();
    assert!(shown[10].contains("Stopped"), "{shown:#?}");
    assert!(tail.out.try_recv().is_err());
    place.run("events --all --follow --file x.ndjson").ended(2);
    place.run("tail none-such").ended(3).told(&["none-such"]);
    Place::new().run("tail").ended(5).told(&["no log"]);
}

/// Returns what a command says until it ends, and its exit code.
fn ended(mut watched: Watched) -> (Option<i32>, String) {
    let code = watched.child.wait().unwrap().code();
    (code, watched.err.iter().collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_log_in_the_place_of_the_one_that_was_followed_ends_the_following() {
    for is_live in [false, true] {
        let (place, other) = (small_log(), small_log());
        let tail = Watched::start(&place, "tail --limit 1 --json");
        tail.event();
        tail.says("waiting for one");
        // Its socket goes with the directory.
        let mut program = Watched::start(&other, if is_live { "run -" } else { "ls" });
        if is_live {
            program.write(&sum("other"));
            program.line();
        } else {
            program.child.wait().unwrap();
        }
        let log = "taskreel-log";
        std::fs::rename(place.path().join(log), place.path().join("aside")).unwrap();
        std::fs::rename(other.path().join(log), place.path().join(log)).unwrap();
        let (code, said) = ended(tail);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("is another one now"), "{said}");
        drop(program);
    }
}

#[test]
fn a_closed_log_is_copied_once_before_its_next_program() {
    let place = small_log();
    let mut command = place.command(["tail", "--json"]);
    command.env("RUST_LOG", "taskreel_log=debug");
    let tail = Watched::of(command);
    let mut program = Watched::start(&place, "run -");
    program.write(&sum("live"));
    program.line();
    until(&tail, is_end_of("live"));
    let said: Vec<_> = tail.err.try_iter().collect();
    assert_eq!(said.iter().filter(|line| line.contains("private copy")).count(), 1, "{said:#?}");
    program.end();
}
