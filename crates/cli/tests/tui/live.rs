//! A log that is written: it is followed through the socket of the program and through a server, and a decision reaches the program.

use std::process::{Child, Stdio};

use super::tmux::Tmux;
use crate::binary::Place;
use crate::served::{Served, task};

/// A program that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn demo(place: &Place, more: &str) -> Running {
    let words = format!("demo --seed 7 --tasks 600 --pace 60 --data-dir log {more}");
    let mut command = place.command(words.split_whitespace());
    Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Returns the number behind a word of the first line.
fn number(screen: &str, word: &str) -> Option<u64> {
    let line = screen.lines().next()?;
    let behind = line.split(word).nth(1)?.split_whitespace().next()?;
    behind.trim_start_matches('+').replace(',', "").parse().ok()
}

#[test]
fn what_a_program_writes_is_followed_counted_while_it_is_paused_and_still_there_when_it_was_killed() {
    let place = Place::new();
    let mut program = demo(&place, "");
    let is_there = || place.path().join("log").join("door").exists() || place.path().join("log/db").exists();
    while !is_there() {
        std::thread::yield_now();
    }
    let Some(tmux) = Tmux::start(&place, "tui --data-dir log", (100, 30)) else { return };
    let screen = tmux.shows(&format!("LIVE pid {}", program.0.id()));
    let first = number(&screen, "HEAD").unwrap();
    tmux.until("a later end", |screen| number(screen, "HEAD").is_some_and(|head| head > first));
    tmux.shows("demo-7-");
    tmux.keys(&["Space"]);
    tmux.until("new events", |screen| number(screen, "PAUSED").is_some_and(|new| new > 3));
    tmux.keys(&["Space"]);
    tmux.until("following", |screen| !screen.contains("PAUSED"));
    program.0.kill().unwrap();
    program.0.wait().unwrap();
    let screen = tmux.shows("CLOSED");
    let head = number(&screen, "HEAD").unwrap();
    assert!(head > first);
    tmux.keys(&["Enter"]);
    tmux.shows(" ev");
    // The program comes back, and is followed again.
    let program = demo(&place, "--resume");
    tmux.shows(&format!("LIVE pid {}", program.0.id()));
    tmux.until("a later end", |screen| number(screen, "HEAD").is_some_and(|now| now > head));
    tmux.keys(&["q"]);
    tmux.ended(0);
}

#[test]
fn a_decision_reaches_the_program_through_its_socket_and_through_its_server() {
    let place = Place::new();
    let served = Served::start(&place, "--listen 127.0.0.1:0 --data-dir log", &[]);
    let url = format!("http://{}", served.address);
    for (id, from) in [("pay-0001", "--data-dir log".to_owned()), ("pay-0002", format!("--url {url}"))] {
        // A payment that is never confirmed.
        let body = task(id, "pay", r#"{"to":"slow-bank","cents":5}"#);
        served.send("POST", "/tasks/", "", &body);
        let Some(tmux) = Tmux::start(&place, &format!("tui {from}"), (110, 34)) else { return };
        tmux.shows("LIVE");
        tmux.keys(&["i"]);
        let screen = tmux
            .until("the payment waits", |screen| screen.contains("did not happen") && screen.contains(id));
        assert!(screen.contains("\"to\": \"slow-bank\""), "{screen}");
        tmux.keys(&["l", "\"paid\"", "Enter"]);
        let screen = tmux.shows("IT TOOK EFFECT");
        assert!(screen.contains(id), "{screen}");
        tmux.keys(&["y"]);
        tmux.shows("landed; task");
        tmux.until("it waits no more", |screen| !screen.contains("? unknown"));
        tmux.keys(&["q"]);
        tmux.ended(0);
        let kinds = place.run(&format!("events {id} --json --data-dir log")).ended(0).out();
        assert!(kinds.contains("CallReconciled"), "{kinds}");
    }
    served.signal("-TERM");
    served.end();
}
