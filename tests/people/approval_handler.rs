//! Approvals by code: the request is on disk before the handler sees it, its verdict is on disk before the
//! call; and cases without a handler call.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::approvals_support::{Purse, finished, look, outputs, pay, script, task};
use proto_events::id::{Position, StreamId, Version};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::task::TaskEvent;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict};
use taskreel::infer::Scripted;
use taskreel::{Message, Part, TaskState};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::decode_record;
use tokio::sync::Notify;

/// Whether the log holds the approval request.
fn is_asked(store: &MemoryStore) -> bool {
    store.read_all(Position(1), usize::MAX).unwrap().iter().any(|record| {
        let events = decode_record::<TaskEvent>(record);
        events.is_ok_and(|events| {
            events.iter().any(|event| matches!(event.event, TaskEvent::ApprovalRequested(_)))
        })
    })
}

#[tokio::test]
async fn a_handler_hears_what_is_on_disk_and_its_word_is_on_disk_before_the_call() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let heard: Arc<Mutex<Vec<(ApprovalRequest, bool)>>> = Arc::default();
    let (notes, log) = (Arc::clone(&heard), Arc::clone(&store));
    let handler = move |request: ApprovalRequest| {
        let dear = request.args.tree()["cents"].as_i64().unwrap() > 10;
        notes.lock().unwrap().push((request, is_asked(&log)));
        async move {
            if dear {
                ApprovalVerdict::Denied { reason: Some("too dear".to_owned()) }
            } else {
                ApprovalVerdict::Approved
            }
        }
    };
    let system = purse.system(&store).approval_handler(handler).start().await.unwrap();
    let end = finished(&system, task("t", &[pay(5)])).await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let (request, was_asked) = heard.lock().unwrap()[0].clone();
    assert!(was_asked, "the handler heard of it before the disk did");
    assert_eq!((request.task_id.as_str(), request.description.as_str()), ("t", "Pays"));
    let kinds: Vec<&str> = store
        .read_stream(&StreamId::task("agent", "t").unwrap(), Version(1), usize::MAX)
        .unwrap()
        .iter()
        .flat_map(|record| {
            record.record.events.iter().map(|event| proto_events::codec::kind::name(event.kind))
        })
        .filter(|kind| kind.starts_with("Approval") || kind.starts_with("Call"))
        .collect();
    assert_eq!(
        kinds,
        ["ApprovalRequested", "ApprovalDecided", "CallRequested", "CallDispatched", "CallSucceeded"]
    );
    let end = finished(&system, task("u", &[pay(50)])).await;
    assert_eq!(end.task().error().as_deref(), Some("Action 'pay' denied: too dear"));
    assert_eq!(purse.spent(), [5]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_handler_may_ask_a_person_and_one_that_panics_or_hangs_leaves_it_to_one() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let handler = |request: ApprovalRequest| async move {
        match request.args.tree()["cents"].as_i64() {
            Some(1) => ApprovalVerdict::AskPerson,
            Some(2) => panic!("no"),
            _ => std::future::pending().await,
        }
    };
    let builder = purse.system(&store).approval_handler(handler).infer(script());
    let system = builder.approval_timeout(Duration::from_millis(20)).start().await.unwrap();
    for cents in 1..=3 {
        let id = format!("t{cents}");
        let waits = finished(&system, task(&id, &[pay(cents)])).await;
        assert_eq!(waits.state(), TaskState::InputRequired, "{id}");
        let approval = system.approvals(&id).await.unwrap()[0].request.approval_id.clone();
        system.approve(&id, &approval, "ada").await.unwrap();
        let end = system.task(&id).unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    }
    assert_eq!(purse.spent(), [1, 2, 3]);
    // In a conversation too: the turn is released.
    let waits = finished(&system, task("m", &[Part::infer("buy it")])).await;
    assert_eq!(waits.state(), TaskState::InputRequired);
    let other = finished(&system, task("n", &[Part::infer("something else")])).await;
    assert_eq!(other.state(), TaskState::Completed);
    system.shutdown().await.unwrap();
}

/// A handler that signals when it is called, and when it is interrupted.
#[derive(Clone, Default)]
struct Slow {
    asked: Arc<Notify>,
    dropped: Arc<Notify>,
    times: Arc<AtomicUsize>,
}

struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Slow {
    fn handler(
        &self,
    ) -> impl Fn(ApprovalRequest) -> std::pin::Pin<Box<dyn Future<Output = ApprovalVerdict> + Send>> + use<>
    {
        let slow = self.clone();
        move |_| {
            let slow = slow.clone();
            Box::pin(async move {
                let _dropped = Dropped(slow.dropped.clone());
                slow.times.fetch_add(1, Ordering::Relaxed);
                slow.asked.notify_one();
                std::future::pending().await
            })
        }
    }
}

