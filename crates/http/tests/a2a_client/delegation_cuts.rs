//! Questions to an agent elsewhere whose connection is cut after any number of bytes: the end is that of a question whose
//! connection holds, and the agent has one task for each. `TASKREEL_A2A_CUTS` sets the number of runs.

use std::sync::Arc;

use proto_events::call::{CallKind, CallStatus};
use taskreel::infer::{Entry, Scripted};
use taskreel::{Part, System, TaskState};
use taskreel_log::memory::MemoryStore;

use crate::ours::handler;
use crate::relays::{Relay, relay};
use crate::remote::{near, stop};
use crate::support::actix;

/// The runs for each make of agent, unless another number is set.
const RUNS: usize = 12;

/// Starts an agent whose model answers each prompt with one call.
async fn thinking() -> System {
    let answer = Entry::Text(r#"{"type": "final", "content": "the sun shines"}"#.to_owned());
    let builder = System::builder("in memory").store(Arc::new(MemoryStore::new())).name("far");
    builder.infer(Scripted::new(vec![answer; 1_000])).start().await.unwrap()
}

/// Asks the agent, and returns how that ended.
async fn asked(relay: &Relay) -> String {
    let store = Arc::new(MemoryStore::new());
    let near = near(&store, &relay.url, "weather?").start().await.unwrap();
    let task = near.submit(Part::infer("q")).await.unwrap();
    let ended = task.finished().await.unwrap();
    let calls: Vec<_> = ended.task().calls().iter().collect();
    let inferences = calls.iter().filter(|call| call.request.kind == CallKind::Infer);
    let inferences: u32 = inferences.map(|call| call.attempts).sum();
    let asked: Vec<_> = calls.iter().filter(|call| call.request.kind == CallKind::Delegate).collect();
    assert_eq!(asked.len(), 1);
    let answer = match &asked[0].status {
        CallStatus::Succeeded(answer) => answer.to_string(),
        other => format!("{other:?}"),
    };
    let answer = answer.split(",\"used\"").next().unwrap().to_owned();
    stop([near]).await;
    format!("{} after {inferences} model calls: {answer}", ended.state())
}

async fn cut_anywhere(foreign: bool) {
    let far = thinking().await;
    let host = actix(handler(&far)).await;
    let relay = relay(host.address, foreign).await;
    let whole = asked(&relay).await;
    assert!(
        whole.starts_with("completed after 2 model calls") && whole.contains("the sun shines"),
        "{whole}"
    );
    let bytes = relay.cut.lock().unwrap().seen;
    let runs = std::env::var("TASKREEL_A2A_CUTS").map_or(RUNS, |runs| runs.parse().unwrap());
    let mut cut = 0;
    for run in 0..runs {
        relay.cut.lock().unwrap().after = Some(1 + run * bytes / runs);
        assert_eq!(asked(&relay).await, whole, "run {run} of {runs}");
        cut += usize::from(relay.cut.lock().unwrap().after.take().is_none());
    }
    assert!(cut >= runs * 9 / 10, "only {cut} of {runs} connections were cut");
    let there = tasks_of(&far).await;
    assert_eq!(there, runs + 1, "one task for each question");
    host.stop().await;
    stop([far]).await;
}

/// Returns the number of tasks, each of which has ended after one call of the model.
async fn tasks_of(far: &System) -> usize {
    let mut count = 0;
    let mut next = None;
    loop {
        let mut query = far.tasks();
        if let Some(cursor) = next.take() {
            query = query.after(cursor);
        }
        let page = query.page(100).await.unwrap();
        for task in &page.tasks {
            let snapshot = far.task(&task.id).unwrap().snapshot().await.unwrap();
            assert_eq!(snapshot.state(), TaskState::Completed);
            let calls: Vec<u32> = snapshot.task().calls().iter().map(|call| call.attempts).collect();
            assert_eq!(calls, [1], "one call of the model, once");
            count += 1;
        }
        next = page.next;
        if next.is_none() {
            return count;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_one_of_our_agents_ends_the_same_wherever_its_connection_is_cut() {
    cut_anywhere(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_an_agent_of_any_make_ends_the_same_wherever_its_connection_is_cut() {
    cut_anywhere(true).await;
}
