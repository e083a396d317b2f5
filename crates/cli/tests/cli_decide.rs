//! `calls`, `approve`, `deny`, `reconcile`, `abandon`, `answer`, `cancel`, as people and scripts use them: on a log that no
//! process has open, whose tasks resume when their program starts again.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod binary;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use binary::Place;
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use serde::Deserialize;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::infer::Scripted;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, Error, JsonSchema, Part, PostedTask, System, TaskSnapshot, TaskState};
use taskreel_log::api::OpenError;
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Cents {
    cents: i64,
}

/// The amounts paid by all processes.
type Paid = Arc<Mutex<Vec<i64>>>;

const REPLIES: &str = r#"{"buy": [{"type":"tool_call","tool":"pay","args":{"cents":7}}],
    "was approved": [{"type":"final","content":"bought"}], "was denied": [{"type":"final","content":"not bought"}],
    "took effect": [{"type":"final","content":"it landed"}], "stays unknown": [{"type":"final","content":"who knows"}],
    "give": [{"type":"tool_call","tool":"give","args":{"cents":3}}]}"#;

/// Returns the host of the place's log: `pay` needs a person's approval, `give` never returns.
fn host(place: &Place, paid: &Paid, began: &Arc<Notify>) -> Builder {
    let (paid, began) = (Arc::clone(paid), Arc::clone(began));
    let pay = move |args: Cents| {
        paid.lock().unwrap().push(args.cents);
        async move { Ok::<_, Infallible>(args.cents) }
    };
    let give = move |_: ToolContext, _: Cents| {
        let began = Arc::clone(&began);
        async move {
            began.notify_one();
            std::future::pending::<Result<(), Infallible>>().await
        }
    };
    System::builder(place.path().join("taskreel-log"))
        .tool_with("pay", "Pays", pay, ToolPolicy::manual().capabilities(["money.spend"]))
        .tool("give", "Gives", give)
        .tool("ask", "Asks for an account", ask_account)
        .infer(Scripted::from_json(REPLIES).unwrap())
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approvals_by_person()
}

async fn ask_account(cx: ToolContext, _: Cents) -> Result<String, ToolError> {
    cx.ask("Which account?").await
}

fn task(id: &str, parts: &[Part]) -> PostedTask {
    let parts: Vec<Value> = parts.iter().map(|part| part.to_json().tree()).collect();
    let posted = json!({"id": id, "messages": [{"id": format!("m-{id}"), "role": "user", "parts": parts}]});
    PostedTask::from_json(&JsonText::from(posted), &mut taskreel_log::ports::Ports::default()).unwrap()
}

fn call(tool: &str, cents: i64) -> Part {
    Part::tool_call_of(tool, JsonText::from(json!({"cents": cents})), Some("c"))
}

/// Starts the host, waits for the end of the task, and stops.
async fn goes_on(builder: Builder, id: &str) -> TaskSnapshot {
    ends(builder.start().await.unwrap(), id).await
}

async fn ends(system: System, id: &str) -> TaskSnapshot {
    let end = system.task(id).unwrap().finished().await.unwrap();
    system.shutdown().await.unwrap();
    end
}

/// Returns the rows of `calls` as JSON.
fn listed(place: &Place) -> Vec<Value> {
    place.run("calls --json").ended(0).json()
}

