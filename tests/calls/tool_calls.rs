//! Several tool calls in one reply: all of them are one step, each has its answer in the order of the asks, and none is
//! made before the budget and the policy allow all.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::LlmRole;
use serde::Deserialize;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::infer::{ChatMessage, Scripted};
use taskreel::testing::assert_well_formed;
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, JsonSchema, PostedTask, System, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use tokio::sync::{Barrier, Notify};

#[derive(Deserialize, JsonSchema)]
struct Nth {
    n: u32,
}

/// The calls that were made, in order, and a call that hangs.
#[derive(Clone, Default)]
struct Bench {
    made: Arc<Mutex<Vec<u32>>>,
    hangs: Option<u32>,
    hanging: Arc<Notify>,
}

impl Bench {
    fn made(&self) -> Vec<u32> {
        self.made.lock().unwrap().clone()
    }

    /// Returns a system whose tool `pay` is called once at a time, and whose tool `look` only returns when as many
    /// calls of it are under way as `together` says.
    fn system(&self, store: &Arc<MemoryStore>, script: &Scripted, together: usize) -> Builder {
        let this = self.clone();
        let pay = move |asked: Nth| {
            let this = this.clone();
            async move {
                this.made.lock().unwrap().push(asked.n);
                if this.hangs == Some(asked.n) {
                    this.hanging.notify_one();
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(asked.n)
            }
        };
        let barrier = Arc::new(Barrier::new(together));
        let look = move |asked: Nth| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                Ok::<_, Infallible>(format!("saw {}", asked.n))
            }
        };
        System::builder("-")
            .store(Arc::clone(store) as _)
            .infer(script.clone())
            .tool_with("pay", "Pays", pay, ToolPolicy::manual().capabilities(["money.spend"]))
            .tool_with("look", "Looks", look, ToolPolicy::read_only().parallel())
    }
}

/// Returns a model that asks for these calls at once, and then answers.
fn asks(calls: &[(&str, u32)]) -> Scripted {
    let calls: Vec<Value> =
        calls.iter().map(|(tool, n)| json!({"tool": tool, "args": json!({"n": n})})).collect();
    let script = json!([
        json!({"content": "all at once", "calls": calls}),
        json!({"type": "final", "content": "done"})
    ]);
    Scripted::from_json(JsonText::from(script).as_str()).unwrap()
}

fn posted(budget: &Value) -> PostedTask {
    let part = json!({"type": "infer", "content": json!({"prompt": "do it"})});
    let posted = json!({
        "id": "t",
        "messages": [json!({"id": "m", "role": "user", "parts": [part]})],
        "metadata": json!({"session_id": "s", "run_context": json!({"run_id": "r", "budget": budget.clone()})}),
    });
    PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap()
}

async fn run(store: &MemoryStore, builder: Builder, budget: Value) -> TaskSnapshot {
    let system = builder.start().await.unwrap();
    let task = system.submit(posted(&budget)).await.unwrap();
    let end =
        tokio::time::timeout(Duration::from_secs(30), task.finished()).await.expect("the run ends").unwrap();
    assert_well_formed(store);
    system.shutdown().await.unwrap();
    end
}

/// Returns what the last request showed after the message that asked: role, answered call, text.
fn answers(script: &Scripted) -> Vec<(LlmRole, String)> {
    let requests = script.requests();
    let messages: &[ChatMessage] = &requests.last().unwrap().messages;
    let asking = messages.iter().position(|message| !message.calls.is_empty()).unwrap();
    let asked: Vec<&str> = messages[asking].calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len(), "each call has its own id");
    let after = &messages[asking + 1..];
    let answered: Vec<&str> =
        after.iter().filter_map(|message| Some(message.answers.as_ref()?.0.as_str())).collect();
    assert_eq!(answered, asked, "one answer for each call, in the order of the asks");
    after.iter().map(|message| (message.role, message.content.clone())).collect()
}

