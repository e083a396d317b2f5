//! A task of many events in a real terminal: the time to the first screen, and to what each key asks for.
//!
//! `TASKREEL_TUI_EVENTS` sets the number of events of the task (4000); `TASKREEL_TUI_LOG` names a log that is there already, with a task
//! `long`, such as one of the bench `inspector`. Figures are for a release build on a quiet machine.

use std::time::Instant;

use super::tmux::Tmux;
use crate::binary::Place;

/// The time for the first screen and for each answer, in milliseconds.
const BUDGET: u128 = 500;

/// The times a budget that may be needed: machines of CI are slow and shared, and a program for tests is not optimised.
const SLACK: u128 = if cfg!(debug_assertions) { 40 } else { 4 };

fn calls() -> usize {
    std::env::var("TASKREEL_TUI_EVENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(4_000) / 4
}

fn long() -> String {
    let time = "2026-11-24T07:03:20.123456+00:00";
    let part = |at: usize| {
        format!(
            r#"{{"type": "tool_call", "content": {{"tool_name": "echo", "args": {{"text": "number {at}"}}, "call_id": "c{at}"}}}}"#
        )
    };
    let parts: Vec<String> = (1..=calls()).map(part).collect();
    format!(
        r#"{{"id": "long", "created_at": "{time}", "messages": [{{"id": "m", "role": "user", "parts": [{}], "timestamp": "{time}"}}]}}"#,
        parts.join(",")
    )
}

fn figure(what: &str, began: Instant) {
    let took = began.elapsed().as_millis();
    let met = if took <= BUDGET { "met" } else { "MISSED" };
    eprintln!("{what:<40} {took:>6} ms  budget {BUDGET} ms: {met}");
    assert!(took <= BUDGET * SLACK, "{what} took {took} ms");
}

#[test]
fn a_long_task_is_opened_and_each_key_is_answered_in_time() {
    let place = Place::new();
    let log = std::env::var("TASKREEL_TUI_LOG").unwrap_or_else(|_| {
        place.run_tasks(&long(), "--data-dir log --durability os").ended(0);
        "log".to_owned()
    });
    let end = place.run(&format!("ls --json --data-dir {log}")).json().into_iter();
    let end = end.filter(|row| row["id"] == "long").map(|row| row["events"].to_string()).next().unwrap();
    let began = Instant::now();
    let Some(tmux) = Tmux::start(&place, &format!("tui --data-dir {log}"), (120, 40)) else { return };
    tmux.shows("newest first");
    figure("the first screen", began);
    let asked = |what: &str, keys: &[&str], shows: &str| {
        let began = Instant::now();
        tmux.keys(keys);
        tmux.shows(shows);
        figure(what, began);
    };
    asked(&format!("a task of {end} events"), &[":open long", "Enter"], &format!("v{end} of {end}"));
    asked("its first event", &["g"], &format!("v1 of {end}"));
    asked("its second event", &["]"], &format!("v2 of {end}"));
    asked("its last event", &["G"], &format!("v{end} of {end}"));
    let before = end.parse::<u64>().unwrap() - 1;
    asked("the event before", &["["], &format!("v{before} of {end}"));
    for (tab, shows) in [
        ("prompt", "no model was asked"),
        ("call", "attempts"),
        ("state", "state behind v"),
        ("diff", "changes"),
        ("cause", &format!("v{before:<5} {:<20}", "ArtifactAppended")),
        ("recovery", "if the program had died"),
        ("raw", "the body has the digest"),
    ] {
        asked(&format!("its tab {tab}"), &["3", ">"], shows);
    }
    tmux.keys(&["q"]);
    tmux.ended(0);
}
