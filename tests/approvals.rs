//! Approvals end to end: asked for before a call is intended, decided by code or by a person, good for that call alone.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::id::{Position, StreamId, Version};
use proto_events::json::JsonText;
use proto_events::model::LlmRole;
use proto_events::task::{ApprovalRejection, TaskEvent, TaskRejection};
use serde::Deserialize;
use serde_json::{Value, json};
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::infer::Scripted;
use taskreel::store::fold::decode_record;
use taskreel::store::{EventReader, MemoryStore};
use taskreel::system::Builder;
use taskreel::tool::ToolPolicy;
use taskreel::{Error, JsonSchema, Message, Part, PostedTask, System, TaskSnapshot, TaskState};
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Cents {
    cents: i64,
}

/// A tool that spends, and everything that it spent.
#[derive(Clone, Default)]
struct Purse(Arc<Mutex<Vec<i64>>>);

impl Purse {
    fn spent(&self) -> Vec<i64> {
        self.0.lock().unwrap().clone()
    }

    /// A system whose tool `pay` needs approval; `look` needs nothing.
    fn system(&self, store: &Arc<MemoryStore>) -> Builder {
        let spent = Arc::clone(&self.0);
        let pay = move |args: Cents| {
            spent.lock().unwrap().push(args.cents);
            async move { Ok::<_, Infallible>(format!("paid {}", args.cents)) }
        };
        let policy = ToolPolicy::manual().capabilities(["money.spend"]);
        System::builder("in memory")
            .store(store.clone())
            .tool_with("pay", "Pays", pay, policy)
            .tool("look", "Looks", |_: Cents| async { Ok::<_, Infallible>("seen") })
            .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
    }
}

fn pay(cents: i64) -> Part {
    Part::tool_call_of("pay", JsonText::from(json!({"cents": cents})), Some("part-1"))
}

fn look() -> Part {
    Part::tool_call_of("look", JsonText::from(json!({"cents": 0})), Some("part-2"))
}

/// A task of one message with these parts, in the session `s`.
fn task(id: &str, parts: Vec<Part>) -> PostedTask {
    let parts: Vec<Value> = parts.iter().map(|part| part.to_json().to_value()).collect();
    let posted = json!({
        "id": id,
        "messages": [{"id": format!("m-{id}"), "role": "user", "parts": parts}],
        "metadata": {"session_id": "s"},
    });
    PostedTask::from_json(&JsonText::from(posted), &mut taskreel::ports::Ports::default()).unwrap()
}

const PAY_THEN_FINAL: &str = r#"{"buy": [{"type":"tool_call","tool":"pay","args":{"cents":"7"}}],
    "was approved": [{"type":"final","content":"bought"}], "was denied": [{"type":"final","content":"not bought"}],
    "else": [{"type":"final","content":"yes"}]}"#;

fn script() -> Scripted {
    Scripted::from_json(PAY_THEN_FINAL).unwrap()
}

async fn finished(system: &System, task: PostedTask) -> TaskSnapshot {
    system.submit(task).await.unwrap().finished().await.unwrap()
}

fn last_text(end: &TaskSnapshot) -> String {
    end.answer().and_then(JsonText::to_str).unwrap_or_default()
}

fn outputs(end: &TaskSnapshot) -> Vec<Value> {
    let parts = end.task().artifacts().iter().flat_map(|artifact| artifact.parts.iter());
    parts.map(|part| part.content().to_value()).collect()
}

