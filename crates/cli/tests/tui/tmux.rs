//! A terminal in which a command runs: keys go in, what stands on the screen comes out.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::binary::Place;

/// The time within which anything that a test waits for must have come.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of terminals that were started.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A terminal.
pub(super) struct Tmux {
    socket: String,
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

impl Tmux {
    /// Returns a terminal of this size in which a shell runs the program with these words, says its exit code and the settings of
    /// the terminal, and stays. None where there is no tmux, which is a failure in CI.
    pub(super) fn start(place: &Place, line: &str, (width, height): (u16, u16)) -> Option<Self> {
        let is_there = Command::new("tmux").arg("-V").output().is_ok_and(|ran| ran.status.success());
        if !is_there {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "there is no tmux: apt-get install tmux");
            eprintln!("not tested: there is no tmux here");
            return None;
        }
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let socket = format!("taskreel-{}-{number}", std::process::id());
        let tmux = Self { socket };
        let program = env!("CARGO_BIN_EXE_taskreel");
        let cache = place.path().join("cache");
        let shell = format!(
            "echo before; '{program}' {line}; echo code=$?; stty -a | tr ';' '\\n' | grep -o -e '-*icanon' -e '-*echo ' ; exec cat"
        );
        let (width, height) = (width.to_string(), height.to_string());
        let mut command =
            tmux.command(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height]);
        command.arg(&shell).current_dir(place.path()).env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        // A program of the test, such as its own browser, comes before one of the system.
        let folders = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{folders}", place.path().display()));
        command
            .env("XDG_CACHE_HOME", &cache)
            .env_remove("NO_COLOR")
            .env_remove("TASKREEL_DATA_DIR")
            .env_remove("TMUX");
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Some(tmux)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-u", "-L", &self.socket]).args(words);
        command
    }

    fn tmux(&self, words: &[&str]) -> String {
        let ran = self.command(words).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    /// Returns what stands on the screen.
    pub(super) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Presses keys, as tmux names them; each word is one key or a text.
    pub(super) fn keys(&self, keys: &[&str]) {
        for key in keys {
            self.tmux(&["send-keys", key]);
        }
    }

    /// Gives the terminal another size.
    pub(super) fn resize(&self, width: u16, height: u16) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// Waits until the screen has this text, and returns the screen.
    #[track_caller]
    pub(super) fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Waits until this holds of the screen, and returns it.
    #[track_caller]
    pub(super) fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "{what} is not on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the id of the process that runs in the terminal below the shell.
    pub(super) fn child(&self) -> u32 {
        let shell = self.tmux(&["list-panes", "-F", "#{pane_pid}"]);
        let shell = shell.trim();
        let file = format!("/proc/{shell}/task/{shell}/children");
        let children = std::fs::read_to_string(Path::new(&file)).unwrap();
        children.split_whitespace().next().expect("the program runs").parse().unwrap()
    }

    /// Sends a signal to the program.
    pub(super) fn signal(&self, name: &str) {
        let id = self.child().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Waits for the end of the program, and checks that the terminal is as it was: its lines stand there again, and it takes lines
    /// and shows what is typed. Returns the screen.
    #[track_caller]
    pub(super) fn ended(&self, code: i32) -> String {
        let screen = self.shows(&format!("code={code}"));
        let screen =
            if screen.contains("echo ") { screen } else { self.until("echo", |it| it.contains("\necho")) };
        assert!(screen.starts_with("before"), "{screen}");
        assert!(
            screen.contains("\nicanon") && !screen.contains("-icanon") && !screen.contains("-echo"),
            "{screen}"
        );
        self.keys(&["typed by hand", "Enter"]);
        self.shows("typed by hand\ntyped by hand")
    }
}
