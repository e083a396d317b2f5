//! `--url`: every command that reads prints of a log behind a server what it prints of the directory, and decisions are made
//! there. The commands are those whose help names the option, so that a new one is covered or noticed.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;
mod random_conditions;
mod url_lines;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use binary::{Place, Ran};
use proto_events::json;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{JsonSchema, Part, System};
use taskreel_http::{LiveApi, Mounted, RunningServer, Server};
use tokio::runtime::Runtime;
use url_lines::{assert_each_option_is_compared, lines, with_url};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// A program that holds a log in the directory `log` of a place, and serves it.
struct Program {
    place: Place,
    runtime: Runtime,
    system: System,
    serving: RunningServer,
    url: String,
}

impl Program {
    fn start() -> Self {
        let place = Place::new();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let dir = place.path().join("log");
        let (system, serving) = runtime.block_on(async {
            let system = system(&dir).await;
            let handler = Mounted::new().mount("/api", Arc::new(LiveApi::new(&system)));
            let server =
                Server::new().workers(1).grace(Duration::from_millis(100)).mount("/", Arc::new(handler));
            let serving = server.start("127.0.0.1:0").await.unwrap();
            (system, serving)
        });
        let url = format!("http://{}", serving.address());
        Self { place, runtime, system, serving, url }
    }

    fn here(&self, line: &str) -> Ran {
        self.place.run(&format!("{line} --data-dir log"))
    }

    fn there(&self, line: &str) -> Ran {
        self.place.run(&format!("{line} --url {}", self.url))
    }

    fn submit(&self, id: &str, tool: &str) {
        let part = Part::tool_call(tool, json!({})).unwrap();
        self.runtime.block_on(async {
            let run = self.system.session("s").run(part).id(id);
            drop(run.await.unwrap().finished().await.unwrap());
        });
    }

    fn stop(self) {
        self.runtime.block_on(async {
            self.serving.stop().await.unwrap();
            self.system.shutdown().await.unwrap();
        });
    }
}

