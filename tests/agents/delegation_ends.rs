//! The ends of questions to other agents: given up with the asking task, out of time, refused, failed,
//! replied too late.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::peers::{Does, Noted};
use proto_events::call::{Call, CallEvent, CallKind, CallStatus, FailureClass};
use proto_events::id::Version;
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::task::{TaskCommand, TaskEvent};
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{Entry, Scripted};
use taskreel::peer::{PeerAnswer, PeerError, PeerErrorKind};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{BudgetUsage, Builder, JsonSchema, Part, System, TaskHandle, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::{Delivery, decode_record};
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn in_memory() -> Builder {
    System::builder("-").store(Arc::new(MemoryStore::new()))
}

fn asks(action: &Value) -> Scripted {
    Scripted::new([Entry::json(action), Entry::json(&json!({"type": "final", "content": "done"}))])
}

fn asks_for_an_answer() -> Scripted {
    asks(&json!({"type": "agent_call", "agent": "other", "action": "infer", "prompt": "Coat?"}))
}

fn asks_for_tool(tool: &str) -> Scripted {
    asks(&json!({"type": "agent_call", "agent": "other", "action": "tool_call", "tool": tool, "args": {}}))
}

async fn asking(peer: &Noted) -> (System, TaskHandle) {
    let system = in_memory().infer(asks_for_an_answer()).peer(peer.clone()).start().await.unwrap();
    let task = system.session("s").send(Part::infer("go")).await.unwrap();
    peer.was_sent.notified().await;
    (system, task)
}

fn delegated(end: &TaskSnapshot) -> &Call {
    end.task().calls().iter().find(|call| call.request.kind == CallKind::Delegate).unwrap()
}

fn given_up(peer: &Noted) -> Vec<(String, String)> {
    peer.canceled.lock().unwrap().clone()
}

/// A guard that signals when it is dropped.
struct Gone(Arc<Notify>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_cancel_reaches_what_another_agents_tool_is_doing() {
    let (started, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let tool = {
        let (started, gone) = (Arc::clone(&started), Arc::clone(&gone));
        move |_: Nothing| {
            let gone = Gone(Arc::clone(&gone));
            started.notify_one();
            async move {
                let _gone = gone;
                std::future::pending::<Result<(), Infallible>>().await
            }
        }
    };
    let other = in_memory().name("other").tool("slow", "Waits", tool).start().await.unwrap();
    let system = in_memory().infer(asks_for_tool("slow")).peer(other.peer()).start().await.unwrap();
    let task = system.session("s").send(Part::infer("go")).await.unwrap();
    started.notified().await;
    task.cancel(Some("too late")).await.unwrap();
    let end = task.snapshot().await.unwrap();
    let id = delegated(&end).request.args.tree()["task"]["id"].as_str().unwrap().to_owned();
    let child = other.task(&id).unwrap().finished().await.unwrap();
    assert_eq!(child.state(), TaskState::Canceled);
    let why = child.task().metadata().get("cancel_reason").unwrap();
    assert_eq!(why.as_str(), "\"Parent task was canceled\"");
    gone.notified().await;
    system.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}

#[tokio::test]
async fn whatever_ends_the_run_gives_up_what_another_agent_was_asked_for() {
    for (recovery, policy) in [("idempotent", ToolPolicy::idempotent()), ("manual", ToolPolicy::manual())] {
        for cancel in [true, false] {
            let peer = Noted::that(Does::Hangs).with(policy.clone());
            let (system, task) = asking(&peer).await;
            if cancel {
                task.cancel(None).await.unwrap();
            } else {
                task.command(TaskCommand::Fail { error: "no more".into() }).await.unwrap();
            }
            let end = task.snapshot().await.unwrap();
            let unknown = matches!(delegated(&end).status, CallStatus::Unknown(_));
            assert_eq!(unknown, recovery == "manual", "{:?}", delegated(&end).status);
            peer.was_canceled.notified().await;
            let reason = if cancel { "Parent task was canceled" } else { "Parent task gave it up" };
            assert_eq!(given_up(&peer), [(peer.tasks()[0].clone(), reason.to_owned())]);
            system.shutdown().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_question_that_no_attempt_is_left_for_is_given_up_and_fails_the_run() {
    let policy = ToolPolicy::idempotent().timeout(Duration::from_millis(5)).retries(1);
    let peer = Noted::that(Does::Hangs).with(policy);
    let (system, task) = asking(&peer).await;
    let end = task.finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Failed);
    let error = end.task().error().unwrap();
    assert!(error.starts_with("Agent call to 'other' failed: attempt 2 did not end within 5 ms"), "{error}");
    let sent = peer.tasks();
    assert_eq!(sent, vec![sent[0].clone(); 2], "every attempt sends the same task");
    peer.was_canceled.notified().await;
    assert_eq!(given_up(&peer), [(sent[0].clone(), "Parent task gave it up".to_owned())]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_comes_after_the_cancel_is_evidence_and_no_outcome() {
    let answer = PeerAnswer {
        state: TaskState::Canceled,
        result: JsonText::string("half"),
        error: None,
        used: BudgetUsage::default(),
    };
    let peer = Noted::that(Does::AnswersTooLate(answer)).with(ToolPolicy::idempotent());
    let (system, task) = asking(&peer).await;
    let canceled = task.cancel(None).await.unwrap();
    let mut events = system.subscribe_task(task.id(), Version(canceled.version.0 + 1)).unwrap();
    let Some(Ok(Delivery::Record(record))) = events.next().await else { panic!("the log ended") };
    let late = decode_record::<TaskEvent>(&record).unwrap();
    assert!(
        matches!(&late[0].event, TaskEvent::Call(CallEvent::LateResultIgnored { succeeded: true, .. })),
        "{late:?}"
    );
    let end = task.snapshot().await.unwrap();
    assert_eq!((end.state(), delegated(&end).status.as_str()), (TaskState::Canceled, "canceled"));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_know_the_task_yet_is_asked_again_and_a_shutdown_waits_for_it() {
    let peer = Noted::that(Does::Hangs);
    let unknown = PeerError::new(PeerErrorKind::NotFound, "no such task");
    *peer.refusals.lock().unwrap() = vec![unknown; 2];
    let (system, task) = asking(&peer).await;
    task.cancel(None).await.unwrap();
    system.shutdown().await.unwrap();
    assert_eq!(given_up(&peer).len(), 1, "before the shutdown was over");
}

#[tokio::test]
async fn a_refusal_is_told_to_the_model_and_every_other_failure_ends_the_run() {
    let ended = async |kind| {
        let does = Does::Answers(Err(PeerError::new(kind, "no room")));
        let peer = Noted::that(does).with(ToolPolicy::idempotent());
        let (system, task) = asking(&peer).await;
        let end = task.finished().await.unwrap();
        let said = system.session("s").history().await.unwrap();
        system.shutdown().await.unwrap();
        assert!(given_up(&peer).is_empty() || kind == PeerErrorKind::Lost);
        (end, said, peer.tasks().len())
    };
    let (end, said, _) = ended(PeerErrorKind::Refused).await;
    assert_eq!(end.answer().unwrap().as_str(), "\"done\"");
    assert_eq!(said.as_slice()[3].content, "Agent call failed: no room");
    for (kind, class) in [
        (PeerErrorKind::Unreachable, FailureClass::BeforeEffect),
        (PeerErrorKind::Failed, FailureClass::AfterEffect),
    ] {
        let (end, _, attempts) = ended(kind).await;
        assert_eq!(end.task().error().unwrap(), "Agent call to 'other' failed: no room");
        assert!(matches!(&delegated(&end).status, CallStatus::Failed(failure) if failure.class == class));
        assert_eq!(attempts, 1);
    }
    let (end, _, attempts) = ended(PeerErrorKind::Lost).await;
    assert_eq!((end.state(), attempts), (TaskState::Failed, 4), "what is lost is asked for again");
}

#[tokio::test]
async fn a_child_that_failed_is_a_result_like_another_and_one_that_broke_ends_the_run() {
    let boom = async |_: Nothing| Err::<(), _>(ToolError::failed("boom"));
    let down =
        Scripted::new([Entry::Raise { type_name: "RuntimeError".into(), message: "model down".into() }]);
    let other = in_memory().name("other").tool("boom", "Fails", boom).infer(down).start().await.unwrap();
    let model = asks_for_tool("boom");
    let system = in_memory().infer(model.clone()).peer(other.peer()).start().await.unwrap();
    let end = system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed);
    let told = &model.requests()[1].messages[3].content;
    assert!(told.contains("agent_result") && told.contains("boom"), "{told}");
    let kept = delegated(&end);
    assert!(matches!(&kept.status, CallStatus::Succeeded(kept) if kept.as_str().contains("\"failed\"")));
    system.shutdown().await.unwrap();

    let system = in_memory().infer(asks_for_an_answer()).peer(other.peer()).start().await.unwrap();
    let end = system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
    assert_eq!(
        end.task().error().unwrap(),
        "Agent call to 'other' failed: LLM call failed at step 1: model down"
    );
    system.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_policy_decides_who_may_be_asked_before_anything_is_looked_up() {
    let peer = Noted::says("x");
    let policy = CapabilityPolicy::new().deny("agent.*");
    let builder = in_memory().infer(asks_for_an_answer()).peer(peer.clone()).capability_policy(policy);
    let system = builder.start().await.unwrap();
    let end = system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
    let error = end.task().error().unwrap();
    assert_eq!(error, "Action 'other' denied: Denied capabilities: agent.delegate");
    assert!(peer.tasks().is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_question_that_a_person_approved_is_asked_once_under_that_approval() {
    let ask = json!({"type": "agent_call", "agent": "other", "action": "infer", "prompt": "Coat?"});
    let last = json!({"type": "final", "content": "done"});
    let model = Scripted::new([&ask, &ask, &last].map(Entry::json));
    let (peer, policy) = (Noted::says("Yes."), CapabilityPolicy::new().require_approval("agent.delegate"));
    let builder = in_memory().infer(model).peer(peer.clone()).capability_policy(policy);
    let system = builder.approvals_by_person().start().await.unwrap();
    let task = system.session("s").send(Part::infer("go")).await.unwrap();
    let waits = task.finished().await.unwrap();
    assert_eq!((waits.state(), peer.tasks().len()), (TaskState::InputRequired, 0));
    let approval = waits.task().approvals().iter().next().unwrap().request.approval_id.clone();
    task.approve(&approval, "ada").await.unwrap();
    let end = task.finished().await.unwrap();
    assert_eq!(end.answer().unwrap().as_str(), "\"done\"");
    assert_eq!(peer.tasks().len(), 1);
    assert_eq!(delegated(&end).request.approval.as_deref(), Some(approval.as_str()));
    system.shutdown().await.unwrap();
}
