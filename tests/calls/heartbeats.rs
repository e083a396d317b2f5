//! The longest time without progress: an attempt that is silent for longer is timed out, as its mode says, and the log
//! tells this from the time limit of the whole attempt.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::time::Duration;

use proto_events::call::{CallEvent, CallStatus, TimeLimit};
use proto_events::envelope::Timestamp;
use proto_events::id::Version;
use proto_events::json;
use serde::Deserialize;
use taskreel::testing::{TestSystem, sleep, system};
use taskreel::tool::{ToolContext, ToolPolicy, Verdict};
use taskreel::{Error, JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::api::EventReader;
use taskreel_log::audit::{Explanation, explain, verify};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::decode_record;

#[derive(Deserialize, JsonSchema)]
struct Steps {
    /// The number of reports, 20 s apart.
    reports: u32,
    hangs: bool,
}

async fn work(cx: ToolContext, asked: Steps) -> Result<u32, String> {
    for step in 0..asked.reports {
        sleep(Duration::from_secs(20)).await;
        cx.progress(&format!("step {step}"));
    }
    if asked.hangs {
        std::future::pending::<()>().await;
    }
    Ok(asked.reports)
}

/// Runs one call of the tool to its end.
async fn run(policy: ToolPolicy, reports: u32, hangs: bool) -> (TestSystem, TaskSnapshot) {
    let policy = policy.heartbeat(Duration::from_secs(30));
    let system = system(move |agent| agent.tool_with("work", "Works", work, policy.clone())).await.unwrap();
    let task = system.submit(Part::tool_call("work", json!({"reports": reports, "hangs": hangs})).unwrap());
    let task = task.await.unwrap();
    let end = system.finish(&task).await.unwrap();
    (system, end)
}

/// Returns the timeouts in the log: when, after what time, by which limit, and the version.
fn timeouts(store: &MemoryStore, end: &TaskSnapshot) -> Vec<(Timestamp, u64, TimeLimit, Version)> {
    let stream = taskreel::StreamId::task("agent", end.task().id()).unwrap();
    let mut found = Vec::new();
    for stored in &store.read_stream(&stream, Version(1), 1_000).unwrap() {
        for event in decode_record::<proto_events::task::TaskEvent>(stored).unwrap() {
            if let proto_events::task::TaskEvent::Call(CallEvent::TimedOut { after_ms, limit, .. }) =
                event.event
            {
                found.push((event.metadata.at, after_ms, limit, event.version));
            }
        }
    }
    found
}

#[tokio::test]
async fn a_tool_that_reports_in_time_may_work_for_longer_than_its_heartbeat() {
    let (system, end) = run(ToolPolicy::manual().timeout(Duration::from_secs(3_600)), 15, false).await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert!(timeouts(system.store(), &end).is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_silent_attempt_is_timed_out_and_follows_its_mode() {
    let hour = Duration::from_secs(3_600);
    let (system, end) = run(ToolPolicy::manual().timeout(hour), 2, true).await;
    assert_eq!(end.state(), TaskState::InputRequired, "{}", end.to_json());
    let call = end.task().calls().iter().next().unwrap().clone();
    let CallStatus::Unknown(why) = &call.status else { panic!("{call:?}") };
    assert_eq!(why, "attempt 1 reported no progress for 30 s");
    let [(at, 30_000, TimeLimit::Heartbeat, _)] = timeouts(system.store(), &end)[..] else { panic!() };
    // Two reports, the silence, and the grace of a second.
    assert_eq!(at.since(call.sent_at.unwrap()).as_secs(), 20 + 20 + 30 + 1);
    let verified = verify(system.store().as_ref());
    assert!(verified.is_sound(), "{:?}", verified.findings);
    system.shutdown().await.unwrap();
    let (system, end) = run(ToolPolicy::read_only().timeout(hour), 0, true).await;
    assert_eq!((end.state(), timeouts(system.store(), &end).len()), (TaskState::Failed, 4));
    let call = end.task().calls().iter().next().unwrap();
    let CallStatus::Failed(failure) = &call.status else { panic!("{call:?}") };
    assert!(failure.message.contains("attempt 4 reported no progress for 30 s"), "{failure:?}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn explain_says_that_no_progress_was_reported() {
    let probe =
        |_: ToolContext, _: Steps| async { Ok::<_, String>(Verdict::Inconclusive("no record".to_owned())) };
    let (system, end) = run(ToolPolicy::reconcile(probe), 1, true).await;
    let [(.., version)] = timeouts(system.store(), &end)[..] else { panic!() };
    let stream = taskreel::StreamId::task("agent", end.task().id()).unwrap();
    let explained = explain(system.store().as_ref(), &stream, version).unwrap().explanation;
    let Explanation::Task { calls, .. } = explained else { panic!("{explained:?}") };
    let words: Vec<_> = calls.iter().map(|call| call.words.as_str()).collect();
    assert!(words.concat().contains("attempt 1 reported no progress for 30 s"), "{words:?}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_time_limit_of_the_whole_attempt_counts_as_well() {
    let (system, end) = run(ToolPolicy::manual().timeout(Duration::from_secs(70)), 15, false).await;
    let [(_, 70_000, TimeLimit::Attempt, _)] = timeouts(system.store(), &end)[..] else {
        panic!("{:?}", timeouts(system.store(), &end))
    };
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_heartbeat_of_no_time_is_refused_at_the_start() {
    let policy = ToolPolicy::manual().heartbeat(Duration::ZERO);
    let store = std::sync::Arc::new(MemoryStore::new());
    let started = System::builder("-").store(store).tool_with("work", "", work, policy).start().await;
    assert!(matches!(started, Err(Error::Builder(why)) if why.contains("heartbeat")));
}
