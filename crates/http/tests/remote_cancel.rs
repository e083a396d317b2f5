//! A canceled task cancels what it has asked of an agent elsewhere, and is canceled though that agent cannot be told.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::Arc;

use proto_events::json;
use proto_events::model::AgentCard;
use support::{Host, PATIENCE, actix, builder, with_tools};
use taskreel::infer::{Entry, Scripted};
use taskreel::{Part, System, TaskState};
use taskreel_http::Protolink;
use taskreel_http::protolink::{Client, Remote};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;

/// Returns an agent elsewhere, and a system whose model asks it for what takes a minute.
async fn asking() -> (System, Host, System) {
    let far = System::builder("in memory").store(Arc::new(MemoryStore::new())).name("far");
    let far = with_tools(far).start().await.unwrap();
    let host = actix(Arc::new(Protolink::new(far.clone()))).await;
    let card = AgentCard { url: format!("http://{}", host.address), ..far.card() };
    let remote = Remote::with_card(&Client::new().unwrap().timeout(PATIENCE), card);
    let ask = json!({"type": "agent_call", "agent": "far", "action": "tool_call", "tool": "slow", "args": {"ms": 60_000}});
    let near = builder().infer(Scripted::new([Entry::json(&ask)])).peer(remote).start().await.unwrap();
    (far, host, near)
}

/// Waits for the one task of an agent, in this state.
async fn only_task(system: &System, state: TaskState) -> String {
    let found = async {
        loop {
            let page = system.tasks().in_state(state).page(9).await.unwrap();
            if let Some(task) = page.tasks.first() {
                return task.id.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no task is ever {state}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_task_cancels_its_child_on_another_machine() {
    let (far, host, near) = asking().await;
    let task = near.submit(Part::infer("q")).await.unwrap();
    let child = only_task(&far, TaskState::Working).await;
    near.cancel(task.id(), Some("enough")).await.unwrap();
    assert_eq!(only_task(&far, TaskState::Canceled).await, child);
    assert_eq!(task.finished().await.unwrap().state(), TaskState::Canceled);
    host.stop().await;
    for system in [near, far] {
        assert!(verify(system.log().as_ref()).is_sound());
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_canceled_though_the_agent_that_it_asked_is_gone() {
    let (far, host, near) = asking().await;
    let task = near.submit(Part::infer("q")).await.unwrap();
    let child = only_task(&far, TaskState::Working).await;
    host.stop().await;
    near.cancel(task.id(), Some("enough")).await.unwrap();
    let ended = task.finished().await;
    assert!(ended.as_ref().is_ok_and(|task| task.state() == TaskState::Canceled), "{ended:?}");
    far.cancel(&child, None).await.unwrap();
    for system in [near, far] {
        assert!(verify(system.log().as_ref()).is_sound());
        system.shutdown().await.unwrap();
    }
}