fn rejection(error: Error) -> ApprovalRejection {
    match error {
        Error::Task(TaskRejection::Approval(rejection)) => rejection,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_person_approves_a_part_and_the_very_call_is_made_and_the_rest_goes_on() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let system = purse.system(&store).approvals_by_person().start().await.unwrap();
    let waits = finished(&system, task("t", vec![look(), pay(5), look()])).await;
    assert_eq!(waits.state(), TaskState::InputRequired);
    assert_eq!(outputs(&waits).len(), 1, "what was done so far is attached");
    assert!(purse.spent().is_empty());
    let asked = system.approvals("t").await.unwrap();
    let [approval] = asked.as_slice() else { panic!("{asked:?}") };
    let id = approval.request.approval_id.clone();
    assert!(id.starts_with("approval_"), "{id}");
    assert_eq!(approval.request.capabilities, ["money.spend"]);
    let told = last_text(&waits);
    assert!(told.contains(&format!("taskreel approve t {id}")) && told.contains("{\"cents\":5}"), "{told}");

    system.approve("t", &id, "ada").await.unwrap();
    let end = system.task("t").unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert_eq!(purse.spent(), [5]);
    let results: Vec<_> = outputs(&end).iter().map(|output| output["result"].clone()).collect();
    assert_eq!(results, [json!("seen"), json!("paid 5"), json!("seen")]);
    assert_eq!(outputs(&end)[1]["call_id"], "part-1");
    let call = end.task().calls().get(&approval.request.call_id).unwrap();
    assert_eq!(call.request.approval.as_deref(), Some(id.as_str()));
    assert_eq!(call.request.args_digest, approval.request.args_digest);
    let decided = end.task().approvals().get(&id).unwrap().verdict().unwrap();
    assert_eq!((decided.approved, decided.decided_by.as_str()), (true, "ada"));

    // The same again adds nothing; the other verdict, and another approval, are refused.
    let again = system.approve("t", &id, "eve").await.unwrap();
    assert_eq!(again.version(), end.version());
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
    finished(&system, task("t", vec![pay(5), pay(5)])).await;
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
        finished(&system, task(id, vec![pay(5)])).await;
        let approval = system.approvals(id).await.unwrap()[0].request.approval_id.clone();
        let end = system.deny(id, &approval, reason, "ada").await.unwrap();
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
    let waits = finished(&system, task("t", vec![Part::infer("buy it"), look()])).await;
    assert_eq!(waits.state(), TaskState::InputRequired, "{}", waits.to_json());
    // The session is free, and its history is whole.
    let other = finished(&system, task("u", vec![Part::infer("something else")])).await;
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
    let told = model.requests().last().unwrap().messages.last().unwrap().content.clone();
    assert!(
        told.contains("approved and made") && told.contains("paid 7") && !told.contains("buy it"),
        "{told}"
    );
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_model_whose_call_is_denied_is_told_and_goes_on_without_it() {
    let (purse, store, model) = (Purse::default(), Arc::new(MemoryStore::new()), script());
    let system = purse.system(&store).approvals_by_person().infer(model.clone()).start().await.unwrap();
    finished(&system, task("t", vec![Part::infer("buy it")])).await;
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
        let waits = finished(&system, task("t", vec![Part::infer("please get it")])).await;
        assert_eq!(waits.state(), TaskState::InputRequired, "{}", waits.to_json());
        let id = system.approvals("t").await.unwrap()[0].request.approval_id.clone();
        if approved {
            system.approve("t", &id, "ada").await.unwrap();
        } else {
            system.deny("t", &id, None, "ada").await.unwrap();
        }
        system.task("t").unwrap().finished().await.unwrap();
        let told = model.requests().last().unwrap().messages.last().unwrap().content.clone();
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
    let waits = finished(&system, task("t", vec![pay(5)])).await;
    let id = system.approvals("t").await.unwrap()[0].request.approval_id.clone();
    // The caller answers otherwise.
    let mut longer = task("t", vec![pay(5)]);
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

/// Whether the log holds the question.
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
        let dear = request.args.to_value()["cents"].as_i64().unwrap() > 10;
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
    let end = finished(&system, task("t", vec![pay(5)])).await;
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
    let end = finished(&system, task("u", vec![pay(50)])).await;
    assert_eq!(end.task().error().as_deref(), Some("Action 'pay' denied: too dear"));
    assert_eq!(purse.spent(), [5]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_handler_may_ask_a_person_and_one_that_panics_or_hangs_leaves_it_to_one() {
    let (purse, store) = (Purse::default(), Arc::new(MemoryStore::new()));
    let handler = |request: ApprovalRequest| async move {
        match request.args.to_value()["cents"].as_i64() {
            Some(1) => ApprovalVerdict::AskPerson,
            Some(2) => panic!("no"),
            _ => std::future::pending().await,
        }
    };
    let builder = purse.system(&store).approval_handler(handler).infer(script());
    let system = builder.approval_timeout(Duration::from_millis(20)).start().await.unwrap();
    for cents in 1..=3 {
        let id = format!("t{cents}");
        let waits = finished(&system, task(&id, vec![pay(cents)])).await;
        assert_eq!(waits.state(), TaskState::InputRequired, "{id}");
        let approval = system.approvals(&id).await.unwrap()[0].request.approval_id.clone();
        system.approve(&id, &approval, "ada").await.unwrap();
        let end = system.task(&id).unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    }
    assert_eq!(purse.spent(), [1, 2, 3]);
    // Inside a conversation too: the turn is given back.
    let waits = finished(&system, task("m", vec![Part::infer("buy it")])).await;
    assert_eq!(waits.state(), TaskState::InputRequired);
    let other = finished(&system, task("n", vec![Part::infer("something else")])).await;
    assert_eq!(other.state(), TaskState::Completed);
    system.shutdown().await.unwrap();
}

/// Says when it is asked, and that it was interrupted.
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
    let running = system.submit(task("t", vec![Part::infer("buy it")])).await.unwrap();
    slow.asked.notified().await;
    // More is said meanwhile; the handler is asked once.
    running.command(proto_events::task::TaskCommand::AppendMessage(note())).await.unwrap();
    let end = running.cancel(Some("changed my mind")).await.unwrap();
    assert_eq!(end.state(), TaskState::Canceled);
    slow.dropped.notified().await;
    assert_eq!(slow.times.load(Ordering::Relaxed), 1);
    assert!(system.approvals("t").await.unwrap().is_empty());
    let other = finished(&system, task("u", vec![Part::infer("something else")])).await;
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
    let running = system.submit(task("t", vec![pay(5)])).await.unwrap();
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
        first.submit(task("t", vec![part])).await.unwrap();
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
    let end = finished(&system, task("t", vec![look(), pay(5)])).await;
    assert_eq!(end.task().error().as_deref(), Some("Action 'pay' requires approval"));
    assert_eq!(outputs(&end).len(), 1, "what was done before is kept");
    let mut narrowed = task("u", vec![pay(5)]);
    narrowed.metadata.set("permissions", JsonText::from(json!({"default": "deny"})));
    let end = finished(&system, narrowed).await;
    assert_eq!(end.task().error().as_deref(), Some("Action 'pay' denied: Denied capabilities: money.spend"));
    let mut odd = task("v", vec![pay(5)]);
    odd.metadata.set("permissions", JsonText::from(json!({"money.spend": "sure"})));
    let end = finished(&system, odd).await;
    assert_eq!(outputs(&end)[0]["error"]["message"], "Unsupported policy effect: 'sure'");
    assert_eq!(end.state(), TaskState::Failed);
    assert_eq!(end.task().approvals().iter().count(), 0);
    assert!(!is_asked(&store) && purse.spent().is_empty());
    system.shutdown().await.unwrap();
}
