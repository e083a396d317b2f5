//! `diff`: two versions with their values, and two runs step by step.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use binary::{Place, Ran};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::tool::ToolError;
use taskreel::{Message, Part, PostedTask, System};
use taskreel_log::ports::Ports;

fn task(id: &str, parts: &[(&str, Value)]) -> String {
    let parts: Vec<Value> = parts
        .iter()
        .enumerate()
        .map(|(at, (tool, args))| {
            json!({"type": "tool_call", "content": {"tool_name": tool, "args": args, "call_id": format!("{id}-{at}")}})
        })
        .collect();
    json!({"id": id, "messages": [{"id": format!("m-{id}"), "role": "user", "parts": parts}]}).to_string()
}

fn sum(a: u64) -> (&'static str, Value) {
    ("add", json!({"a": a, "b": 1}))
}

fn echo(text: &str) -> (&'static str, Value) {
    ("echo", json!({"text": text}))
}

fn runs() -> Place {
    let place = Place::new();
    let pay = |cents: u64| ("pay", json!({"to": "Ada", "cents": cents}));
    let tasks = [
        // Each names itself in its last step.
        task("invoice-1", &[sum(1), pay(100), echo("invoice-1")]),
        task("invoice-2", &[sum(1), pay(100), echo("invoice-2")]),
        task("invoice-3", &[sum(1), echo("wait"), pay(10_000), echo("invoice-3")]),
    ];
    place.run_tasks(&tasks.join("\n"), "").ended(0);
    place
}

fn changes(ran: &Ran) -> Vec<String> {
    let steps = ran.json().into_iter().filter(|line| line["schema"] == "taskreel.step/1");
    let side = |side: &Value| side["target"].as_str().map_or("-".to_owned(), str::to_owned);
    steps
        .map(|step| {
            format!("{} {} {}", step["change"].as_str().unwrap(), side(&step["first"]), side(&step["second"]))
        })
        .filter(|line| !line.contains("user"))
        .collect()
}

#[test]
fn runs_of_the_same_work_are_the_same_whatever_their_ids_and_times() {
    let place = runs();
    let ran = place.run("diff invoice-1 invoice-2 --json").ended(0);
    // The receipt of `pay` holds the call's own key.
    assert_eq!(changes(&ran), ["same add add", "same pay pay", "same echo echo", "same completed completed"]);
    assert_eq!(ran.json().last().unwrap()["changed"], 0);
    assert!(place.run("diff invoice-1 invoice-2").ended(0).out().contains("0 changed"));
}

#[test]
fn runs_that_differ_are_aligned_by_tool_and_arguments() {
    let place = runs();
    let ran = place.run("diff invoice-1 invoice-3 --json").ended(1);
    assert_eq!(
        changes(&ran),
        [
            "same add add",
            "second-only - echo",
            "changed pay pay",
            "same echo echo",
            "same completed completed"
        ]
    );
    let text = place.run("diff invoice-1 invoice-3").ended(1).out();
    assert!(text.contains("\"cents\":100}") && text.contains("\"cents\":10000}"), "{text}");
    let back = place.run("diff invoice-3 invoice-1 --json").ended(1);
    assert_eq!(changes(&back)[1], "first-only echo -");
}

#[test]
fn a_run_is_compared_with_one_in_another_log() {
    let place = runs();
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    place.run("diff invoice-1 invoice-2 --with log.ndjson").ended(0);
    place.run("diff invoice-1 invoice-3 --with log.ndjson --file log.ndjson").ended(1);
    place.run("diff invoice-1 none-such --with log.ndjson").ended(3).told(&["none-such"]);
    place.run("diff invoice-1 system-0").ended(2).told(&["has no steps"]);
    place.run("diff invoice-1 invoice-2 --patch").ended(2).told(&["step by step"]);
}

