//! The terminal after a panic: a test of its own panics in a real terminal, and the one beside it looks at what is left.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::tui::stage::Stage;

/// The variable by which the test that panics knows that it is meant.
const WITHIN: &str = "TASKREEL_TUI_PANICS";

#[test]
#[ignore = "it panics in the terminal of the test beside it"]
fn a_stage_that_panics() {
    if std::env::var_os(WITHIN).is_some() {
        let _stage = Stage::open().unwrap();
        panic!("of the test");
    }
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_told_on_it() {
    if !Command::new("tmux").arg("-V").output().is_ok_and(|ran| ran.status.success()) {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "there is no tmux: apt-get install tmux");
        return eprintln!("not tested: there is no tmux here");
    }
    let socket = format!("taskreel-panic-{}", std::process::id());
    let tmux = |words: &[&str]| {
        let ran =
            Command::new("tmux").args(["-u", "-L", &socket]).args(words).env_remove("TMUX").output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    let program = std::env::current_exe().unwrap().display().to_string();
    let shell = format!(
        "echo before; {WITHIN}=1 '{program}' --exact tui::tests::terminal::a_stage_that_panics --ignored --nocapture; \
         stty -a | tr ';' '\\n' | grep -o -e '-*icanon' -e '-*echo '; echo over; exec cat"
    );
    tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", &shell]);
    let began = Instant::now();
    let screen = loop {
        let screen = tmux(&["capture-pane", "-p"]);
        if screen.contains("\nover") || began.elapsed() > Duration::from_secs(60) {
            break screen;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    tmux(&["kill-server"]);
    assert!(screen.starts_with("before") && screen.contains("of the test"), "{screen}");
    assert!(
        screen.contains("\nicanon") && !screen.contains("-icanon") && !screen.contains("-echo"),
        "{screen}"
    );
}
