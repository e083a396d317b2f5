//! Approvals by a person: requested before a call is intended, valid for that call alone, and no session is
//! blocked.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;

use crate::approvals_support::{
    Cents, PAY_THEN_FINAL, Purse, finished, last_text, look, outputs, pay, rejection, script, task,
};
use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::LlmRole;
use proto_events::task::ApprovalRejection;
use taskreel::infer::Scripted;
use taskreel::tool::ToolPolicy;
use taskreel::{Message, Part, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::views::{find, unsettled};

#[tokio::test]
async fn a_person_approves_a_part_and_the_very_call_is_made_and_the_rest_goes_on() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = purse.system(&store).approvals_by_person().start().await.unwrap();
    let waits = finished(&system, task("t", &[look(), pay(5), look()])).await;
    assert_eq!(waits.state(), TaskState::InputRequired);
    assert_eq!(outputs(&waits).len(), 1, "what was done so far is attached");
    assert!(purse.spent().is_empty());
    let asked = system.approvals("t").await.unwrap();
    let [approval] = asked.as_slice() else { panic!("{asked:?}") };
    let id = approval.request.approval_id.clone();
    assert!(id.starts_with("approval_"), "{id}");
    assert_eq!(approval.request.capabilities, ["money.spend"]);
    let told = last_text(&waits);
    let typed = format!("taskreel approve task-agent/t {id}");
    assert!(told.contains(&typed) && told.contains("{\"cents\":5}"), "{told}");

    system.approve("t", &id, "ada").await.unwrap();
    let end = system.task("t").unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert_eq!(purse.spent(), [5]);
    let results: Vec<_> = outputs(&end).iter().map(|output| output["result"].clone()).collect();
    assert_eq!(results, [json!("seen"), json!("paid 5"), json!("seen")]);
    assert_eq!(outputs(&end)[1]["call_id"], "part-1");
    let call = end.task().calls().get(&approval.request.call_id).unwrap();
    assert_eq!(call.request.approval.as_deref(), Some(id.as_str()));
    assert_eq!(call.request.args, approval.request.args);
    let decided = end.task().approvals().get(&id).unwrap().verdict().unwrap();
    assert_eq!((decided.approved, decided.decided_by.name.as_str()), (true, "ada"));

    // Repeating the verdict adds nothing; the other verdict, and another approval, are refused.
    let again = system.approve("t", &id, "eve").await.unwrap();
    assert_eq!(again.version, end.version());
    let refused = rejection(system.deny("t", &id, None, "eve").await.unwrap_err());
    assert!(matches!(refused, ApprovalRejection::AlreadyDecided { approved: true, .. }), "{refused}");
    let unknown = rejection(system.approve("t", "approval_0", "eve").await.unwrap_err());
    assert_eq!(unknown, ApprovalRejection::Unknown("approval_0".to_owned()));
    assert_eq!(purse.spent(), [5]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn every_call_needs_an_approval_of_its_own_even_with_the_same_arguments() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = purse.system(&store).approvals_by_person().start().await.unwrap();
    finished(&system, task("t", &[pay(5), pay(5)])).await;
    for spent in [1, 2] {
        let id = system.approvals("t").await.unwrap()[0].request.approval_id.clone();
        system.approve("t", &id, "ada").await.unwrap();
        system.task("t").unwrap().finished().await.unwrap();
        assert_eq!(purse.spent().len(), spent);
    }
    let end = system.task("t").unwrap().snapshot().await.unwrap();
    assert_eq!((end.state(), end.task().runs()), (TaskState::Completed, 3));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_denied_part_fails_its_task_in_protolinks_words() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = purse.system(&store).approvals_by_person().start().await.unwrap();
    let needed = "Action 'pay' denied: Approval required for capabilities: money.spend";
    for (id, reason, error) in [
        ("a", Some("too much"), "Action 'pay' denied: too much"),
        ("b", None, needed),
        ("c", Some(""), needed),
    ] {
        finished(&system, task(id, &[pay(5)])).await;
        let approval = system.approvals(id).await.unwrap()[0].request.approval_id.clone();
        system.deny(id, &approval, reason, "ada").await.unwrap();
        let end = system.task(id).unwrap().snapshot().await.unwrap();
        assert_eq!((end.state(), end.task().error().as_deref()), (TaskState::Failed, Some(error)));
        let late = rejection(system.approve(id, &approval, "ada").await.unwrap_err());
        assert!(matches!(late, ApprovalRejection::AlreadyDecided { approved: false, .. }));
    }
    assert!(purse.spent().is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_model_hears_the_result_of_an_approved_call_in_a_new_turn_and_its_session_waits_for_nobody() {
    let (purse, store, model) = (Purse::default(), Arc::new(MemoryStore::new()), script());
    let system = purse.system(&store).approvals_by_person().infer(model.clone()).start().await.unwrap();
    let waits = finished(&system, task("t", &[Part::infer("buy it"), look()])).await;
    assert_eq!(waits.state(), TaskState::InputRequired, "{}", waits.to_json());
    // The session is free, and its history is complete.
    let other = finished(&system, task("u", &[Part::infer("something else")])).await;
    assert_eq!(other.state(), TaskState::Completed);
    let history = system.session("s").history().await.unwrap();
    let waiting = history.as_slice().iter().find(|message| message.content.contains("waiting for approval"));
    assert_eq!(waiting.unwrap().role, LlmRole::System);

    let approval = system.approvals("t").await.unwrap()[0].clone();
    assert_eq!(approval.request.args.as_str(), r#"{"cents":7}"#, "the checked arguments");
    system.approve("t", &approval.request.approval_id, "ada").await.unwrap();
    let end = system.task("t").unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert_eq!(purse.spent(), [7]);
    let shown = outputs(&end);
    assert_eq!(shown[0]["result"], "paid 7");
    assert_eq!((&shown[1], &shown[2]["result"]), (&json!("bought"), &json!("seen")), "the rest is done too");
    let requests = model.requests();
    let [.., told, result] = &*requests.last().unwrap().messages else { panic!("{requests:?}") };
    assert_eq!((told.role, result.role), (LlmRole::User, LlmRole::System));
    assert!(told.content.ends_with("approved and made. Do not make it again."), "{told:?}");
    assert_eq!(result.content, r#"{"type": "tool_result", "tool": "pay", "result": "paid 7"}"#);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_model_whose_call_is_denied_is_told_and_goes_on_without_it() {
    let (purse, store, model) = (Purse::default(), Arc::new(MemoryStore::new()), script());
    let system = purse.system(&store).approvals_by_person().infer(model.clone()).start().await.unwrap();
    finished(&system, task("t", &[Part::infer("buy it")])).await;
    let id = system.approvals("t").await.unwrap()[0].request.approval_id.clone();
    system.deny("t", &id, Some("too dear"), "ada").await.unwrap();
    let end = system.task("t").unwrap().finished().await.unwrap();
    assert_eq!((end.state(), last_text(&end).as_str()), (TaskState::Completed, "not bought"));
    let told = model.requests().last().unwrap().messages.last().unwrap().content.clone();
    assert!(told.contains("was denied (too dear)"), "{told}");
    assert!(purse.spent().is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_model_without_conversation_hears_again_what_was_asked() {
    for (approved, answer) in [(true, "bought"), (false, "not bought")] {
        let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
        let model = Scripted::from_json(&PAY_THEN_FINAL.replace("\"buy\"", "\"please\"")).unwrap();
        let builder = purse.system(&store).approvals_by_person().infer(model.clone()).stateless();
        let system = builder.start().await.unwrap();
        let waits = finished(&system, task("t", &[Part::infer("please get it")])).await;
        assert_eq!(waits.state(), TaskState::InputRequired, "{}", waits.to_json());
        let id = system.approvals("t").await.unwrap()[0].request.approval_id.clone();
        if approved {
            system.approve("t", &id, "ada").await.unwrap();
        } else {
            system.deny("t", &id, None, "ada").await.unwrap();
        }
        system.task("t").unwrap().finished().await.unwrap();
        let requests = model.requests();
        let mut told = requests.last().unwrap().messages.iter().rev();
        let told = told.find(|message| message.role == LlmRole::User).unwrap().content.clone();
        let word = if approved { "was approved" } else { "was denied" };
        assert!(told.contains(word) && told.ends_with("please get it"), "{answer}: {told}");
        assert_eq!(purse.spent().len(), usize::from(approved));
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn an_approval_is_not_waited_for_when_the_task_went_on_without_it() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = purse.system(&store).approvals_by_person().start().await.unwrap();
    let waits = finished(&system, task("t", &[pay(5)])).await;
    let id = system.approvals("t").await.unwrap()[0].request.approval_id.clone();
    // The caller replies with something else.
    let mut longer = task("t", &[pay(5)]);
    longer.messages.clear();
    longer.messages.extend(waits.task().messages().iter().cloned());
    longer.messages.push(Message {
        parts: vec![look()],
        id: Some("m2".to_owned()),
        role: None,
        timestamp: None,
    });
    let end = finished(&system, longer).await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert!(system.approvals("t").await.unwrap().is_empty());
    let late = rejection(system.approve("t", &id, "ada").await.unwrap_err());
    assert!(matches!(late, ApprovalRejection::TaskOver { state: TaskState::Completed, .. }), "{late}");
    assert!(purse.spent().is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn each_printed_command_names_its_own_task_whatever_the_ids_are() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = purse.system(&store).approvals_by_person().start().await.unwrap();
    let ids = ["@last", "--help", "order-17", "task-agent/order-17", "it's"];
    for id in ids {
        let told = last_text(&finished(&system, task(id, &[pay(5)])).await);
        let stream = StreamId::task("agent", id).unwrap();
        for word in ["approve", "deny"] {
            assert!(told.contains(&format!("`taskreel {word} {stream} approval_")), "{told}");
        }
    }
    let rows = unsettled(store.as_ref(), None, Timestamp::default()).unwrap().rows;
    assert_eq!(rows.len(), ids.len());
    for row in &rows {
        for command in row.commands() {
            let named = command.split(' ').nth(1).unwrap();
            assert!(!named.starts_with('-'), "{command}");
            assert_eq!(find(store.as_ref(), named).unwrap(), row.stream, "{command}");
        }
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn arguments_that_the_schema_changed_are_shown_as_they_were_asked_for_too() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = purse.system(&store).infer(script()).approvals_by_person().start().await.unwrap();
    let text = Part::tool_call_of("pay", JsonText::from(json!({"cents": "9"})), Some("part-1"));
    for (id, part) in [("asked", Part::infer("buy")), ("posted", text), ("same", pay(5))] {
        finished(&system, task(id, &[part])).await;
    }
    let rows = unsettled(store.as_ref(), None, Timestamp::default()).unwrap().rows;
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row.stream.id(), row.args.to_string(), row.asked_args.as_ref().map(ToString::to_string)))
        .collect();
    let row = |id: &str, args: &str, asked: Option<&str>| {
        (id.to_owned(), args.to_owned(), asked.map(str::to_owned))
    };
    assert_eq!(
        shown,
        [
            row("asked", r#"{"cents":7}"#, Some(r#"{"cents":"7"}"#)),
            row("posted", r#"{"cents":9}"#, Some(r#"{"cents":"9"}"#)),
            row("same", r#"{"cents":5}"#, None),
        ]
    );
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn parts_that_run_side_by_side_stop_before_the_one_that_needs_approval() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let read = ToolPolicy::read_only().parallel();
    let builder = purse
        .system(&store)
        .tool_with("see", "Sees", |_: Cents| async { Ok::<_, Infallible>("seen") }, read.clone())
        .tool_with(
            "peek",
            "Peeks",
            |_: Cents| async { Ok::<_, Infallible>("peeked") },
            read.capabilities(["money.see"]),
        );
    let system = builder.approvals_by_person().start().await.unwrap();
    let part = |tool: &str| Part::tool_call_of(tool, JsonText::from(json!({"cents": 1})), None);
    let waits = finished(&system, task("t", &[part("see"), part("see"), part("peek"), part("see")])).await;
    assert_eq!((waits.state(), outputs(&waits).len()), (TaskState::InputRequired, 2), "{}", waits.to_json());
    let made = |end: &TaskSnapshot| end.task().calls().iter().count();
    assert_eq!(made(&waits), 2, "what stands behind it was not begun");
    let id = system.approvals("t").await.unwrap()[0].request.approval_id.clone();
    system.approve("t", &id, "ada").await.unwrap();
    let end = system.task("t").unwrap().finished().await.unwrap();
    assert_eq!((end.state(), made(&end)), (TaskState::Completed, 4), "{}", end.to_json());
    system.shutdown().await.unwrap();
}
