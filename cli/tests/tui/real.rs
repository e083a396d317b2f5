//! A stopped log in a real terminal: start, keys, sizes, and the terminal as it was at each end.

use super::tmux::Tmux;
use crate::binary::small_log;

#[test]
fn it_is_refused_where_there_is_no_terminal() {
    let place = small_log();
    place.run("tui").ended(2).told(&["not both a terminal"]);
    place.run("tui --json").ended(2).told(&["--json"]);
    place.run("tui --file nothing.ndjson").ended(2);
}

#[test]
fn keys_and_sizes_are_followed_and_the_terminal_is_given_back_at_the_end() {
    let place = small_log();
    let Some(tmux) = Tmux::start(&place, "tui --data-dir taskreel-log", (80, 24)) else { return };
    tmux.shows("sum-0001");
    let screen = tmux.shows("CLOSED");
    assert!(!screen.contains("before"), "the screen is the program's own:\n{screen}");
    tmux.keys(&[":open ask-0001", "Enter"]);
    tmux.shows("tool lookup");
    tmux.keys(&["p"]);
    tmux.shows("[prompt]");
    tmux.resize(130, 40);
    tmux.until("three panes", |screen| screen.contains("bad-0001") && screen.contains("[prompt]"));
    tmux.resize(40, 12);
    tmux.until("one pane", |screen| !screen.contains("bad-0001") && screen.contains("[prompt]"));
    tmux.keys(&["?"]);
    tmux.shows("type to search");
    tmux.keys(&["Escape", "Escape", "Escape"]);
    tmux.shows("tasks 3");
    tmux.keys(&["q"]);
    tmux.ended(0);
    let left = std::fs::read_dir(place.path().join("cache/taskreel")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "private copies are removed");
}

#[test]
fn a_signal_gives_the_terminal_back_and_says_that_it_interrupted() {
    let place = small_log();
    for (signal, line) in [
        ("-TERM", "tui --data-dir taskreel-log sum-0001"),
        ("-INT", "tui --data-dir taskreel-log --color never sum-0001"),
    ] {
        let Some(tmux) = Tmux::start(&place, line, (80, 24)) else { return };
        tmux.shows("sum-0001");
        tmux.signal(signal);
        let screen = tmux.ended(130);
        assert!(screen.contains("error: interrupted"), "{screen}");
    }
}

#[test]
fn an_export_a_prefix_and_a_point_are_opened_and_a_wrong_one_is_told() {
    let place = small_log();
    let export = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), export).unwrap();
    let Some(tmux) = Tmux::start(&place, "tui --file log.ndjson ask- --at 2", (100, 30)) else { return };
    tmux.shows("v2 of");
    assert!(tmux.screen().contains("FILE"), "{}", tmux.screen());
    tmux.keys(&["q"]);
    tmux.ended(0);
    drop(tmux);
    let Some(tmux) = Tmux::start(&place, "tui --file log.ndjson nothing-there", (80, 24)) else { return };
    tmux.shows("no task, session or tool has the id");
    tmux.keys(&["C-c"]);
    tmux.ended(0);
    let Some(tmux) = Tmux::start(&place, "tui --file other.ndjson", (80, 24)) else { return };
    tmux.shows("error: ");
    tmux.ended(3);
}
