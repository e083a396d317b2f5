//! A stopped log in a real terminal: start, keys, sizes, and the terminal as it was at each end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::tmux::Tmux;
use crate::binary::{Place, small_log};

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
    // One after the other: two that arrive together are one to a program that reads a terminal.
    tmux.keys(&["Escape"]);
    tmux.until("no help", |screen| !screen.contains("type to search"));
    tmux.keys(&["Escape"]);
    tmux.until("no prompt", |screen| !screen.contains("[prompt]"));
    tmux.keys(&["Escape"]);
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

/// Puts a browser there that notes which addresses it is asked to open.
#[cfg(target_os = "linux")]
fn browser(place: &Place) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = place.path().join("xdg-open");
    let noted = place.path().join("addresses");
    std::fs::write(&path, format!("#!/bin/sh\necho \"$1\" >> '{}'\n", noted.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Puts a `kill` before that of the system, which waits until the program's other threads have ended: its end then takes longer
/// than theirs.
#[cfg(target_os = "linux")]
fn slow_kill(place: &Place) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = place.path().join("kill");
    let script = "#!/bin/sh\nwhile cat /proc/$PPID/task/*/comm 2>/dev/null | grep -q '^tui-'; do sleep 0.01; done\n\
         touch \"${0%/*}/threads-ended\"\nkill \"$@\"\n";
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the page at an address; none if nobody listens there.
#[cfg(target_os = "linux")]
fn page(address: &str) -> Option<String> {
    let rest = address.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).ok()?;
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    Some(page)
}

#[cfg(target_os = "linux")]
#[test]
fn the_key_o_opens_the_event_in_a_browser_from_pages_that_end_with_the_screen() {
    let place = small_log();
    browser(&place);
    let Some(tmux) = Tmux::start(&place, "tui --data-dir taskreel-log ask-0001 --at 2", (100, 30)) else {
        return;
    };
    tmux.shows("v2 of");
    tmux.keys(&["o"]);
    tmux.shows("opened http://127.0.0.1:");
    let noted = place.path().join("addresses");
    let addresses = || std::fs::read_to_string(&noted).unwrap_or_default();
    tmux.until("the browser was asked", |_| addresses().ends_with('\n'));
    let first = addresses().trim().to_owned();
    assert!(first.contains("/inspect/t/agent/ask-0001?at=2"), "{first}");
    let shown = page(&first).expect("the pages are served");
    assert!(shown.contains(" 200 ") && shown.contains("what is it?"), "{shown}");
    // Another event opens in the same pages.
    tmux.keys(&["]", "o"]);
    tmux.until("the browser was asked again", |_| addresses().lines().count() == 2);
    let second = addresses().lines().last().unwrap().to_owned();
    assert_eq!(second, first.replace("at=2", "at=3"));
    tmux.keys(&["q"]);
    tmux.ended(0);
    assert!(page(&first).is_none(), "the pages end with the screen");
    let left = std::fs::read_dir(place.path().join("cache/taskreel")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "private copies are removed");
}

#[cfg(target_os = "linux")]
#[test]
fn the_screen_ends_also_where_its_pages_end_after_its_own_threads() {
    let place = small_log();
    browser(&place);
    slow_kill(&place);
    let Some(tmux) = Tmux::start(&place, "tui --data-dir taskreel-log ask-0001 --at 2", (100, 30)) else {
        return;
    };
    tmux.shows("v2 of");
    tmux.keys(&["o"]);
    tmux.shows("opened http://127.0.0.1:");
    let threads = std::fs::read_dir(format!("/proc/{}/task", tmux.child())).unwrap();
    let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm")).unwrap();
    let names: Vec<String> = threads.map(|thread| name(thread.unwrap())).collect();
    assert!(names.contains(&"tui-watch\n".to_owned()), "the names that `kill` waits for: {names:?}");
    tmux.keys(&["q"]);
    tmux.ended(0);
    assert!(place.path().join("threads-ended").exists(), "the program asked this `kill`");
    let left = std::fs::read_dir(place.path().join("cache/taskreel")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "private copies are removed");
}

#[test]
fn a_directory_that_is_damaged_half_way_is_shown_as_far_as_it_can_be_read() {
    let place = small_log();
    let db = place.path().join("taskreel-log/db");
    let mut bytes = std::fs::read(&db).unwrap();
    // The last record of the task.
    let name = b"/sum-0001";
    let at = bytes.windows(name.len()).rposition(|piece| piece == name).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&db, bytes).unwrap();
    let before = place.files("taskreel-log");
    let Some(tmux) = Tmux::start(&place, "tui --data-dir taskreel-log", (120, 30)) else { return };
    let screen = tmux.shows("sum-0001");
    assert!(screen.lines().next().unwrap().contains("DAMAGED"), "{screen}");
    assert!(screen.contains("The log is damaged; what can be read of it is shown"), "{screen}");
    tmux.keys(&[":open sum-0001", "Enter"]);
    tmux.shows("tool add");
    tmux.keys(&[":open nobody-0001", "Enter"]);
    tmux.shows("may stand behind the damage");
    tmux.keys(&["q"]);
    tmux.ended(0);
    assert_eq!(place.files("taskreel-log"), before, "nothing was changed");
}
