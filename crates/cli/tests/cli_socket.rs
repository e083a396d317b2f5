//! The commands beside a program that has the log open: they read through its local socket, decisions are made by the
//! program itself, and where the socket is shut a copy is read.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod binary;

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use binary::{Place, Ran};
use proto_events::codec::record::HeaderField;
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::Scripted;
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, JsonSchema, Part, PostedTask, System, TaskState};
use taskreel_log::socket::SOCKET_FILE;
use taskreel_log::testing::conformance::draft;

const LOG: &str = "taskreel-log";

#[derive(Deserialize, JsonSchema)]
struct Cents {
    cents: i64,
}

/// The amounts paid.
type Paid = Arc<Mutex<Vec<i64>>>;

const REPLIES: &str = r#"{"buy": [{"type":"tool_call","tool":"pay","args":{"cents":7}}],
    "was approved": [{"type":"final","content":"bought"}], "was denied": [{"type":"final","content":"not bought"}]}"#;

/// Returns the host of the place's log, whose tool `pay` needs a person's approval.
fn host(place: &Place, paid: &Paid) -> Builder {
    let paid = Arc::clone(paid);
    let pay = move |args: Cents| {
        paid.lock().unwrap().push(args.cents);
        async move { Ok::<_, Infallible>(args.cents) }
    };
    System::builder(place.path().join(LOG))
        .tool_with("pay", "Pays", pay, ToolPolicy::manual().capabilities(["money.spend"]))
        .infer(Scripted::from_json(REPLIES).unwrap())
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approvals_by_person()
}

fn task(id: &str, parts: &[Part]) -> PostedTask {
    let parts: Vec<Value> = parts.iter().map(|part| part.to_json().tree()).collect();
    let posted = json!({"id": id, "messages": [{"id": format!("m-{id}"), "role": "user", "parts": parts}]});
    PostedTask::from_json(&JsonText::from(posted), &mut taskreel_log::ports::Ports::default()).unwrap()
}

/// Starts a host whose tasks `part-0001`, `model-0001` and `more-0001` wait for approval.
async fn waiting(builder: Builder) -> System {
    let system = builder.start().await.unwrap();
    let pay = || Part::tool_call("pay", json!({"cents": 5})).unwrap();
    for (id, part) in [("part-0001", pay()), ("model-0001", Part::infer("buy it")), ("more-0001", pay())] {
        let waits = system.submit(task(id, &[part])).await.unwrap().finished().await.unwrap();
        assert_eq!(waits.state(), TaskState::InputRequired);
    }
    system
}