fn texts(script: &Scripted) -> Vec<String> {
    answers(script).into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn parallel_calls_of_a_reply_start_together_and_are_answered_by_the_tools_in_order() {
    for stateless in [false, true] {
        let (store, script) = (Arc::new(MemoryStore::new()), asks(&[("look", 1), ("look", 2), ("look", 3)]));
        let builder = Bench::default().system(&store, &script, 3);
        let builder = if stateless { builder.stateless() } else { builder };
        let end = run(&store, builder, Value::Null).await;
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        let said = |text: &str| (LlmRole::Tool, format!("\"saw {text}\""));
        assert_eq!(answers(&script), [said("1"), said("2"), said("3")]);
        assert_eq!(script.requests().len(), 2, "all calls of a reply are one step");
    }
}

#[tokio::test]
async fn other_calls_of_a_reply_are_made_one_after_another() {
    let (store, script) =
        (Arc::new(MemoryStore::new()), asks(&[("pay", 3), ("pay", 1), ("look", 9), ("pay", 2)]));
    let bench = Bench::default();
    let end = run(&store, bench.system(&store, &script, 1), Value::Null).await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert_eq!(bench.made(), [3, 1, 2]);
    assert_eq!(texts(&script), ["3", "1", "\"saw 9\"", "2"]);
}

#[tokio::test]
async fn no_call_of_a_reply_is_made_if_the_budget_does_not_allow_all() {
    let (store, script) = (Arc::new(MemoryStore::new()), asks(&[("pay", 1), ("pay", 2), ("pay", 3)]));
    let bench = Bench::default();
    let end = run(&store, bench.system(&store, &script, 1), json!({"max_tool_calls": 2})).await;
    assert_eq!((end.state(), bench.made()), (TaskState::Failed, vec![]));
    let (store, script) = (Arc::new(MemoryStore::new()), asks(&[("pay", 1), ("pay", 2), ("pay", 3)]));
    let end = run(&store, bench.system(&store, &script, 1), json!({"max_tool_calls": 3})).await;
    assert_eq!((end.state(), bench.made()), (TaskState::Completed, vec![1, 2, 3]));
}

#[tokio::test]
async fn no_call_of_a_reply_is_made_if_the_policy_denies_one() {
    let (store, script) = (Arc::new(MemoryStore::new()), asks(&[("look", 1), ("pay", 2)]));
    let bench = Bench::default();
    let builder = bench.system(&store, &script, 1).capability_policy(CapabilityPolicy::new().deny("money.*"));
    let end = run(&store, builder, Value::Null).await;
    assert_eq!((end.state(), bench.made()), (TaskState::Failed, vec![]));
    assert!(end.task().calls().iter().all(|call| call.request.prompt.is_some()), "{}", end.to_json());
}

#[tokio::test]
async fn what_the_model_did_wrong_in_one_call_is_its_answer_and_the_others_are_made() {
    let calls = json!([
        json!({"tool": "pay", "args": json!({"n": 1})}),
        json!({"tool": "fly", "args": json!({})}),
        json!({"tool": "pay", "args": "no object"}),
        json!({"tool": "pay", "args": json!({"n": 1})}),
        json!({"tool": "pay", "args": json!({"n": 2})})
    ]);
    let script = json!([json!({"calls": calls}), json!({"type": "final", "content": "done"})]);
    let script = Scripted::from_json(JsonText::from(script).as_str()).unwrap();
    let (store, bench) = (Arc::new(MemoryStore::new()), Bench::default());
    let end = run(&store, bench.system(&store, &script, 1), Value::Null).await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert_eq!(bench.made(), [1, 2], "of two equal calls the second is not made");
    let said = texts(&script);
    assert!(said[1].contains("Unknown tool: 'fly'") && said[2].contains("argument error"), "{said:?}");
    assert!(said[3].contains("not made again"), "{said:?}");
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_keeps_the_whole_reply_back_and_the_model_is_told() {
    let (store, bench) = (Arc::new(MemoryStore::new()), Bench::default());
    let calls = json!([
        json!({"tool": "look", "args": json!({"n": 1})}),
        json!({"tool": "pay", "args": json!({"n": 2})})
    ]);
    let script = json!({"do it": [json!({"calls": calls})], "was approved": [json!({"type": "final", "content": "done"})]});
    let script = Scripted::from_json(JsonText::from(script).as_str()).unwrap();
    let policy = CapabilityPolicy::new().require_approval("money.*");
    let system = bench
        .system(&store, &script, 1)
        .capability_policy(policy)
        .approvals_by_person()
        .start()
        .await
        .unwrap();
    let task = system.submit(posted(&Value::Null)).await.unwrap();
    let waits = task.finished().await.unwrap();
    assert_eq!((waits.state(), bench.made()), (TaskState::InputRequired, vec![]), "{}", waits.to_json());
    let approval = waits.task().awaited_approvals().next().unwrap().request.approval_id.clone();
    task.approve(&approval, "ann").await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(30), task.finished()).await.unwrap().unwrap();
    assert_eq!((end.state(), bench.made()), (TaskState::Completed, vec![2]), "{}", end.to_json());
    let said = texts_of_all(&script);
    assert!(said.iter().any(|text| text.contains("not made: another call of the same reply")), "{said:?}");
    assert!(said.iter().any(|text| text.contains("waiting for approval")), "{said:?}");
    assert_well_formed(&*store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn equal_calls_of_a_repeatable_tool_are_approved_one_by_one() {
    let (store, bench) = (Arc::new(MemoryStore::new()), Bench::default());
    let script = asks(&[("again", 5), ("again", 5)]);
    let made = Arc::clone(&bench.made);
    let again = move |asked: Nth| {
        made.lock().unwrap().push(asked.n);
        async move { Ok::<_, Infallible>(asked.n) }
    };
    let policy = ToolPolicy::read_only().repeatable().capabilities(["money.spend"]);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let builder = bench
        .system(&store, &script, 1)
        .tool_with("again", "Again", again, policy)
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approval_handler(move |request: ApprovalRequest| {
            noted.lock().unwrap().push(request.call_id.clone());
            async { ApprovalVerdict::Approved }
        });
    let end = run(&store, builder, Value::Null).await;
    assert_eq!((end.state(), bench.made()), (TaskState::Completed, vec![5, 5]), "{}", end.to_json());
    let asked: BTreeSet<String> = asked.lock().unwrap().iter().cloned().collect();
    assert_eq!(asked.len(), 2, "each call has an approval of its own");
}

fn texts_of_all(script: &Scripted) -> Vec<String> {
    let requests = script.requests();
    requests.last().unwrap().messages.iter().map(|message| message.content.clone()).collect()
}

#[tokio::test]
async fn after_a_crash_in_the_middle_of_a_reply_the_calls_that_were_made_are_not_made_again() {
    let (store, bench) = (Arc::new(MemoryStore::new()), Bench { hangs: Some(2), ..Bench::default() });
    let script = asks(&[("pay", 1), ("pay", 2), ("pay", 3)]);
    let system = bench.system(&store, &script, 1).start().await.unwrap();
    let task = system.submit(posted(&Value::Null)).await.unwrap();
    bench.hanging.notified().await;
    let store = Arc::new(store.reopened().unwrap());
    let after = Bench::default();
    let second = after.system(&store, &script, 1).start().await.unwrap();
    let task = second.task(task.id()).unwrap();
    let waits = tokio::time::timeout(Duration::from_secs(30), task.finished()).await.unwrap().unwrap();
    assert_eq!(waits.state(), TaskState::InputRequired, "the second call was in flight: {}", waits.to_json());
    assert_eq!((bench.made(), after.made()), (vec![1, 2], vec![]));
    assert_well_formed(&*store);
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn more_calls_in_one_reply_than_can_be_open_at_once_are_refused_and_the_model_is_told() {
    let calls: Vec<_> = (0..200).map(|n| ("pay", n)).collect();
    let (store, script, bench) = (Arc::new(MemoryStore::new()), asks(&calls), Bench::default());
    let end = run(&store, bench.system(&store, &script, 1), Value::Null).await;
    assert_eq!((end.state(), bench.made()), (TaskState::Completed, vec![]));
    let said = texts_of_all(&script);
    assert!(said.iter().any(|text| text.contains("200 calls in one reply; at most 128")), "{said:?}");
}
