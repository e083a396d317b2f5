//! `attention`: everything that waits for somebody or is wrong, with the command that ends it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use std::convert::Infallible;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use binary::{Place, small_log};
use proto_events::codec::kind;
use proto_events::json;
use proto_events::json::JsonValue as Value;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, ChangedAgent, JsonSchema, Message, Part, System, TaskState};
use taskreel_http::{LiveApi, Mounted, Server};
use taskreel_log::{
    api::EventStore,
    memory::MemoryStore,
    testing::{AppendFault, Faults, FaultyStore},
};
#[cfg(unix)]
use taskreel_log::{
    sled::SledStore,
    socket::LocalSocket,
    testing::conformance::{Author, stream},
};
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Cents {
    #[expect(dead_code, reason = "the schema alone matters")]
    cents: i64,
}

fn kinds(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["kind"].as_str().unwrap()).collect()
}

/// Rows but those of the disk on which the tests run.
fn rows(place: &Place, code: i32) -> Vec<Value> {
    let ran = place.run("attention --json").ended(code);
    let all = ran.json();
    assert!(all.iter().all(|row| row["schema"] == "taskreel.attention/1"));
    all.into_iter().filter(|row| row["kind"] != "disk").collect()
}

#[test]
fn nothing_to_do_is_said_with_0() {
    let place = small_log();
    if place.run("attention").out().contains("disk") {
        eprintln!("the disk is nearly full here");
        return;
    }
    let ran = place.run("attention").ended(0);
    assert!(ran.out().starts_with("nothing waits for anybody"), "{}", ran.out());
    assert!(rows(&place, 0).is_empty());
}

#[test]
fn an_unknown_payment_is_listed_with_its_whole_arguments_until_its_command_was_typed() {
    let place = Place::new();
    // The bank that never confirms, under a name longer than any line is cut at.
    let to = format!("slow-bank{} END", ", and a long way to it".repeat(30));
    let part = json!({"type": "tool_call", "content": {"tool_name": "pay", "args": {"to": to.as_str(), "cents": 5}, "call_id": "c"}});
    let task = json!({"id": "pay-0001", "messages": [{"id": "m", "role": "user", "parts": [part]}]});
    place.run_tasks(&task.to_string(), "").ended(0);
    let found = rows(&place, 1);
    assert_eq!(kinds(&found), ["unknown"]);
    assert_eq!((&found[0]["task"], &found[0]["args"]["to"]), (&json!("pay-0001"), &json!(to.as_str())));
    let text = place.run("attention").ended(1).out();
    let command = found[0]["commands"][1].as_str().unwrap();
    assert!(text.contains(command) && text.contains(&to), "{text}");
    // A unique end of the id is enough.
    let call = found[0]["call_id"].as_str().unwrap();
    place.run(&command.replace(call, call.rsplit_once('_').unwrap().1)).ended(0);
    let after = rows(&place, 1);
    assert_eq!(kinds(&after), ["stalled"], "the task works on once its program starts again");
    assert!(after[0]["advice"].as_str().unwrap().contains("start the program"));
}