#[test]
fn an_id_as_short_as_a_word_is_no_id_in_arguments() {
    let place = Place::new();
    // One task has the name that both say.
    let tasks = [task("blue", &[echo("blue")]), task("green", &[echo("blue")])];
    place.run_tasks(&tasks.join("\n"), "").ended(0);
    place.run("diff blue green").ended(0);
}

#[test]
fn runs_that_differ_in_their_artifacts_alone_differ() {
    let place = Place::new();
    let dir = place.path().join("taskreel-log");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let turn = Arc::new(AtomicUsize::new(0));
        let writes = move |context: HandlerContext, _: Message| {
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            async move {
                // The first two are the same, in pieces that are cut in other places.
                let pieces: &[&str] =
                    [&["one ", "report"][..], &["one ", "report"], &["another ", "report"]][turn];
                let (last, first) = pieces.split_last().unwrap();
                let parts: Vec<Part> = first.iter().copied().map(Part::text).collect();
                context.append_piece("report-of-this-run", parts, false).await?;
                context.append_piece("report-of-this-run", vec![Part::text(last)], true).await?;
                context.append_artifact(vec![Part::text("a note")]).await?;
                Ok::<_, ToolError>(HandlerEnd::Completed)
            }
        };
        let system = System::builder(&dir).handler(writes).start().await.unwrap();
        for id in ["report-1", "report-2", "report-3"] {
            let part = json!({"type": "text", "content": "write"});
            let posted =
                json!({"id": id, "messages": [{"id": format!("m-{id}"), "role": "user", "parts": [part]}]});
            let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
            system.submit(posted).await.unwrap().finished().await.unwrap();
        }
        system.shutdown().await.unwrap();
    });
    place.run("diff report-1 report-2").ended(0);
    let ran = place.run("diff report-1 report-3 --json").ended(1).json();
    let changed: Vec<_> = ran.iter().filter(|line| line["change"] == "changed").collect();
    assert_eq!(changed.len(), 1, "{changed:#?}");
    assert_eq!(changed[0]["first"]["kind"], "artifact");
    assert!(changed[0]["second"]["args"].as_str().unwrap().contains("another"), "{changed:#?}");
}

#[test]
fn the_sum_of_a_comparison_with_another_log_names_both_sides_apart() {
    let place = runs();
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    let out = place.run("diff invoice-1 invoice-1 --with log.ndjson").ended(0).out();
    let sum = out.lines().last().unwrap();
    assert!(sum.contains("only in invoice-1 of taskreel-log"), "{sum}");
    assert!(sum.contains("only in invoice-1 of log.ndjson"), "{sum}");
}

#[test]
fn changes_between_versions_have_their_values() {
    let place = runs();
    let lines = place.run("diff invoice-1 1 3 --json").ended(1).json();
    let change = |area: &str| lines.iter().find(|line| line["area"] == area).unwrap().clone();
    let state = change("lifecycle");
    assert_eq!((&state["before"], &state["after"]["to"]), (&Value::Null, &json!("working")));
    let metadata = change("metadata");
    assert!(metadata["after"].is_object() || metadata["after"].is_string(), "{metadata}");
    let last = place.run("diff invoice-1 4 6 --json").ended(1).json();
    let call = last.iter().find(|line| line["area"] == "call").unwrap();
    assert_eq!((&call["change"], &call["after"]["target"]), (&json!("closed"), &json!("add")));
    assert!(call["before"]["status"] != call["after"]["status"], "{call}");
}

#[test]
fn a_patch_is_empty_with_0_where_the_documents_are_equal_and_says_what_they_leave_out() {
    let place = runs();
    // A call was opened, which `state` does not print.
    let ran = place.run("diff invoice-1 3 5 --patch").ended(0);
    assert_eq!(ran.json(), [json!([])]);
    assert!(ran.err().contains("calls or turns"), "{}", ran.err());
    let patch = place.run("diff invoice-1 1 3 --patch").ended(1).json();
    assert!(!patch[0].as_array().unwrap().is_empty());
}
