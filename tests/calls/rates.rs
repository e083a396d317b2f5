//! Rate limits of targets: at most so many attempts begin within a span of time, in the order of asking, under the kit's
//! clock.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::json;
use proto_events::task::TaskEvent;
use serde::Deserialize;
use taskreel::infer::{InferPolicy, Scripted};
use taskreel::testing::{TestSystem, system, system_over};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Builder, Error, JsonSchema, Live, Message, Part, PostedTask, System, TaskHandle, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::for_each_record;
use taskreel_log::views::{event_rows, unsettled};

const SPAN: Duration = Duration::from_secs(10);

#[derive(Deserialize, JsonSchema)]
struct Nth {
    n: u32,
}

fn look(Nth { n }: Nth) -> std::future::Ready<Result<u32, String>> {
    std::future::ready(Ok(n))
}

/// Returns the second in which each attempt was sent, by the log, with its call's arguments.
fn sent(store: &MemoryStore) -> Vec<(i64, String)> {
    let (mut intents, mut sent) = (std::collections::HashMap::new(), Vec::new());
    for_each_record(store, taskreel::Position(1), |stored| {
        for row in event_rows(stored) {
            match row.event {
                Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request)))) => {
                    intents.insert(request.call_id.clone(), request.args.as_str().to_owned());
                }
                Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::Dispatched { call_id, .. }))) => {
                    sent.push((row.at.0 / 1_000_000, intents[&call_id].clone()));
                }
                _ => {}
            }
        }
        Ok::<_, taskreel_log::api::ReadError>(())
    })
    .unwrap();
    let first = sent.first().map_or(0, |(at, _)| *at);
    sent.into_iter().map(|(at, args)| (at - first, args)).collect()
}

fn seconds(store: &MemoryStore) -> Vec<i64> {
    sent(store).into_iter().map(|(at, _)| at).collect()
}

async fn submit(system: &TestSystem, tool: &str, n: u32) -> TaskHandle {
    system.submit(Part::tool_call(tool, json!({"n": n})).unwrap()).await.unwrap()
}

fn limited(agent: Builder) -> Builder {
    agent.tool_with("look", "Looks", look, ToolPolicy::idempotent().rate(2, SPAN))
}