#[test]
fn a_killed_program_leaves_a_stalled_run_and_an_unclean_end() {
    let place = Place::new();
    let part = json!({"type": "tool_call", "content": {"tool_name": "slow", "args": {"ms": 60_000}, "call_id": "c"}});
    let task = json!({"id": "slow-0001", "messages": [{"id": "m", "role": "user", "parts": [part]}]});
    std::fs::write(place.path().join("t.json"), task.to_string()).unwrap();
    let mut child = place
        .command(["run", "t.json"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    loop {
        // While the program runs, its call is in flight and nothing is wrong.
        let ran = place.run("events slow-0001 --kind CallDispatched --json");
        if ran.code() == Some(0) && !ran.json().is_empty() {
            break;
        }
        assert!(began.elapsed().as_secs() < 30, "not in time: {}", ran.err());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let running = place.run("attention --json").json();
    assert!(running.iter().all(|row| row["kind"] == "disk"), "{running:#?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let found = rows(&place, 1);
    assert_eq!(kinds(&found), ["stalled", "unclean-end"], "{found:#?}");
    let command = found[0]["commands"][0].as_str().unwrap();
    assert!(command.starts_with("cancel task-agent/slow-0001 "), "{found:#?}");
}

#[test]
fn an_export_says_nothing_of_programs_but_of_what_waits() {
    let place = Place::new();
    let to = json!({"type": "tool_call", "content": {"tool_name": "pay", "args": {"to": "slow-bank", "cents": 5}, "call_id": "c"}});
    let task = json!({"id": "pay-0001", "messages": [{"id": "m", "role": "user", "parts": [to]}]});
    place.run_tasks(&task.to_string(), "").ended(0);
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    let found = place.run("attention --json --file log.ndjson").ended(1).json();
    assert_eq!(kinds(&found), ["unknown"]);
}

async fn pays(_: Cents) -> Result<u32, Infallible> {
    Ok(7)
}

/// Leaves a log whose program died in a call of `pay`, and whose next program has another tool of this name, or none. A person
/// must accept that first, so that the task is still in flight.
fn changed_since(next: impl FnOnce(Builder) -> Builder) -> Place {
    let place = Place::new();
    let dir = place.path().join("taskreel-log");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let began = Arc::new(Notify::new());
        let tell = Arc::clone(&began);
        let waits = move |_: Cents| {
            tell.notify_one();
            std::future::pending::<Result<u32, Infallible>>()
        };
        let system = System::builder(&dir).tool("pay", "Pays", waits).start().await.unwrap();
        let task = system.submit(Part::tool_call("pay", json!({"cents": 5})).unwrap()).await.unwrap();
        began.notified().await;
        let log = system.log();
        drop(system);
        tokio::task::spawn_blocking(move || log.close()).await.unwrap().unwrap();
        let started = || System::builder(&dir).on_changed_agent(ChangedAgent::WaitForPerson);
        let system = next(started()).start().await.unwrap();
        let held = system.task(task.id()).unwrap().finished().await.unwrap();
        assert!(held.task().is_held(), "{}", held.to_json());
        system.shutdown().await.unwrap();
    });
    place
}

#[test]
fn a_tool_that_is_gone_or_takes_less_while_a_task_needs_it_is_named_with_its_task() {
    #[derive(Deserialize, JsonSchema)]
    struct Euros {
        #[expect(dead_code, reason = "the schema alone matters")]
        euros: i64,
    }
    async fn pays_euros(_: Euros) -> Result<u32, Infallible> {
        Ok(7)
    }
    type Change = fn(Builder) -> Builder;
    let changes: [(&str, Option<&str>, Change); 3] = [
        ("gone", Some("it is gone"), |builder| builder.tool("other", "Does else", pays)),
        ("takes less", Some("euros"), |builder| builder.tool("pay", "Pays", pays_euros)),
        ("as it was", None, |builder| builder.tool("pay", "Pays in another way", pays)),
    ];
    for (how, what, next) in changes {
        let place = changed_since(next);
        let found = rows(&place, 1);
        let tools: Vec<_> = found.iter().filter(|row| row["kind"] == "tool").collect();
        assert_eq!(tools.len(), usize::from(what.is_some()), "{how}: {found:#?}");
        assert!(kinds(&found).contains(&"approval"), "{how}: a person is asked about the changed agent");
        if let (Some(what), [row]) = (what, &*tools) {
            let said = row["what"].as_str().unwrap();
            assert!(said.contains("tool pay") && said.contains(what), "{said}");
            assert!(row["task"].is_string() && row["advice"].as_str().unwrap().contains("register the tool"));
            let text = place.run("attention").ended(1).out();
            assert!(text.contains(said) && text.contains(row["task"].as_str().unwrap()), "{text}");
        }
    }
}

/// Leaves a log in which tasks of a handler wait for a person's message: one asked a question, one was cancelled since.
fn asked_for_more() -> Place {
    let place = Place::new();
    let dir = place.path().join("taskreel-log");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        async fn asks(_: HandlerContext, said: Message) -> Result<HandlerEnd, Infallible> {
            let said = said.parts[0].content().to_str().unwrap();
            Ok(HandlerEnd::InputRequired(format!("Which account for {said}?")))
        }
        let system = System::builder(&dir).handler(asks).start().await.unwrap();
        for said in ["rent", "food"] {
            let done = system.submit(Part::text(said)).await.unwrap().finished().await.unwrap();
            assert_eq!(done.state(), TaskState::InputRequired);
        }
        system.shutdown().await.unwrap();
    });
    place
}