#[tokio::test]
async fn a_cancel_is_heard_while_a_handler_is_asked_and_interrupts_it() {
    let (purse, store, slow) = (Purse::default(), Arc::new(MemoryStore::new()), Slow::default());
    let builder = purse.system(&store).approval_handler(slow.handler()).infer(script());
    let system = builder.start().await.unwrap();
    let running = system.submit(task("t", &[Part::infer("buy it")])).await.unwrap();
    slow.asked.notified().await;
    // A further message does not call the handler again.
    running.command(proto_events::task::TaskCommand::AppendMessage(note())).await.unwrap();
    running.cancel(Some("changed my mind")).await.unwrap();
    assert_eq!(running.snapshot().await.unwrap().state(), TaskState::Canceled);
    slow.dropped.notified().await;
    assert_eq!(slow.times.load(Ordering::Relaxed), 1);
    assert!(system.approvals("t").await.unwrap().is_empty());
    let other = finished(&system, task("u", &[Part::infer("something else")])).await;
    assert_eq!(other.state(), TaskState::Completed, "the session is free");
    system.shutdown().await.unwrap();
}

fn note() -> Message {
    Message { id: Some("n".to_owned()), role: None, parts: vec![Part::text("hm")], timestamp: None }
}

#[tokio::test]
async fn a_person_may_decide_while_a_handler_is_asked() {
    let (purse, store, slow) = (Purse::default(), Arc::new(MemoryStore::new()), Slow::default());
    let system = purse.system(&store).approval_handler(slow.handler()).start().await.unwrap();
    let running = system.submit(task("t", &[pay(5)])).await.unwrap();
    slow.asked.notified().await;
    let id = running.approvals().await.unwrap()[0].request.approval_id.clone();
    running.approve(&id, "ada").await.unwrap();
    let end = running.finished().await.unwrap();
    assert_eq!((end.state(), end.task().runs()), (TaskState::Completed, 1));
    slow.dropped.notified().await;
    assert_eq!(purse.spent(), [5]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn after_a_crash_a_pending_approval_is_asked_again_and_the_call_made_once() {
    for in_loop in [false, true] {
        let (purse, store, slow) = (Purse::default(), Arc::new(MemoryStore::new()), Slow::default());
        let part = if in_loop { Part::infer("buy it") } else { pay(7) };
        let builder = purse.system(&store).approval_handler(slow.handler()).infer(script());
        let first = builder.start().await.unwrap();
        first.submit(task("t", &[part])).await.unwrap();
        slow.asked.notified().await;

        let store = Arc::new(store.reopened().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&asked);
        let handler = move |request: ApprovalRequest| {
            notes.lock().unwrap().push(request.approval_id);
            async { ApprovalVerdict::Approved }
        };
        let model = Scripted::from_json(
            r#"{"buy": [{"type":"tool_call","tool":"pay","args":{"cents":7}},
            {"type":"final","content":"bought"}]}"#,
        );
        let builder = purse.system(&store).approval_handler(handler).infer(model.unwrap());
        let second = builder.start().await.unwrap();
        let end = second.task("t").unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        assert_eq!(purse.spent(), [7]);
        let known: Vec<_> =
            end.task().approvals().iter().map(|approval| approval.request.approval_id.clone()).collect();
        assert_eq!((known.len(), &known), (1, &*asked.lock().unwrap()), "the same question");
        second.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn nobody_is_asked_where_the_policy_denies_or_nobody_is_there() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = purse.system(&store).start().await.unwrap();
    let end = finished(&system, task("t", &[look(), pay(5)])).await;
    assert_eq!(end.task().error().as_deref(), Some("Action 'pay' requires approval"));
    assert_eq!(outputs(&end).len(), 1, "what was done before is kept");
    let mut narrowed = task("u", &[pay(5)]);
    narrowed.metadata.set("permissions", JsonText::from(json!({"default": "deny"})));
    let end = finished(&system, narrowed).await;
    assert_eq!(end.task().error().as_deref(), Some("Action 'pay' denied: Denied capabilities: money.spend"));
    let mut odd = task("v", &[pay(5)]);
    odd.metadata.set("permissions", JsonText::from(json!({"money.spend": "sure"})));
    let end = finished(&system, odd).await;
    assert_eq!(outputs(&end)[0]["error"]["message"], "Unsupported policy effect: 'sure'");
    assert_eq!(end.state(), TaskState::Failed);
    assert_eq!(end.task().approvals().iter().count(), 0);
    assert!(!is_asked(&store) && purse.spent().is_empty());
    system.shutdown().await.unwrap();
}