async fn system(dir: &std::path::Path) -> System {
    let pays = |_: Nothing| async { Ok::<_, ToolError>(7) };
    let asks = |context: ToolContext, _: Nothing| async move { context.ask("Which one?").await };
    let keeps = |context: ToolContext, _: Nothing| async move {
        context.state().put("last", "kept", proto_events::id::Version(0))
    };
    let hangs = |_: Nothing| async {
        std::future::pending::<()>().await;
        Ok::<_, ToolError>(0)
    };
    let rows = |_: Nothing| async {
        let rows = [1, 2, 3].map(|n| BTreeMap::from([("number", n), ("square", n * n)]));
        Ok::<_, ToolError>(BTreeMap::from([("rows", rows)]))
    };
    let echo = |args: Text| async move { Ok::<_, ToolError>(args.text) };
    let spends = ToolPolicy::manual().capabilities(["money.spend"]);
    let impatient = ToolPolicy::manual().timeout(Duration::from_millis(20));
    System::builder(dir)
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approvals_by_person()
        .infer(Scripted::new(vec![Entry::Text(r#"{"type": "final", "content": "hello"}"#.to_owned())]))
        .tool("echo", "Echoes", echo)
        .tool("rows", "Rows", rows)
        .tool("keep", "Keeps", keeps)
        .tool("choose", "Chooses", asks)
        .tool_with("pay", "Pays", pays, spends)
        .tool_with("hang", "Hangs", hangs, impatient)
        .start()
        .await
        .unwrap()
}

/// Returns the fields of a call that is not settled.
fn open_call(program: &Program, task: &str, name: &str) -> String {
    let rows = program.here("calls --json").ended(0).json();
    let row = rows.iter().find(|row| row.get("task").and_then(|id| id.as_str()) == Some(task));
    row.and_then(|row| row.get(name)?.as_str()).unwrap_or_else(|| panic!("{name} of {task}")).to_owned()
}

/// Puts one word for the place of the log, for ages, and for the time that a command took.
fn neutral(program: &Program, text: &str) -> String {
    const UNITS: [&str; 6] = ["ms", "s", "min", "h", "d", "ms,"];
    let text = text.replace(&format!("--url {}", program.url), "AT").replace("--data-dir log", "AT");
    let text = text.replace(&program.url, "PLACE").replace(" of log", " of PLACE");
    let line = |line: &str| {
        // In braces: the speed of a verification.
        let line = line.split("   (").next().unwrap_or(line);
        let line = line.split(",\"seconds\"").next().unwrap_or(line);
        let mut words: Vec<&str> = line.split_whitespace().collect();
        for at in 1..words.len() {
            let figure = words[at - 1].trim_start_matches('(');
            let is_figure = figure.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            if is_figure && UNITS.contains(&words[at].trim_end_matches(')')) {
                words[at - 1] = "AGE";
                words[at] = "AGE";
            }
        }
        words.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn compare(program: &Program, line: &str) {
    for more in ["", " --json"] {
        let line = format!("{line}{more}");
        let (here, there) = (program.here(&line), program.there(&line));
        assert!(matches!(here.code(), Some(0 | 1)), "{line}: {}", here.err());
        assert!(!here.out().is_empty(), "{line} prints nothing");
        let (shown, expected) = (neutral(program, &there.out()), neutral(program, &here.out()));
        assert_eq!(shown, expected, "{line}: {}", there.err());
        assert_eq!(there.code(), here.code(), "{line}");
    }
}

#[test]
fn every_reading_command_prints_of_a_server_what_it_prints_of_the_directory() {
    let program = Program::start();
    for (id, tool) in [
        ("keep-0001", "keep"),
        ("rows-0001", "rows"),
        ("pay-0001", "pay"),
        ("ask-0001", "choose"),
        ("hang-0001", "hang"),
        ("odd-0001", "none"),
    ] {
        program.submit(id, tool);
    }
    program.runtime.block_on(async {
        let task = program.system.session("talk").run("Say hello").id("talk-0001").await;
        task.unwrap().finished().await.unwrap();
    });
    let shown = program.here("show talk-0001 --json").ended(0).json();
    let infer = shown[0].pointer("/calls/0/call_id").and_then(|id| id.as_str()).unwrap().to_owned();
    let result = |task: &str| {
        let outputs = program.here(&format!("artifact {task} --json")).ended(0).json();
        outputs[0].get("artifact").and_then(|id| id.as_str()).unwrap().to_owned()
    };
    std::fs::write(program.place.path().join("copy.ndjson"), program.here("export").ended(0).out()).unwrap();
    let lines = lines(&infer, &result("keep-0001"), &result("rows-0001"));
    let mut covered: BTreeSet<String> =
        ["tail", "approve", "deny", "reconcile", "abandon", "answer", "cancel"].map(str::to_owned).into();
    // Each line is four processes; some at once take less time.
    std::thread::scope(|scope| {
        for lines in lines.chunks(lines.len().div_ceil(4)) {
            let program = &program;
            scope.spawn(move || lines.iter().for_each(|line| compare(program, line)));
        }
    });
    for line in &lines {
        covered.extend(line.split(' ').next().map(str::to_owned));
    }
    let export = program.here("export").ended(0).out();
    assert_eq!(program.there("export").ended(0).out(), export, "byte for byte");
    assert_eq!(covered, with_url(&program.place), "each command with --url is compared");
    assert_each_option_is_compared(&program.place, &lines);
    program.stop();
}

#[test]
fn a_condition_selects_the_same_in_a_directory_an_export_at_the_socket_and_behind_a_server() {
    let program = Program::start();
    for (id, tool) in
        [("keep-0001", "keep"), ("pay-0001", "pay"), ("hang-0001", "hang"), ("odd-0001", "none")]
    {
        program.submit(id, tool);
    }
    std::fs::write(program.place.path().join("copy.ndjson"), program.here("export").ended(0).out()).unwrap();
    let end = program.system.log().head().unwrap();
    let lines = random_conditions::lines(15);
    let ran = |words: &[String], place: &[&str]| {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(place.iter().copied()).collect();
        let ran = Ran(program.place.command(&words).stdin(Stdio::null()).output().unwrap());
        assert_eq!(ran.code(), Some(0), "{words:?}: {}", ran.err());
        ran.out()
    };
    let mut found = Vec::new();
    for words in &lines {
        let at_socket = ran(words, &["--data-dir", "log"]);
        assert_eq!(ran(words, &["--url", &program.url]), at_socket, "{words:?} behind a server");
        assert_eq!(ran(words, &["--file", "copy.ndjson"]), at_socket, "{words:?} of an export");
        found.push(at_socket);
    }
    let some = found.iter().filter(|found| !found.is_empty()).count();
    assert!(
        some > lines.len() / 4 && some < lines.len(),
        "{some} of {} conditions hold somewhere",
        lines.len()
    );
    let Program { place, runtime, system, serving, .. } = program;
    runtime.block_on(async {
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    });
    let at = format!("@{end}");
    for (words, found) in lines.iter().zip(&found) {
        let words = words.iter().map(String::as_str).chain(["--data-dir", "log", "--at", &at]);
        let alone = Ran(place.command(words.clone()).stdin(Stdio::null()).output().unwrap());
        assert_eq!(&alone.out(), found, "{:?} of the directory: {}", words.collect::<Vec<_>>(), alone.err());
    }
}

#[test]
fn decisions_are_made_through_the_server_and_twice_are_made_once() {
    let program = Program::start();
    for (id, tool) in [
        ("pay-0001", "pay"),
        ("pay-0002", "pay"),
        ("pay-0003", "pay"),
        ("ask-0001", "choose"),
        ("hang-0001", "hang"),
        ("hang-0002", "hang"),
    ] {
        program.submit(id, tool);
    }
    let approval = |task: &str| open_call(&program, task, "approval_id");
    let call = |task: &str| open_call(&program, task, "call_id");
    let lines = [
        // The end of an id, as lists show it.
        format!("approve pay-0001 {}", approval("pay-0001").rsplit('_').next().unwrap()),
        format!("deny pay-0002 {} --reason no", approval("pay-0002")),
        "cancel pay-0003 --reason late".to_owned(),
        format!("answer {} blue", open_call(&program, "ask-0001", "question_id")),
        format!("reconcile {} --landed 7", call("hang-0001")),
        format!("abandon {} --reason gone", call("hang-0002")),
    ];
    for line in &lines {
        for is_new in [true, false] {
            let made = program.there(&format!("{line} --json")).ended(0).json();
            let made = &made[0];
            assert_eq!(made.get("schema").and_then(|it| it.as_str()), Some("taskreel.decision/1"), "{line}");
            assert_eq!(made.get("new").map(ToString::to_string), Some(is_new.to_string()), "{line}: {made}");
        }
    }
    program
        .there(&lines[1].replace("deny", "approve").replace(" --reason no", ""))
        .ended(1)
        .told(&["refused"]);
    program.there("cancel none-such").ended(3).told(&["none-such"]);
    program.here("verify").ended(0);
    program.stop();
}

/// A command that follows, and the positions that it prints.
struct Follower {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Follower {
    fn start(place: &Place, line: &str) -> Self {
        let mut command = place.command(line.split(' '));
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Reads this many lines.
    fn positions(&mut self, count: u64) -> Vec<u64> {
        let mut position = |_| {
            let mut line = String::new();
            self.out.read_line(&mut line).unwrap();
            let row: serde_json::Value = serde_json::from_str(&line).unwrap();
            row["position"].as_u64().unwrap()
        };
        (0..count).map(&mut position).collect()
    }

    fn stop(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn what_follows_shows_what_is_written_and_goes_on_after_the_server_comes_back() {
    let program = Program::start();
    program.submit("keep-0001", "keep");
    let line = format!("events --all --json --follow --url {}", program.url);
    let mut follower = Follower::start(&program.place, &line);
    let head = |system: &System| system.log().head().unwrap().0;
    let mut seen = follower.positions(head(&program.system));
    program.submit("keep-0002", "keep");
    seen.extend(follower.positions(head(&program.system) - seen.len() as u64));
    let Program { place, runtime, system, serving, url } = program;
    let submit = |text: &str| {
        runtime.block_on(async { system.submit(Part::text(text)).await.unwrap().finished().await.unwrap() });
    };
    let address = serving.address();
    runtime.block_on(serving.stop()).unwrap();
    submit("while the server is gone");
    // A program that connects to a port where nobody listens may hold that port itself for a moment.
    let began = std::time::Instant::now();
    let serving = loop {
        let handler = Mounted::new().mount("/api", Arc::new(LiveApi::new(&system)));
        let server = Server::new().workers(1).grace(Duration::from_millis(100)).mount("/", Arc::new(handler));
        match runtime.block_on(server.start(address)) {
            Ok(serving) => break serving,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(30), "{error}"),
        }
    };
    submit("after it is back");
    seen.extend(follower.positions(head(&system) - seen.len() as u64));
    let expected: Vec<u64> = (1..=seen.len() as u64).collect();
    assert_eq!(seen, expected, "nothing is lost and nothing comes twice");
    follower.stop();
    let mut tail = Follower::start(&place, &format!("tail --json --limit 3 --url {url}"));
    assert_eq!(tail.positions(3), expected[expected.len() - 3..]);
    tail.stop();
    runtime.block_on(async {
        serving.stop().await.unwrap();
        system.shutdown().await.unwrap();
    });
}