#[test]
fn a_task_that_waits_for_a_message_is_listed_with_its_question_until_it_has_one_or_is_canceled() {
    let place = asked_for_more();
    let found = rows(&place, 1);
    assert_eq!(kinds(&found), ["input", "input"]);
    assert!(found[0]["what"].as_str().unwrap().contains("Which account for rent?"), "{found:#?}");
    assert!(found[0]["since"].is_string() && found[0]["call_id"].is_null());
    let text = place.run("attention").ended(1).out();
    assert!(text.contains("Which account for food?") && text.contains("append a message"), "{text}");
    // The command ends the wait of the one task, a message that of the other.
    let command = found[0]["commands"][0].as_str().unwrap();
    assert!(command.starts_with("cancel "), "{command}");
    place.run(command).ended(0);
    let left = rows(&place, 1);
    assert_eq!((left.len(), &left[0]["task"]), (1, &found[1]["task"]));
    let id = left[0]["task"].as_str().unwrap();
    let mut task = place.run(&format!("state {id} --json")).ended(0).json().remove(0);
    let part = json!({"type": "text", "content": "the second one"});
    let message = json!({"id": "answer", "role": "user", "parts": [part]});
    task["messages"].as_array_mut().unwrap().push(message);
    std::fs::write(place.path().join("answered.json"), task.to_string()).unwrap();
    place.run("run answered.json").ended(0);
    assert!(rows(&place, 0).is_empty());
}

#[test]
fn commands_name_the_directory_of_the_log_in_json_too() {
    let place = asked_for_more();
    std::fs::rename(place.path().join("taskreel-log"), place.path().join("other")).unwrap();
    let found = place.run("attention --json --data-dir other").ended(1).json();
    let commands: Vec<_> = found.iter().flat_map(|row| row["commands"].as_array().unwrap()).collect();
    assert_eq!(commands.len(), 2);
    for command in commands {
        assert!(command.as_str().unwrap().ends_with(" --data-dir other"), "{command}");
        place.run(command.as_str().unwrap()).ended(0);
    }
    let pay = json!({"type": "tool_call", "content": {"tool_name": "pay", "args": {"to": "slow-bank", "cents": 5}, "call_id": "c"}});
    let task = json!({"id": "pay-0001", "messages": [{"id": "m", "role": "user", "parts": [pay]}]});
    place.run_tasks(&task.to_string(), "--data-dir other").ended(0);
    let calls = place.run("calls --json --data-dir other").ended(0).json();
    let command = calls[0]["commands"][1].as_str().unwrap();
    assert!(command.starts_with("reconcile") && command.ends_with(" --data-dir other"), "{command}");
    place.run(command).ended(0);
}

#[test]
fn a_tool_that_is_gone_is_named_while_its_call_waits_for_approval() {
    let place = Place::new();
    let dir = place.path().join("taskreel-log");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let policy = ToolPolicy::manual().capabilities(["money.spend"]);
        let asks = CapabilityPolicy::new().require_approval("money.*");
        let first = System::builder(&dir).capability_policy(asks).approvals_by_person();
        let first = first.tool_with("pay", "Pays", pays, policy).start().await.unwrap();
        let waits = first.submit(Part::tool_call("pay", json!({"cents": 5})).unwrap()).await.unwrap();
        assert_eq!(waits.finished().await.unwrap().state(), TaskState::InputRequired);
        first.shutdown().await.unwrap();
        let next = System::builder(&dir).tool("other", "Does else", pays).start().await.unwrap();
        next.shutdown().await.unwrap();
    });
    let found = rows(&place, 1);
    assert_eq!(kinds(&found), ["approval", "tool"], "{found:#?}");
    assert!(found[1]["what"].as_str().unwrap().contains("tool pay, which the task needs: it is gone"));
    assert_eq!(found[0]["task"], found[1]["task"]);
}

#[test]
fn a_task_of_a_newer_release_hides_no_tool_of_the_others() {
    let place = changed_since(|builder| builder.tool("other", "Does else", pays));
    binary::add_newer(&place, "later-0001", kind::SUBMITTED, 99);
    let ran = place.run("attention --json");
    assert!(kinds(&ran.json()).contains(&"tool"), "{}", ran.out());
    assert_eq!(ran.err().matches("later-0001").count(), 1, "{}", ran.err());
}