#[tokio::test]
async fn attempts_wait_for_their_turn_in_the_order_of_asking() {
    let system = system(limited).await.unwrap();
    let mut tasks = Vec::new();
    for n in 0..5 {
        tasks.push(submit(&system, "look", n).await);
    }
    system.until_idle().await;
    let waiting = unsettled(system.store().as_ref(), None, taskreel::Timestamp::default()).unwrap().rows;
    assert!(waiting.iter().all(|row| row.waits_for.contains("rate of calls is limited")), "{waiting:?}");
    assert_eq!(waiting.len(), 3, "their intents are on disk");
    for task in &tasks {
        assert_eq!(system.finish(task).await.unwrap().state(), TaskState::Completed);
    }
    let sent: Vec<_> = sent(system.store());
    let expected = [(0, 0), (0, 1), (10, 2), (10, 3), (20, 4)].map(|(at, n)| (at, format!(r#"{{"n":{n}}}"#)));
    assert_eq!(sent, expected);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_canceled_call_frees_its_place_and_listeners_hear_of_the_wait() {
    let system = system(limited).await.unwrap();
    submit(&system, "look", 0).await;
    submit(&system, "look", 1).await;
    let (gone, _next) = (submit(&system, "look", 2).await, submit(&system, "look", 3).await);
    let third = submit(&system, "look", 4).await;
    gone.cancel(None).await.unwrap();
    system.finish(&third).await.unwrap();
    assert_eq!(seconds(system.store()), [0, 0, 10, 10], "the canceled call took no turn");
    let heard = system.task("heard").unwrap();
    let mut live_of_heard = heard.live();
    let (one, two) = (submit(&system, "look", 5).await, submit(&system, "look", 6).await);
    let posted = json!({"id": "heard", "messages": [json!({"role": "user", "parts": [json!({
        "type": "tool_call", "content": json!({"tool_name": "look", "args": json!({"n": 7})}),
    })]})]});
    let mut mint = Ports::default();
    let posted =
        taskreel::PostedTask::from_json(&proto_events::json::JsonText::from(posted), &mut mint).unwrap();
    system.submit(posted).await.unwrap();
    let said = system.run(live_of_heard.next()).await.flatten();
    assert!(matches!(said, Some(Live::Waiting { target, .. }) if &*target == "look"));
    for task in [one, two, heard] {
        system.finish(&task).await.unwrap();
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn tools_that_name_one_target_share_its_limit_and_must_agree_on_it() {
    let policy = |attempts| ToolPolicy::read_only().rate_of("api", attempts, SPAN);
    let both = move |agent: Builder| {
        agent.tool_with("get", "Gets", look, policy(1)).tool_with("list", "Lists", look, policy(1))
    };
    let system = system(both).await.unwrap();
    let tasks = [submit(&system, "get", 0).await, submit(&system, "list", 1).await];
    for task in &tasks {
        system.finish(task).await.unwrap();
    }
    assert_eq!(seconds(system.store()), [0, 10]);
    system.shutdown().await.unwrap();
    let builder = System::builder("-").store(Arc::new(MemoryStore::new()));
    let builder = builder.tool_with("get", "", look, policy(1)).tool_with("list", "", look, policy(2));
    assert!(matches!(builder.start().await, Err(Error::Builder(why)) if why.contains("`api`")));
}

#[tokio::test]
async fn retries_and_lost_attempts_take_turns_too() {
    for lost in [false, true] {
        let fails = move |_: Nth| async move {
            let error = if lost { ToolError::lost("no answer") } else { ToolError::failed("no") };
            Err::<(), _>(error.retry_after(Duration::from_millis(1)))
        };
        let policy = ToolPolicy::idempotent().retries(2).rate(1, SPAN);
        let system = system(move |agent| agent.tool_with("fail", "", fails, policy.clone())).await.unwrap();
        let task = submit(&system, "fail", 0).await;
        assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Failed);
        assert_eq!(seconds(system.store()), [0, 10, 20], "lost: {lost}");
        let verified = taskreel_log::audit::verify(system.store().as_ref());
        assert!(verified.is_sound(), "{:?}", verified.findings);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_models_attempts_are_limited() {
    let script = || Scripted::from_json(r#"[{"type":"final","content":"a"},{"type":"final","content":"b"}]"#);
    let system = system(move |agent| {
        agent.infer(script().unwrap()).infer_policy(InferPolicy::default().rate(1, SPAN))
    });
    let system = system.await.unwrap();
    let tasks =
        [system.submit(Part::infer("one")).await.unwrap(), system.submit(Part::infer("two")).await.unwrap()];
    for task in &tasks {
        assert_eq!(system.finish(task).await.unwrap().state(), TaskState::Completed);
    }
    assert_eq!(seconds(system.store()), [0, 10]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn after_a_crash_open_calls_are_sent_no_faster_than_the_limit() {
    let hang = |_: Nth| std::future::pending::<Result<u32, String>>();
    let first = system(move |agent| agent.tool_with("look", "Looks", hang, ToolPolicy::idempotent()));
    let first = first.await.unwrap();
    for n in 0..5 {
        submit(&first, "look", n).await;
    }
    first.until_idle().await;
    let appends = taskreel::testing::appends(first.store().as_ref()).unwrap().len();
    let log = taskreel::testing::cut_after(first.store().as_ref(), appends).await.unwrap();
    let again = system_over(log, limited).await.unwrap();
    let open: Vec<_> =
        taskreel_log::views::unsettled(again.store().as_ref(), None, taskreel::Timestamp::default())
            .unwrap()
            .rows
            .iter()
            .map(|row| row.stream.id())
            .collect();
    for id in open {
        assert_eq!(again.finish(&again.task(&id).unwrap()).await.unwrap().state(), TaskState::Completed);
    }
    let all = sent(again.store());
    let after: Vec<i64> = all[5..].iter().map(|(at, _)| at - all[5].0).collect();
    assert_eq!(after, [0, 0, 10, 10, 20]);
    again.shutdown().await.unwrap();
}

/// A large task is worked on apart from the actors' thread, and takes its turns there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_with_a_long_text_takes_its_turn_and_gives_it_back() {
    let finals =
        r#"[{"type":"final","content":"a"},{"type":"final","content":"b"},{"type":"final","content":"c"}]"#;
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .infer(Scripted::from_json(finals).unwrap())
        .infer_policy(InferPolicy::default().rate(1, Duration::from_millis(50)))
        .start()
        .await
        .unwrap();
    let long = || Part::infer("x".repeat(200_000));
    for part in [long(), Part::infer("short"), long()] {
        let task = system.submit(part).await.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(30), task.finished()).await;
        assert_eq!(end.expect("it hangs").unwrap().state(), TaskState::Completed);
    }
    system.shutdown().await.unwrap();
}

/// Each of two calls whose back-off was over took the other's mark away, so that neither ever waited for its turn.
#[tokio::test]
async fn two_retries_that_are_due_wait_for_their_turns_and_the_program_rests_meanwhile() {
    let failures = Arc::new(AtomicU32::new(2));
    let flaky = move |Nth { n }: Nth| {
        let is_left = |left: u32| left.checked_sub(1);
        let fails = failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_left).is_ok();
        std::future::ready(if fails { Err("not yet".to_owned()) } else { Ok(n) })
    };
    let policy = ToolPolicy::read_only().parallel().retries(2).rate(1, SPAN);
    let system = system(move |agent| agent.tool_with("look", "Looks", flaky.clone(), policy.clone()));
    let system = system.await.unwrap();
    let parts = [1, 2].map(|n| Part::tool_call("look", json!({"n": n})).unwrap()).to_vec();
    let mut mint = Ports::default();
    let posted = PostedTask::new(Message::new("user", parts, &mut mint), &mut mint);
    let task = system.submit(posted).await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(60), system.finish(&task)).await;
    assert_eq!(end.expect("it hangs").unwrap().state(), TaskState::Completed);
    assert_eq!(seconds(system.store()), [0, 10, 20, 30]);
    system.shutdown().await.unwrap();
}
