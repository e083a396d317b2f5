//! Outputs are attached as each part ends: a run of thousands of parts ends, a cancel keeps what was done, and a run
//! that goes on after a crash pays for no part twice.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proto_events::json;
use proto_events::model::{Message, PostedTask};
use serde::Deserialize;
use taskreel::limits::{EVENTS_TOGETHER, PARALLEL_CALLS_MAX};
use taskreel::tool::ToolPolicy;
use taskreel::{JsonSchema, Part, System, TaskHandle, TaskState, Version};
use taskreel_log::api::EventReader as _;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Nth {
    n: u32,
}

/// A tool that hangs at one of its calls, and counts its calls.
#[derive(Clone, Default)]
struct Purse {
    calls: Arc<AtomicU32>,
    hangs_at: Option<u32>,
    hangs: Arc<Notify>,
}

async fn started(store: Arc<MemoryStore>, purse: &Purse, policy: ToolPolicy) -> System {
    let purse = purse.clone();
    let pay = move |asked: Nth| {
        purse.calls.fetch_add(1, Ordering::SeqCst);
        let (hangs, told) = (purse.hangs_at == Some(asked.n), Arc::clone(&purse.hangs));
        async move {
            if hangs {
                told.notify_one();
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(asked.n)
        }
    };
    System::builder("-").store(store).tool_with("pay", "Pays", pay, policy).start().await.unwrap()
}

fn posted(parts: u32) -> PostedTask {
    let parts = (0..parts).map(|n| Part::tool_call("pay", json!({"n": n})).unwrap()).collect();
    let mut mint = Ports::default();
    PostedTask::new(Message::new("user", parts, &mut mint), &mut mint)
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("the run ends")
}

/// Returns the results that the task's outputs hold, in their order.
async fn results(task: &TaskHandle) -> Vec<u64> {
    let snapshot = task.snapshot().await.unwrap();
    let parts = snapshot.task().artifacts().iter().flat_map(|artifact| &artifact.parts);
    parts.map(|part| part.content().tree()["result"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_task_of_thousands_of_parts_ends_with_an_output_of_each() {
    run_of(ToolPolicy::read_only().parallel(), 2_000).await;
}

/// Runs a task of so many parts, and returns the time that it took.
async fn run_of(policy: ToolPolicy, parts: u32) -> Duration {
    let (store, purse) = (Arc::new(MemoryStore::new()), Purse::default());
    let system = started(Arc::clone(&store), &purse, policy).await;
    let began = Instant::now();
    let task = system.submit(posted(parts)).await.unwrap();
    let end = within(task.finished()).await.unwrap();
    let took = began.elapsed();
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    assert_eq!(results(&task).await, (0..u64::from(parts)).collect::<Vec<_>>());
    assert_eq!(purse.calls.load(Ordering::SeqCst), parts);
    system.shutdown().await.unwrap();
    took
}

#[tokio::test]
async fn a_task_of_twice_as_many_parts_takes_about_twice_the_time() {
    let mut tried = Vec::new();
    // The machine may be busy with something else for a while.
    for _ in 0..2 {
        let (half, whole) =
            (run_of(ToolPolicy::manual(), 1_000).await, run_of(ToolPolicy::manual(), 2_000).await);
        if whole < 3 * half {
            return;
        }
        tried.push((half, whole));
    }
    panic!("1,000 and 2,000 parts took {tried:?}");
}

#[tokio::test]
async fn a_cancel_keeps_the_outputs_of_the_parts_that_had_ended() {
    for policy in [ToolPolicy::manual(), ToolPolicy::read_only().parallel()] {
        let open = if policy.is_parallel() { u32::try_from(PARALLEL_CALLS_MAX).unwrap() } else { 1 };
        let purse = Purse { hangs_at: Some(900), ..Purse::default() };
        let system = started(Arc::new(MemoryStore::new()), &purse, policy).await;
        let task = system.submit(posted(1_000)).await.unwrap();
        purse.hangs.notified().await;
        task.cancel(Some("enough")).await.unwrap();
        let end = within(task.finished()).await.unwrap();
        assert_eq!(end.state(), TaskState::Canceled);
        let kept = results(&task).await;
        let least = 900 - open as usize;
        assert!((least..=900).contains(&kept.len()), "{} of 900 outputs are kept", kept.len());
        assert_eq!(kept, (0..kept.len() as u64).collect::<Vec<_>>(), "in the order of the parts");
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn the_output_of_a_part_is_there_while_the_parallel_parts_beside_it_still_run() {
    let purse = Purse { hangs_at: Some(2), ..Purse::default() };
    let policy = ToolPolicy::read_only().parallel();
    let system = started(Arc::new(MemoryStore::new()), &purse, policy).await;
    let task = system.submit(posted(4)).await.unwrap();
    let attached = async {
        while results(&task).await.len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    within(attached).await;
    task.cancel(None).await.unwrap();
    assert_eq!(results(&task).await, [0, 1], "those before the part that hangs, in the order of the parts");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_start_after_a_crash_goes_on_behind_the_last_output() {
    let store = Arc::new(MemoryStore::new());
    let purse = Purse { hangs_at: Some(700), ..Purse::default() };
    let system = started(Arc::clone(&store), &purse, ToolPolicy::read_only()).await;
    let task = system.submit(posted(1_500)).await.unwrap();
    purse.hangs.notified().await;
    let store = Arc::new(store.reopened().unwrap());
    let after = Purse::default();
    let second = started(store, &after, ToolPolicy::read_only()).await;
    let again = second.task(task.id()).unwrap();
    let end = within(again.finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    assert_eq!(results(&again).await, (0..1_500).collect::<Vec<_>>());
    assert_eq!(after.calls.load(Ordering::SeqCst), 800, "the lost call and those that had not begun");
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_message_with_more_parts_than_a_run_carries_out_is_refused_when_it_is_posted() {
    let purse = Purse::default();
    let system = started(Arc::new(MemoryStore::new()), &purse, ToolPolicy::read_only()).await;
    let error = system.submit(posted(100_001)).await.unwrap_err();
    assert!(error.to_string().contains("100001 parts; at most 100000"), "{error}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_one_command_leads_to_is_written_in_pieces_of_a_bounded_size() {
    let store = Arc::new(MemoryStore::new());
    let system = System::builder("-").store(Arc::clone(&store) as _).start().await.unwrap();
    // No tool of this name: each part has its output at once, and nothing is waited for.
    let task = system.submit(posted(3_000)).await.unwrap();
    let end = within(task.finished()).await.unwrap();
    assert_eq!(end.task().artifacts().len(), 3_000, "{:?}", end.task().error());
    let records = store.read_stream(task.stream(), Version(1), usize::MAX).unwrap();
    let largest = records.iter().map(|stored| stored.record.events.len()).max().unwrap();
    assert!(largest <= EVENTS_TOGETHER + 8, "a record with {largest} events");
    system.shutdown().await.unwrap();
}