/// The commands that read, each with its exit code.
fn reading(place: &Place) -> Vec<(String, i32)> {
    let shown = place.run("show model-0001 --json").ended(0).json();
    let prompt = format!("prompt {}", shown[0]["calls"][0]["call_id"].as_str().unwrap());
    [
        ("ls", 0),
        ("ls --sessions", 0),
        ("show part-0001", 0),
        ("events model-0001", 0),
        ("events --all", 0),
        ("event part-0001 2", 0),
        ("state part-0001", 0),
        ("artifact part-0001", 0),
        (prompt.as_str(), 0),
        ("replay --all", 0),
        ("verify", 0),
        ("diff part-0001 1 2", 1),
        ("diff part-0001 more-0001", 0),
        ("diff part-0001 model-0001", 1),
        ("explain part-0001", 0),
        ("calls", 0),
        ("attention", 1),
        ("stats", 0),
        ("search cents", 0),
        ("trace model-0001", 0),
        ("seq model-0001", 0),
        ("graph model-0001", 0),
        ("transcript model-0001", 0),
        ("report model-0001", 0),
        ("export", 0),
        ("doctor", 0),
        // It follows the log until it is asked to end.
        ("tail", 130),
    ]
    .map(|(line, code)| (line.to_owned(), code))
    .to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reading_command_works_through_the_socket_and_makes_no_copy() {
    let (place, paid) = (Place::new(), Paid::default());
    let system = Box::pin(waiting(host(&place, &paid))).await;
    // Where no copy could be made: a file stands in the place of the folder.
    std::fs::write(place.path().join("no-folder"), "").unwrap();
    for (line, code) in reading(&place) {
        place.read(&format!("{line} --scratch no-folder")).ended(code);
    }
    assert_eq!(place.run("ls --json").ended(0).json().len(), 3);
    let through_socket = place.run("export").ended(0).out();
    system.shutdown().await.unwrap();
    place.run("ls --scratch no-folder").ended(5).told(&["no-folder"]);
    // The same records, but for those of the shutdown.
    let closed = place.run("export").ended(0).out();
    let records = |export: &str| export.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (records(&through_socket), records(&closed));
    assert_eq!(before[..before.len() - 1], after[..before.len() - 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_made_by_the_program_that_has_the_log_open() {
    let (place, paid) = (Place::new(), Paid::default());
    let system = Box::pin(waiting(host(&place, &paid))).await;
    let rows = place.run("calls --json").ended(0).json();
    let approval = |task: &str| {
        let row = rows.iter().find(|row| row["task"] == task).unwrap();
        row["approval_id"].as_str().unwrap().to_owned()
    };
    let done =
        place.run(&format!("approve model-0001 {} --by mallory --json", approval("model-0001"))).ended(0);
    assert_eq!(done.json()[0]["decision"], "approved");
    assert_ne!(done.json()[0]["by"], "mallory", "a name that a client gives is not taken");
    assert!(done.err().contains("records the user of this process"), "{}", done.err());
    assert!(!done.err().contains("starts again"), "{}", done.err());
    let end = system.task("model-0001").unwrap().finished().await.unwrap();
    assert_eq!(end.answer().unwrap().as_str(), "\"bought\"", "{}", end.to_json());
    assert_eq!(*paid.lock().unwrap(), [7]);
    let denied = place.run(&format!("deny part-0001 {} --reason no", approval("part-0001"))).ended(0);
    assert!(denied.out().contains("denied; task part-0001 is failed"), "{}", denied.out());
    let canceled = place.run("cancel more-0001 --reason enough").ended(0);
    assert!(canceled.out().contains("canceled; task more-0001 is canceled"), "{}", canceled.out());
    let again = place.run("cancel more-0001").ended(0);
    assert!(again.out().contains("canceled before"), "{}", again.out());
    place.run("cancel part-0001").ended(1).told(&["refused"]);
    place.run("cancel nobody-at-all").ended(3).told(&["nobody-at-all"]);
    place.run("approve part-0001 approval_0").ended(3).told(&["never requested"]);
    let events = place.run("events model-0001 --json").ended(0).json();
    let decided = events.iter().find(|row| row["kind"] == "ApprovalDecided").unwrap();
    assert_eq!(decided["principal"], done.json()[0]["by"]);
    assert!(place.run("calls --json").ended(0).json().is_empty());
    system.shutdown().await.unwrap();
    place.run("verify").ended(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_held_behind_a_shut_socket_is_copied_live() {
    let (place, paid) = (Place::new(), Paid::default());
    let system = Box::pin(waiting(host(&place, &paid).local_socket(false))).await;
    assert!(!place.path().join(LOG).join(SOCKET_FILE).exists());
    for (line, code) in reading(&place) {
        let ran = place.read(&line).ended(code);
        assert!(!ran.err().contains("was not closed"), "{line}: {}", ran.err());
    }
    assert_eq!(place.copies(), Vec::<String>::new());
    system.shutdown().await.unwrap();
}

#[test]
fn the_socket_of_a_killed_program_hinders_nobody() {
    let place = Place::new();
    let mut child = place
        .command(["demo", "--data-dir", LOG, "--kill-at", "60"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(place.path().join(LOG).join(SOCKET_FILE).exists(), "the socket is left");
    let said = place.run("ls").ended(0).err();
    assert!(said.contains("was not closed by process"), "{said}");
    let resumed = place.run(&format!("demo --resume --pace 0 --data-dir {LOG}"));
    assert!(resumed.code().is_some_and(|code| code < 2), "{}", resumed.err());
    assert!(!place.path().join(LOG).join(SOCKET_FILE).exists());
    assert!(!place.run("verify").ended(0).err().contains("was not closed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_refused_at_the_socket_by_what_the_system_says_of_it_and_reads_a_copy() {
    let (place, paid) = (Place::new(), Paid::default());
    let system = Box::pin(waiting(host(&place, &paid))).await;
    let scratch = tempfile::tempdir().unwrap();
    let open_to_all = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open_to_all(place.path(), 0o755);
    open_to_all(scratch.path(), 0o777);
    let let_in = Command::new("chmod").args(["-R", "o+rX", LOG]).current_dir(place.path()).status();
    assert!(let_in.unwrap().success());
    // As if the mode of the socket did not keep others out.
    open_to_all(&place.path().join(LOG).join(SOCKET_FILE), 0o777);
    let binary = scratch.path().join("taskreel");
    std::fs::copy(env!("CARGO_BIN_EXE_taskreel"), &binary).unwrap();
    let as_nobody = |line: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&binary);
        command.args(line.split_whitespace()).args(["--data-dir", LOG, "--scratch"]);
        Ran(command.arg(scratch.path().join("copies")).current_dir(place.path()).output().unwrap())
    };
    if Command::new("setpriv").args(["--reuid", "65534", "true"]).status().is_ok_and(|ran| ran.success()) {
        assert_eq!(as_nobody("ls --json").ended(0).json().len(), 3);
        // The decision is the owner's: another user can neither use the socket nor open the log.
        assert_ne!(as_nobody("cancel more-0001").code(), Some(0));
        let task = system.task("more-0001").unwrap().snapshot().await.unwrap();
        assert_eq!(task.state(), TaskState::InputRequired);
    } else {
        eprintln!("not tested: this user cannot become another");
    }
    system.shutdown().await.unwrap();
}

#[test]
fn a_program_that_stands_still_does_not_hold_up_its_readers() {
    let place = binary::small_log();
    let mut child = place
        .command(["run", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let socket = place.path().join(LOG).join(SOCKET_FILE);
    // After its first task it waits for more, with its log open.
    let task = r#"{"id":"text-0001","messages":[{"role":"user","parts":[{"type":"text","content":"x"}]}]}"#;
    writeln!(child.stdin.as_mut().unwrap(), "{task}").unwrap();
    until(|| socket.exists() && place.run("ls --json").ended(0).json().len() == 4);
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    place.run("ls --json --scratch /dev/null/none").ended(0);
    signal("-STOP");
    let since = Instant::now();
    let ran = place.run("ls --json");
    signal("-CONT");
    let ran = ran.ended(0);
    assert_eq!(ran.json().len(), 4);
    assert!(ran.err().contains("gave no answer"), "{}", ran.err());
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    drop(child.stdin.take());
    assert_eq!(binary::exit_code(&mut child), Some(0));
    assert!(!socket.exists());
}

/// Answers every client of a socket with the same word, in the place of the program that has the log open.
fn answer_all(place: &Place, answer: &'static str) {
    let socket = UnixListener::bind(place.path().join(LOG).join(SOCKET_FILE)).unwrap();
    std::thread::spawn(move || {
        for client in socket.incoming() {
            let mut client = client.unwrap();
            let mut hello = [0; 5];
            // A client may go before it has spoken.
            let _ = client.read_exact(&mut hello);
            let mut frame = u32::try_from(answer.len() + 1).unwrap().to_be_bytes().to_vec();
            frame.push(b'J');
            frame.extend_from_slice(answer.as_bytes());
            let sent = if answer.is_empty() { &[][..] } else { &frame };
            let _ = client.write_all(sent);
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_served_at_a_socket_hears_why_is_not_told_to_stop_the_program_and_follows_copies() {
    for (answer, words) in [
        ("\"busy\"", "is busy"),
        (r#"{"other_protocol":{"protocol":1}}"#, "speaks version 1 of the protocol"),
        ("\"not_allowed\"", "is another user's"),
        ("", "gave no answer"),
    ] {
        let (place, paid) = (Place::new(), Paid::default());
        let system = Box::pin(waiting(host(&place, &paid).local_socket(false))).await;
        answer_all(&place, answer);
        let refused = place.run("cancel more-0001").ended(4).told(&[words, "nothing was decided"]);
        assert!(!refused.err().contains("kill") && !refused.err().contains("stop it"), "{}", refused.err());
        assert_eq!(place.run("ls --json").ended(0).json().len(), 3, "a copy is read");
        let mut tail = place.command(["tail", "--json", "--limit", "1"]);
        let mut tail = tail.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut shown = BufReader::new(tail.stdout.take().unwrap()).lines();
        shown.next().unwrap().unwrap();
        let mut said = BufReader::new(tail.stderr.take().unwrap()).lines().map_while(Result::ok);
        let told = said.by_ref().find(|line| line.contains("a copy is read every 5 s")).unwrap();
        assert!(told.contains(words) && !told.contains("no socket"), "{told}");
        system.cancel("more-0001", None).await.unwrap();
        let found = shown.map_while(Result::ok).any(|line| line.contains("canceled"));
        assert!(found, "what is written is followed");
        tail.kill().unwrap();
        tail.wait().unwrap();
        system.shutdown().await.unwrap();
    }
}

const WELCOME: &str = r#"{"welcome":{"protocol":2,"release":"9.0.0","pid":1,"program":"later","started":"now",
    "format":1,"log":"000102030405060708090a0b0c0d0e0f","durability":"strict","takes_decisions":false}}"#;

fn frame(kind: u8, contents: &[u8]) -> Vec<u8> {
    let length = u32::try_from(contents.len() + 1).unwrap().to_be_bytes();
    [&length[..], &[kind], contents].concat()
}

/// Returns the frame of a record with a header field that a reader must understand, and this release does not.
fn newer_record() -> Vec<u8> {
    let mut draft = draft("task-taskreel/later-0001", 1, b"body");
    draft.fields = vec![HeaderField { tag: 0x7ffe, bytes: b"a later release".to_vec() }];
    let mut bytes = draft.encode().unwrap().bytes().to_vec();
    let at = bytes.windows(2).position(|tag| tag == [0x7f, 0xfe]).unwrap();
    bytes[at] = 0xff;
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    frame(b'R', &[&1_u64.to_be_bytes()[..], &[0_u8; 32], &length, &bytes, &[0_u8; 4]].concat())
}

/// Serves one client in the place of a program of a newer release. The record is in the page at the log's begin and comes
/// to a follower; the pages behind are empty.
fn serve_newer(mut client: UnixStream) {
    let mut length = [0; 4];
    while client.read_exact(&mut length).is_ok() {
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        client.read_exact(&mut request).unwrap();
        let request = String::from_utf8(request.split_off(1)).unwrap();
        let done = || frame(b'J', b"\"done\"");
        let answer = if request.starts_with(r#"{"hello""#) {
            frame(b'J', WELCOME.as_bytes())
        } else if request == "\"head\"" {
            frame(b'J', br#"{"number":9000}"#)
        } else if request.starts_with(r#"{"page_all":{"from":1,"#) {
            [newer_record(), done()].concat()
        } else if request.starts_with(r#"{"follow""#) {
            newer_record()
        } else {
            done()
        };
        client.write_all(&answer).unwrap();
    }
}

#[test]
fn a_record_of_a_newer_release_that_comes_through_the_socket_ends_a_reader_and_a_follower_with_7() {
    let place = Place::new();
    std::fs::create_dir(place.path().join(LOG)).unwrap();
    let socket = UnixListener::bind(place.path().join(LOG).join(SOCKET_FILE)).unwrap();
    std::thread::spawn(move || {
        for client in socket.incoming() {
            let client = client.unwrap();
            std::thread::spawn(move || serve_newer(client));
        }
    });
    place.run("events --all").ended(7).told(&["newer release"]);
    let mut tail = place.command(["tail"]);
    let mut tail = tail.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    while tail.try_wait().unwrap().is_none() && since.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    // One that reconnects for ever is ended here.
    let _ = tail.kill();
    binary::end(tail).ended(7).told(&["newer release"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_examines_the_contents_of_a_held_log_through_its_socket() {
    let (place, paid) = (Place::new(), Paid::default());
    let system = Box::pin(waiting(host(&place, &paid))).await;
    std::fs::write(place.path().join("no-folder"), "").unwrap();
    let report = place.run("doctor --json --scratch no-folder").ended(0).json().remove(0);
    assert_eq!((&report["held"], &report["holder"]["pid"]), (&true.into(), &std::process::id().into()));
    assert_eq!(report["log"]["events"], system.log().head().unwrap().0);
    assert_eq!(report["log"]["faults"], 0);
    assert!(report["not_checked"].to_string().contains("trees"), "{report}");
    system.shutdown().await.unwrap();
}

/// Waits until a condition holds.
#[track_caller]
fn until(holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(20), "it never holds");
        std::thread::yield_now();
    }
}
