//! The pages of a log in a directory: while programs come and go, and where it is damaged half way; hostile content of each source.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::Instant;

use crate::binary::{Place, small_log};
use crate::served::{PATIENCE, Served, task, until};

fn inspect(place: &Place, line: &str) -> Served {
    Served::start_as(place, ("inspect", "inspector"), line, &[])
}

fn post(served: &Served, id: &str) {
    let (status, told) = served.send("POST", "/tasks/", "", &task(id, "add", r#"{"a":2,"b":3}"#)).unwrap();
    assert_eq!(status, 200, "{told}");
}

/// The events that a page follows, and the last one that it was told of.
struct Follower {
    out: BufReader<std::net::TcpStream>,
    last: u64,
}

impl Follower {
    fn start(pages: &Served, last: u64) -> Self {
        let mut stream = pages.connect();
        let host = pages.address;
        let request =
            format!("GET /inspect/live/events HTTP/1.1\r\nhost: {host}\r\nlast-event-id: {last}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Self { out: BufReader::new(stream), last }
    }

    /// Reads until an event of this position has come. Each is the one after the one before.
    fn read_to(&mut self, end: u64) {
        let began = Instant::now();
        while self.last < end {
            let mut line = String::new();
            assert!(began.elapsed() < PATIENCE, "no event comes behind {}, and the log has {end}", self.last);
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "the events end at {}", self.last);
            assert!(!line.starts_with("event: failed"), "the page was told that it is over");
            // Of an event: data follows its id at once. How far the log was looked through says nothing new here.
            if let Some(position) = line.split("{\"position\":").nth(1) {
                let position: u64 = position.split(',').next().unwrap().parse().unwrap();
                assert_eq!(position, self.last + 1, "each event comes once and in its order");
                self.last = position;
            }
        }
    }
}

fn head_of(place: &Place) -> u64 {
    let events = place.run("events --all --json").ended(0).json();
    events.last().unwrap()["position"].as_u64().unwrap()
}

#[test]
fn pages_go_on_by_themselves_when_the_program_dies_and_one_that_comes_back_is_followed_without_gap_or_repeat()
{
    let place = Place::new();
    let first = Served::start(&place, "--listen 127.0.0.1:0", &[]);
    post(&first, "one-0001");
    let pages = inspect(&place, "");
    let mut follower = Follower::start(&pages, 0);
    follower.read_to(head_of(&place));
    let badge = |word: &str| pages.get("/inspect/").1.contains(&format!(">{word}</span>"));
    assert!(badge("live"));
    first.signal("-KILL");
    first.end();
    until("the pages say that nobody has the log open", || badge("stopped"));
    assert!(pages.get("/inspect/live").1.contains("events come here once one does"));
    // What is decided or added between two programs comes too.
    place.run_tasks(&task("two-0001", "add", r#"{"a":1,"b":1}"#), "").ended(0);
    follower.read_to(head_of(&place));
    for round in 0..3 {
        let next = Served::start(&place, "--listen 127.0.0.1:0", &[]);
        let id = format!("more-000{round}");
        post(&next, &id);
        follower.read_to(head_of(&place));
        until("the pages say that a program has the log open", || badge("live"));
        let (status, page) = pages.get(&format!("/inspect/t/agent/{id}"));
        assert!(status == 200 && page.contains("CallSucceeded"), "{page}");
        // Another page, which was closed meanwhile, goes on where it was.
        let mut again = Follower::start(&pages, follower.last / 2);
        again.read_to(follower.last);
        next.signal(if round == 1 { "-TERM" } else { "-KILL" });
        next.end();
        if round == 1 {
            until("the pages say that nobody has the log open", || badge("stopped"));
        }
    }
    pages.signal("-TERM");
    pages.end().ended(0);
}

#[test]
fn pages_of_a_server_wait_while_it_is_away_and_go_on_when_it_comes_back() {
    let place = Place::new();
    let first = Served::start(&place, "--listen 127.0.0.1:0", &[]);
    post(&first, "one-0001");
    let port = first.address.port();
    let pages = inspect(&place, &format!("--url http://127.0.0.1:{port}"));
    let mut follower = Follower::start(&pages, 0);
    follower.read_to(head_of(&place));
    first.signal("-KILL");
    first.end();
    let mut line = String::new();
    let began = Instant::now();
    while !line.starts_with("event: waiting") {
        line.clear();
        assert!(began.elapsed() < PATIENCE, "the page was not told that the server is away");
        assert_ne!(follower.out.read_line(&mut line).unwrap(), 0, "the page waits");
    }
    let again = Served::start(&place, &format!("--listen 127.0.0.1:{port}"), &[]);
    post(&again, "two-0001");
    follower.read_to(head_of(&place));
    for served in [pages, again] {
        served.signal("-TERM");
        served.end().ended(0);
    }
}

/// Changes one byte of the last record of the database that holds a text.
fn bend(place: &Place, text: &[u8]) {
    let db = place.path().join("taskreel-log/db");
    let mut bytes = std::fs::read(&db).unwrap();
    let at = bytes.windows(text.len()).rposition(|piece| piece == text).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&db, bytes).unwrap();
}

#[test]
fn the_pages_of_a_directory_that_is_damaged_half_way_show_what_can_be_read_and_say_where_it_ends() {
    let place = small_log();
    bend(&place, b"/sum-0001");
    let before = place.files("taskreel-log");
    let pages = inspect(&place, "");
    let (status, runs) = pages.get("/inspect/");
    assert_eq!(status, 200, "{runs}");
    assert!(runs.contains("The log is damaged; what can be read of it is shown"), "{runs}");
    assert!(runs.contains("sum-0001"), "{runs}");
    let (status, run) = pages.get("/inspect/t/agent/sum-0001");
    assert!(status == 200 && run.contains("CallDispatched") && !run.contains("CallSucceeded"), "{run}");
    for path in ["sessions", "live", "tools", "inbox", "audit"] {
        let (status, page) = pages.get(&format!("/inspect/{path}"));
        assert!(status == 200 && page.contains("The log is damaged"), "{path}: {status} {page}");
    }
    let (_, audit) = pages.get("/inspect/audit?verify=1");
    assert!(audit.contains("✗ not sound:"), "{audit}");
    let (status, none) = pages.get("/inspect/open?id=nobody-0001");
    assert!(status == 404 && none.contains("it may stand behind the damage"), "{none}");
    pages.signal("-TERM");
    pages.end().ended(0);
    assert_eq!(place.files("taskreel-log"), before, "nothing was changed");
    assert!(place.copies().is_empty(), "{:?}", place.copies());
}

#[test]
fn what_a_report_or_a_page_does_not_find_in_a_damaged_log_is_not_called_unknown() {
    let place = small_log();
    let export = place.run("export").ended(0).out();
    let whole: Vec<&str> = export.lines().collect();
    let first = whole.iter().position(|line| line.contains("\"stream\":\"task-agent/ask-0001\"")).unwrap();
    std::fs::write(place.path().join("cut.ndjson"), whole[..first].join("\n")).unwrap();
    let told = place.run("report ask-0001 --file cut.ndjson -o ask.html").ended(5);
    told.told(&["cut.ndjson", "may stand behind", "ask-0001"]);
    assert!(!place.path().join("ask.html").exists());
    place.run("report ask-0001 --file cut.ndjson").ended(5);
    // What stands before the cut is reported, and an id that cannot be one is still called so.
    place.run("report sum-0001 --file cut.ndjson -o sum.html");
    assert!(place.path().join("sum.html").exists());
    place.run("report su --file cut.ndjson").ended(5);
    let pages = inspect(&place, "--file cut.ndjson");
    for path in ["open?id=ask-0001", "t/agent/ask-0001", "s/agent/ask-0001", "compare?l=sum-0001&r=ask-0001"]
    {
        let (status, page) = pages.get(&format!("/inspect/{path}"));
        assert!(status == 404 && page.contains("it may stand behind the damage"), "{path}: {page}");
    }
    // A page that there is not is not behind a damage.
    assert!(!pages.get("/inspect/nowhere").1.contains("behind the damage"));
    pages.signal("-TERM");
    pages.end().ended(0);
    place.run("report nobody-0001").ended(3).told(&["nobody-0001"]);
}

/// A text with all that a page or a terminal could obey.
const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{1b}[2J\u{202e}";

#[test]
fn hostile_content_is_text_on_the_pages_of_a_server_as_on_its_own() {
    let place = Place::new();
    let served = Served::start(&place, "--listen 127.0.0.1:0", &[]);
    let args = serde_json::json!({ "text": HOSTILE }).to_string();
    let (status, told) = served.send("POST", "/tasks/", "", &task("echo-0001", "echo", &args)).unwrap();
    assert_eq!(status, 200, "{told}");
    let there = inspect(&place, &format!("--url http://{}", served.address));
    for path in [
        "",
        "t/agent/echo-0001",
        "t/agent/echo-0001?tab=call",
        "t/agent/echo-0001?tab=state",
        "live",
        "sessions",
        "tools",
        "audit?verify=1",
        "compare?l=echo-0001&r=echo-0001",
        "open?id=%3Cscript%3Ealert(1)%3C/script%3E",
    ] {
        for pages in [&served, &there] {
            let (status, page) = pages.get(&format!("/inspect/{path}"));
            assert!(matches!(status, 200 | 404), "{path}: {status}");
            assert!(page.contains("</html>"), "{path}: the page is whole");
            assert!(!page.contains("<script>") && !page.contains("<img"), "{path}: {page}");
            assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'), "{path}: {page}");
        }
    }
    let (_, run) = there.get("/inspect/t/agent/echo-0001?tab=call");
    assert!(run.contains("&lt;script&gt;") && run.contains("⟨U+202E⟩"), "{run}");
    let (_, audit) = there.get("/inspect/audit?verify=1");
    assert!(audit.contains("✓ sound:") && audit.contains("The file HEAD"), "{audit}");
    for served in [there, served] {
        served.signal("-TERM");
        served.end().ended(0);
    }
}
