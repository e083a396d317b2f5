//! Run events and reports, compared with those that Protolink 0.6.4 made of the same events of a task's stream
//! (`golden/run_events.json`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod counting_mint;

use counting_mint::CountingMint;
use proto_events::json::{JsonText, JsonValue};
use proto_events::model::{
    Artifact, LastItem, Message, Part, PostedTask, RunContext, RunEvent, RunReport, TaskState,
};

fn recorded() -> JsonValue {
    JsonText::parse(include_str!("golden/run_events.json")).unwrap().tree()
}

fn without_id_and_time(event: &RunEvent) -> JsonValue {
    let mut tree = event.to_json().tree();
    let members = tree.as_object_mut().unwrap();
    assert!(members.remove("event_id").is_some() && members.remove("timestamp").is_some());
    tree
}

fn events(recorded: &JsonValue) -> Vec<JsonText> {
    let cases = recorded["events"].as_array().unwrap();
    cases.iter().map(|case| case["event"].clone().into()).collect()
}

#[test]
fn each_event_of_a_stream_gets_the_envelope_that_protolink_gives_it() {
    let (recorded, mint) = (recorded(), &mut CountingMint::default());
    let ours = RunEvent::of_task_events(&events(&recorded), None, mint).unwrap();
    for (case, ours) in recorded["events"].as_array().unwrap().iter().zip(&ours) {
        assert_eq!(without_id_and_time(ours), case["run_event"], "{}", case["event"]);
        assert_eq!(&RunEvent::from_json(&ours.to_json(), mint).unwrap(), ours);
    }
    let context = RunContext::from_json(
        &JsonText::parse(r#"{"run_id":"run_x","agent_chain":["a","b"],"created_at":"t"}"#).unwrap(),
        mint,
    );
    let case = &recorded["with_context"];
    let event = case["event"].clone().into();
    let ours = RunEvent::of_task_event(&event, Some(&context.unwrap()), Some(1), mint).unwrap();
    assert_eq!(without_id_and_time(&ours), case["run_event"]);
}

#[test]
fn a_report_tells_what_protolinks_tells_and_its_secrets_are_redacted() {
    let (recorded, mint) = (recorded(), &mut CountingMint::default());
    let all = RunEvent::of_task_events(&events(&recorded), None, mint).unwrap();
    let report = RunReport::from_events(all.clone(), Some(RunContext::new("run_x", "t")), "now");
    let shown = report.to_redacted_json();
    let (tree, theirs) = (shown.tree(), &recorded["redacted_report"]);
    for (section, theirs) in theirs.as_object().unwrap() {
        assert_eq!(&tree[section.as_str()], theirs, "{section}");
    }
    assert!(report.to_json().as_str().contains("hush") && !shown.as_str().contains("hush"));
    assert_eq!(report, RunReport::from_events(all, Some(RunContext::new("run_x", "t")), "now"));
    assert_eq!(RunReport::from_json(&report.to_json(), mint).unwrap(), report);
    assert_eq!(report.events_of("task.error").count(), 2);
}

#[test]
fn the_envelope_of_an_event_is_the_same_each_time_it_is_made() {
    let event = events(&recorded()).swap_remove(0);
    let made = || RunEvent::of_task_event(&event, None, None, &mut CountingMint::default()).unwrap();
    assert_eq!((made().event_id.as_str(), made()), ("e", made()));
}

#[test]
fn the_answer_of_a_task_is_in_its_last_part_or_nowhere() {
    let mint = &mut CountingMint::default();
    let mut artifact = |part: Part, kind: &str| {
        let artifact = Artifact { kind: kind.to_owned(), ..Artifact::new(vec![part], mint) };
        LastItem::Artifact(&artifact).output().map(|output| output.to_string())
    };
    let text = |text: &str| Some(format!("\"{text}\""));
    let failure = Part::tool_failure("c", JsonText::string("no"));
    assert_eq!(artifact(Part::text("a"), "result"), text("a"));
    assert_eq!(artifact(Part::text("a"), "preview"), None);
    assert_eq!(artifact(Part::new("infer_output", JsonText::string("b")), "result"), text("b"));
    assert_eq!(artifact(failure, "result"), None);
    let output = JsonText::parse(r#"{"call_id":"c","result":3,"error":null}"#).unwrap();
    assert_eq!(artifact(Part::new("tool_output", output), "result").as_deref(), Some("3"));
    assert_eq!(artifact(Part::infer("q"), "result"), None);
    let message = |role: &str| {
        let message = Message::new(role, vec![Part::text("t")], &mut CountingMint::default());
        LastItem::Message(&message).output().is_some()
    };
    assert_eq!((message("agent"), message("assistant"), message("user")), (true, true, false));
}

#[test]
fn a_task_that_failed_or_was_canceled_is_raised_as_protolink_raises_it() {
    let read = |text: &str| PostedTask::parse(text, &mut CountingMint::default()).unwrap();
    let said =
        |task: PostedTask| task.raise_for_status().map(|task| task.state).map_err(|error| error.to_string());
    assert_eq!(
        said(read(r#"{"id":"t","state":"failed","metadata":{"error":"boom"}}"#)),
        Err("Task 't' failed: boom".to_owned())
    );
    assert_eq!(
        said(read(r#"{"id":"t","state":"canceled","metadata":{"error":"x","cancel_reason":"late"}}"#)),
        Err("Task 't' canceled: late".to_owned())
    );
    assert_eq!(said(read(r#"{"id":"t","state":"failed"}"#)), Err("Task 't' failed".to_owned()));
    assert_eq!(said(read(r#"{"id":"t","state":"input-required"}"#)), Ok(TaskState::InputRequired));
}