/// Runs the binary with a terminal in the place of stderr alone, and returns what it draws there.
#[cfg(target_os = "linux")]
fn drawn(place: &Place, line: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_taskreel");
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &format!("{binary} {line} > out"), "/dev/null"]).current_dir(place.path());
    let ran = script.stdin(Stdio::null()).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_run_tells_on_the_terminal_how_many_tasks_are_done_and_clears_its_line() {
    let place = Place::new();
    let slow = |number: u32| {
        let content = json!({"tool_name": "slow", "args": {"ms": 60}, "call_id": format!("c{number}")});
        let part = json!({"type": "tool_call", "content": content});
        // One after another, as in one conversation.
        json!({"id": format!("slow-{number}"), "messages": [{"id": "m", "role": "user", "parts": [part]}],
            "metadata": {"session_id": "s"}})
        .to_string()
    };
    let tasks: Vec<_> = (0..8).map(slow).collect();
    std::fs::write(place.path().join("t.ndjson"), tasks.join("\n")).unwrap();
    let told = drawn(&place, "run t.ndjson");
    assert!(told.contains(" tasks done, 0 of them badly, "), "{told:?}");
    let last = told.rsplit_once("a second").unwrap().1;
    assert!(last.contains("\r\u{1b}[K"), "the line is cleared: {told:?}");
    let results = std::fs::read_to_string(place.path().join("out")).unwrap();
    assert!(results.contains("slow-7") && !results.contains("tasks done"), "{results}");
}

#[cfg(unix)]
#[test]
fn a_program_whose_store_is_poisoned_is_listed_until_its_log_is_open_again() {
    let place = small_log();
    let dir = place.path().join("taskreel-log");
    let store = Arc::new(SledStore::open(&dir).unwrap());
    let faults = Faults::none();
    let failing = Arc::new(FaultyStore::new(Arc::clone(&store) as Arc<dyn EventStore>, faults.clone()));
    let socket =
        LocalSocket::open(&store.socket_path(), Arc::clone(&failing) as Arc<dyn EventStore>, None).unwrap();
    assert_eq!(kinds(&rows(&place, 0)), Vec::<&str>::new(), "it takes appends");
    faults.at_next_append(AppendFault::BeforeWrite);
    let append = Author::new(store.fence()).append_one(&stream("a"), b"paid");
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(failing.append(append))
        .unwrap_err();
    let found = rows(&place, 1);
    assert_eq!(kinds(&found), ["poisoned"]);
    let what = found[0]["what"].as_str().unwrap();
    let why = failing.poisoned().unwrap();
    assert!(what.contains(&why) && found[0]["advice"].as_str().unwrap().contains("reopen"), "{what}");
    drop(socket);
    store.close().unwrap();
    assert_eq!(kinds(&rows(&place, 0)), Vec::<&str>::new(), "no program has the log open");
}

#[test]
fn a_server_whose_store_is_poisoned_is_listed_from_afar_too() {
    let (place, faults) = (Place::new(), Faults::none());
    let failing = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new()), faults.clone()));
    let log = Arc::clone(&failing) as Arc<dyn EventStore>;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (system, serving) = runtime.block_on(async {
        let system = System::builder("-").store(log).start().await.unwrap();
        let handler = Mounted::new().mount("/api", Arc::new(LiveApi::new(&system)));
        let server = Server::new().workers(1).grace(Duration::from_millis(100)).mount("/", Arc::new(handler));
        (system, server.start("127.0.0.1:0").await.unwrap())
    });
    let url = format!("http://{}", serving.address());
    let rows = |code: i32| place.run(&format!("attention --json --url {url}")).ended(code).json();
    assert_eq!(kinds(&rows(0)), Vec::<&str>::new(), "it takes appends");
    faults.at_next_append(AppendFault::BeforeWrite);
    runtime.block_on(system.submit(Part::text("a note"))).unwrap_err();
    let found = rows(1);
    assert_eq!(kinds(&found), ["poisoned"]);
    let (what, why) = (found[0]["what"].as_str().unwrap(), failing.poisoned().unwrap());
    assert!(what.contains(&why) && what.contains(&url), "{what}");
    runtime.block_on(serving.stop()).unwrap();
    // It cannot write that it stopped.
    drop(runtime.block_on(system.shutdown()));
}