/// Makes a log in which the tasks `part` and `model` wait for approval.
async fn asking(place: &Place, paid: &Paid) {
    let system = host(place, paid, &Arc::default()).start().await.unwrap();
    for (id, parts) in [("part-0001", vec![call("pay", 5)]), ("model-0001", vec![Part::infer("buy it")])] {
        let waits = system.submit(task(id, &parts)).await.unwrap().finished().await.unwrap();
        assert_eq!(waits.state(), TaskState::InputRequired);
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_approval_is_listed_with_what_to_type_and_is_made_once_its_host_starts() {
    let (place, paid) = (Place::new(), Paid::default());
    asking(&place, &paid).await;
    let rows = listed(&place);
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["schema"] == "taskreel.call/1" && row["status"] == "approval"));
    assert_eq!(
        (&rows[0]["task"], &rows[1]["task"]),
        (&json!("part-0001"), &json!("model-0001")),
        "oldest first"
    );
    assert_eq!((&rows[0]["target"], &rows[0]["args"]), (&json!("pay"), &json!({"cents": 5})));
    let text = place.run("calls").ended(0);
    assert!(text.err().contains("2 calls wait, 2 of them for a person"), "{}", text.err());
    assert!(text.out().contains("money.spend"), "{}", text.out());

    for row in &rows {
        // The printed command works.
        let command = row["commands"][0].as_str().unwrap();
        assert!(text.out().contains(command), "{}", text.out());
        let done = place.run(&format!("{command} --by ada --json")).ended(0);
        assert_eq!(done.json()[0]["decision"], "approved");
        assert_eq!((&done.json()[0]["state"], &done.json()[0]["new"]), (&json!("working"), &json!(true)));
        assert!(done.err().contains("starts again"), "{}", done.err());
        // Repeating the verdict adds nothing; the other one is refused.
        let again = place.run(&format!("{command} --json")).ended(0).json();
        assert_eq!((&again[0]["new"], &again[0]["version"]), (&json!(false), &done.json()[0]["version"]));
        let other = row["commands"][1].as_str().unwrap().replace(" --reason WHY", "");
        place.run(&other).ended(1).told(&["was already approved by ada"]);
    }
    assert!(paid.lock().unwrap().is_empty(), "the command line calls nothing");
    assert!(place.run("calls --json").ended(0).json().is_empty());
    place.run("verify").ended(0);

    let end = goes_on(host(&place, &paid, &Arc::default()), "part-0001").await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let end = goes_on(host(&place, &paid, &Arc::default()), "model-0001").await;
    assert_eq!(end.answer().unwrap().as_str(), "\"bought\"", "{}", end.to_json());
    let mut paid = paid.lock().unwrap().clone();
    paid.sort_unstable();
    assert_eq!(paid, [5, 7]);
    let decided = place.run("events model-0001 --json").ended(0).json();
    let decided: Vec<_> = decided.iter().filter(|row| row["kind"] == "ApprovalDecided").collect();
    assert_eq!(decided[0]["payload"]["decided_by"], "ada");
    assert_eq!(decided[0]["principal"], "ada");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_denied_fails_the_part_and_is_told_to_the_model() {
    let (place, paid) = (Place::new(), Paid::default());
    asking(&place, &paid).await;
    let rows = listed(&place);
    let id = |at: usize| rows[at]["approval_id"].as_str().unwrap().to_owned();
    let denied = place.run(&format!("deny part-0001 {} --reason no", id(0))).ended(0);
    assert!(denied.out().contains("denied; task part-0001 is failed"), "{}", denied.out());
    assert!(!denied.err().contains("starts again"), "{}", denied.err());
    let state = place.run("state part-0001").ended(0).json();
    assert_eq!(state[0]["metadata"]["error"], "Action 'pay' denied: no");
    place.run(&format!("deny model-0001 {}", id(1))).ended(0);
    let end = goes_on(host(&place, &paid, &Arc::default()), "model-0001").await;
    assert_eq!(end.answer().unwrap().as_str(), "\"not bought\"", "{}", end.to_json());
    assert!(paid.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_decides_for_a_handler_whose_process_died_and_it_is_not_asked_again() {
    let (place, paid) = (Place::new(), Paid::default());
    let asked = Arc::new(Notify::new());
    let told = Arc::clone(&asked);
    let handler = move |_: ApprovalRequest| {
        told.notify_one();
        std::future::pending::<ApprovalVerdict>()
    };
    let system = host(&place, &paid, &Arc::default()).approval_handler(handler).start().await.unwrap();
    system.submit(task("part-0001", &[call("pay", 5)])).await.unwrap();
    asked.notified().await;
    system.shutdown().await.unwrap();

    let rows = listed(&place);
    assert_eq!(rows[0]["status"], "approval");
    place.run(rows[0]["commands"][0].as_str().unwrap()).ended(0);
    let never = |_: ApprovalRequest| async { ApprovalVerdict::Denied { reason: None } };
    let end = goes_on(host(&place, &paid, &Arc::default()).approval_handler(never), "part-0001").await;
    assert_eq!((end.state(), end.task().runs()), (TaskState::Completed, 1), "{}", end.to_json());
    assert_eq!(*paid.lock().unwrap(), [5]);
}

/// Makes a log in which the outcome of each task's call is unknown.
async fn unknown(place: &Place, tasks: &[(&str, Part)]) {
    let (paid, began) = (Paid::default(), Arc::new(Notify::new()));
    for (id, part) in tasks {
        let system = host(place, &paid, &began).start().await.unwrap();
        system.submit(task(id, std::slice::from_ref(part))).await.unwrap();
        began.notified().await;
        let log = system.log();
        // As if the process had died.
        drop(system);
        tokio::task::spawn_blocking(move || log.close()).await.unwrap().unwrap();
        // The dead process may hold the directory for a moment longer.
        let system = loop {
            match host(place, &paid, &began).start().await {
                Err(Error::Open(OpenError::Held { .. })) => tokio::task::yield_now().await,
                started => break started.unwrap(),
            }
        };
        let waits = ends(system, id).await;
        assert_eq!(waits.state(), TaskState::InputRequired, "{}", waits.to_json());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_which_nobody_knows_is_settled_by_its_id() {
    let place = Place::new();
    let model = || Part::infer("give it");
    let tasks = [
        ("landed-01", call("give", 3)),
        ("not-0001", call("give", 3)),
        ("gone-0001", call("give", 3)),
        ("model-01", model()),
    ];
    unknown(&place, &tasks).await;
    let rows = listed(&place);
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["status"] == "unknown" && row["recovery"] == "manual"), "{rows:?}");
    let call_of = |task: &str| {
        let row = rows.iter().find(|row| row["task"] == task).unwrap();
        row["call_id"].as_str().unwrap().to_owned()
    };
    let shown = place.run("calls landed-01").ended(0).out();
    assert!(shown.contains(&format!(" reconcile {} --did-not-happen", call_of("landed-01"))), "{shown}");
    assert_eq!(shown.matches("tool give").count(), 1, "only of that task: {shown}");

    let landed =
        place.run(&format!("reconcile {} --landed {{\"receipt\":12}}", call_of("landed-01"))).ended(0);
    assert!(landed.out().contains("landed; task landed-01 is completed"), "{}", landed.out());
    let state = place.run("state landed-01").ended(0).json();
    assert_eq!(state[0]["artifacts"][0]["parts"][0]["content"]["result"]["receipt"], 12);
    place.run(&format!("abandon {} --reason closed --by eve", call_of("gone-0001"))).ended(0);
    assert_eq!(place.run("state gone-0001").ended(0).json()[0]["state"], "failed");
    place.run(&format!("reconcile {} --did-not-happen", call_of("not-0001"))).ended(0);
    place.run(&format!("reconcile {} --landed null --task model-01", call_of("model-01"))).ended(0);
    // A settled call stays settled.
    place
        .run(&format!("reconcile {} --did-not-happen", call_of("landed-01")))
        .ended(1)
        .told(&["already settled"]);

    // A call that did not happen is repeated; a model continues with the result of one that landed.
    let began = Arc::new(Notify::new());
    let system = host(&place, &Paid::default(), &began).start().await.unwrap();
    let end = system.task("model-01").unwrap().finished().await.unwrap();
    assert_eq!(end.answer().unwrap().as_str(), "\"it landed\"", "{}", end.to_json());
    began.notified().await;
    let snapshot = system.task("not-0001").unwrap().snapshot().await.unwrap();
    assert_eq!((snapshot.state(), snapshot.task().calls().iter().count()), (TaskState::Working, 2));
    system.cancel("not-0001", None).await.unwrap();
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_question_of_a_call_is_shown_and_answered_or_declined() {
    let place = Place::new();
    let began = Arc::new(Notify::new());
    let ask = || Part::tool_call("ask", json!({"cents": 1})).unwrap();
    let system = host(&place, &Paid::default(), &began).start().await.unwrap();
    for id in ["asks-0001", "away-0001"] {
        system.submit(task(id, &[ask()])).await.unwrap().finished().await.unwrap();
    }
    system.shutdown().await.unwrap();
    let rows = place.run("calls --json").ended(0).json();
    let call_of = |id: &str| {
        let row = rows.iter().find(|row| row["task"] == id).unwrap();
        assert_eq!((row["status"].as_str(), row["then"].is_null()), (Some("asked"), false));
        row["call_id"].as_str().unwrap().to_owned()
    };
    let shown = place.run("calls").ended(0);
    assert!(shown.out().contains("a person's answer: Which account?"), "{}", shown.out());
    assert!(shown.out().contains(&format!("answer {}:1 TEXT", call_of("asks-0001"))), "{}", shown.out());
    assert!(place.run("show asks-0001").ended(0).out().contains("Which account?"));
    assert!(place.run("explain asks-0001").ended(0).out().contains("it waits for a person's answer"));
    let answered = place.run(&format!("answer {}:1 savings --by ada", call_of("asks-0001"))).ended(0);
    assert!(answered.out().contains("answered; task asks-0001 is working"), "{}", answered.out());
    let again = place.run(&format!("answer {} savings --by ada", call_of("asks-0001"))).ended(0);
    assert!(again.out().contains("answered before"), "{}", again.out());
    place.run(&format!("answer {} other", call_of("asks-0001"))).ended(1).told(&["already answered"]);
    place.run(&format!("answer {} --decline away", call_of("away-0001"))).ended(0);
    place.run(&format!("answer {}", call_of("away-0001"))).ended(2);
    place.run(&format!("answer {}:2 other", call_of("asks-0001"))).ended(1).told(&["has no question 2"]);
    place.run("answer call_0:1 x").ended(3).told(&["no call has the id `call_0`"]);
    place.run("answer call_0 x").ended(3).told(&["no call has the id `call_0`"]);
    let events = place.run("events asks-0001").ended(0);
    assert!(events.out().contains("a person answers: savings"), "{}", events.out());

    let system = host(&place, &Paid::default(), &began).start().await.unwrap();
    let done = system.task("asks-0001").unwrap().finished().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed);
    assert!(done.answer().unwrap().as_str().contains("savings"));
    let failed = system.task("away-0001").unwrap().finished().await.unwrap();
    assert_eq!((failed.state(), failed.task().error().as_deref()), (TaskState::Failed, Some("away")));
    system.shutdown().await.unwrap();
    place.run("verify").ended(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_canceled_once_and_the_log_stays_sound() {
    let (place, paid) = (Place::new(), Paid::default());
    asking(&place, &paid).await;
    let done = place.run("cancel model-0001 --reason enough --by ada --json").ended(0).json();
    assert_eq!((&done[0]["decision"], &done[0]["state"]), (&json!("canceled"), &json!("canceled")));
    assert_eq!((&done[0]["new"], &done[0]["by"]), (&json!(true), &json!("ada")));
    let again = place.run("cancel model-0001").ended(0);
    assert!(again.out().contains("canceled before; task model-0001 is canceled"), "{}", again.out());
    assert_eq!(place.run("state model-0001").ended(0).json()[0]["metadata"]["cancel_reason"], "enough");
    assert_eq!(listed(&place).len(), 1, "its approval waits for nobody any more");
    place.run("verify").ended(0);
    place.run("cancel nobody-at-all").ended(3).told(&["nobody-at-all"]);
    place
        .run(listed(&place)[0]["commands"][1].as_str().unwrap().replace(" --reason WHY", "").as_str())
        .ended(0);
    place.run("cancel part-0001").ended(1).told(&["failed"]);
}

#[test]
fn what_cannot_be_decided_is_told_in_three_lines() {
    let place = binary::small_log();
    place.run("calls").ended(0);
    assert!(place.run("calls --json").ended(0).json().is_empty());
    place.run("approve sum-0001 approval_0").ended(3).told(&["never requested", "taskreel calls"]);
    place.run("approve nobody-at-all approval_0").ended(3).told(&["nobody-at-all"]);
    place.run("deny session-agent/ask-0001 approval_0").ended(2).told(&["is a session"]);
    place.run("reconcile call_0 --did-not-happen").ended(3).told(&["no call has the id `call_0`"]);
    place.run("reconcile call_0 --did-not-happen --task sum-0001").ended(3).told(&["call_0"]);
    place.run("reconcile call_0").ended(2).told(&["--landed"]);
    place.run("reconcile call_0 --landed 1 --did-not-happen").ended(2).told(&["cannot be used with"]);
    place.run("reconcile call_0 --landed bare").ended(2).told(&["the result is not JSON"]);
    place.run("abandon call_0").ended(2).told(&["--reason"]);
    let shown = place.run("show sum-0001 --json").ended(0).json();
    let call = shown[0]["calls"][0]["call_id"].as_str().unwrap();
    place
        .run(&format!("reconcile {call} --did-not-happen"))
        .ended(1)
        .told(&["is succeeded", "taskreel calls"]);
    let empty = Place::new();
    empty.run("calls").ended(5).told(&["there is no log"]);
    empty.run("approve a b").ended(5).told(&["there is no log"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_a_host_without_a_socket_has_open_is_not_decided_about_from_outside() {
    let (place, paid) = (Place::new(), Paid::default());
    asking(&place, &paid).await;
    let command = listed(&place)[0]["commands"][0].as_str().unwrap().to_owned();
    let system = host(&place, &paid, &Arc::default()).local_socket(false).start().await.unwrap();
    place.run(&command).ended(4).told(&["process", "open"]);
    system.shutdown().await.unwrap();
    place.run(&command).ended(0);
    // An export lists the same calls, with the commands for the log itself.
    let text = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), text).unwrap();
    let shown = place.run("calls --file log.ndjson").ended(0).out();
    let typed = " approve task-agent/model-0001 approval_";
    assert!(shown.contains(typed) && !shown.contains("--file"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_run_again_while_its_task_waits_or_after_it_ended_changes_nothing() {
    let (place, paid) = (Place::new(), Paid::default());
    let file = r#"{"id": "part-0001", "messages": [{"role": "user", "parts": [
        {"type": "tool_call", "content": {"tool_name": "pay", "args": {"cents": 5}}}]}]}"#;
    let file = file.replace('\n', "");
    let system = host(&place, &paid, &Arc::default()).start().await.unwrap();
    let posted = PostedTask::parse(&file, &mut taskreel_log::ports::Ports::default()).unwrap();
    let waits = system.submit(posted).await.unwrap().finished().await.unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired);
    system.shutdown().await.unwrap();
    let events = || place.run("events part-0001 --json").ended(0).json().len();
    let before = events();
    for _ in 0..2 {
        let ran = place.run_tasks(&file, "");
        assert_eq!(ran.json()[0]["state"], "input-required", "{}", ran.err());
        assert_eq!(events(), before, "{}", ran.err());
    }
    let row = listed(&place).remove(0);
    place.run(&format!("{} --by ada", row["commands"][0].as_str().unwrap())).ended(0);
    let end = goes_on(host(&place, &paid, &Arc::default()), "part-0001").await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let before = events();
    for _ in 0..2 {
        let ran = place.run_tasks(&file, "").ended(0);
        assert_eq!(ran.json()[0]["state"], "completed", "{}", ran.err());
        assert_eq!(events(), before, "{}", ran.err());
    }
    assert_eq!(*paid.lock().unwrap(), [5], "nothing is paid twice");
}
