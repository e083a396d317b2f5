//! The pager: on a terminal only, for long output only, and never where something is followed.

use std::process::Stdio;

use crate::binary::{Place, program, small_log};

/// Returns what a command prints on a terminal of this many rows, with a pager that marks each line; none where there is no
/// program that makes a terminal.
fn on_terminal(place: &Place, rows: u16, line: &str) -> Option<String> {
    let shell = format!("stty rows {rows} cols 100; {} {line}", env!("CARGO_BIN_EXE_taskreel"));
    let mut command = program("script");
    command.args(["-qec", &shell, "/dev/null"]).current_dir(place.path()).stdin(Stdio::null());
    command
        .env("TASKREEL_PAGER", "sed s/^/P:/")
        .env("LC_ALL", "C.UTF-8")
        .env("NO_COLOR", "1")
        .env("TERM", "xterm");
    command.env("XDG_CACHE_HOME", place.path().join("cache")).env_remove("TASKREEL_DATA_DIR");
    let ran = command.output().ok()?;
    assert!(ran.status.success(), "{line}: {ran:?}");
    Some(String::from_utf8_lossy(&ran.stdout).replace('\r', ""))
}

#[test]
fn long_output_to_a_terminal_goes_through_the_pager_and_other_output_does_not() {
    let place = small_log();
    let Some(long) = on_terminal(&place, 10, "events --all") else { return };
    let marked = long.lines().filter(|line| line.starts_with("P:")).count();
    assert!(marked > 30, "{long}");
    // Notes come when the pager has ended.
    let shown = on_terminal(&place, 5, "show ask-0001").unwrap();
    let note = shown.lines().position(|line| line.starts_with("next: ")).expect("the note is shown");
    assert!(shown.lines().skip(note).all(|line| !line.starts_with("P:")), "{shown}");
    for (rows, line) in [
        (200, "events --all"),
        (10, "events --all --no-pager"),
        (10, "events --all --json"),
        (3, "tail --exit-at-end"),
        (3, "ls"),
        (3, "events --all --follow --exit-at-end"),
    ] {
        let shown = on_terminal(&place, rows, line).unwrap();
        assert!(!shown.contains("P:") && !shown.is_empty(), "{line}: {shown}");
    }
    // One that reads nothing is as a closed pipe.
    let mut ran = place.command(["events", "--all"]);
    assert!(ran.env("TASKREEL_PAGER", "false").output().unwrap().status.success());
}
