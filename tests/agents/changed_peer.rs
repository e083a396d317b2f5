//! An agent that is asked by another one, and whose own definition has changed: the one that asks gets the answer, and not
//! the state in which the task waits for a person.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Arc;

use crate::host::Host;
use proto_events::call::{CallKind, CallStatus};
use proto_events::json;
use taskreel::infer::{Entry, Scripted};
use taskreel::{Part, System, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::memory::MemoryStore;

fn asks() -> Scripted {
    let question = json!({"type": "agent_call", "agent": "other", "action": "infer", "prompt": "Coat?"});
    Scripted::new([Entry::json(&question), Entry::json(&json!({"type": "final", "content": "done"}))])
}

async fn both(host: &Arc<Host>, own: Arc<MemoryStore>, others: Arc<MemoryStore>) -> (System, System) {
    let builder = System::builder("-").store(others as Arc<dyn EventStore>).name("other");
    let other = host.describe(builder).start().await.unwrap();
    let builder = System::builder("-").store(own as Arc<dyn EventStore>).stateless().infer(asks());
    (builder.peer(other.peer()).start().await.unwrap(), other)
}

#[tokio::test]
async fn an_agent_that_asked_waits_until_the_other_ones_task_is_over() {
    let (host, own, others) = (Host::new(), Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let (first, _other) = both(&host, Arc::clone(&own), Arc::clone(&others)).await;
    let task = first.submit(Part::infer("go")).await.unwrap();
    while host.requests() == 0 {
        tokio::task::yield_now().await;
    }
    // Both programs die and start again; the other agent has changed meanwhile.
    host.change();
    host.let_go();
    let (own, others) = (own.reopened().unwrap(), Arc::new(others.reopened().unwrap()));
    let (again, other) = both(&host, Arc::new(own), Arc::clone(&others)).await;
    let asked = others.list_streams("task-", None, 2).unwrap().remove(0).stream.id();
    let asked = other.task(&asked).unwrap();
    let held = asked.finished().await.unwrap();
    assert!(held.task().is_held());
    let task = again.task(task.id()).unwrap();
    for _ in 0..200 {
        // Each is a round trip to the actors, in which an answer that came too early would arrive.
        assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Working);
    }
    let (approval, _) = held.task().changed_agent().unwrap();
    asked.approve(&approval.request.approval_id, "ada").await.unwrap();
    let done = task.finished().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed, "{:?}", done.task().error());
    let call = done.task().calls().iter().find(|call| call.request.kind == CallKind::Delegate).unwrap();
    let CallStatus::Succeeded(answer) = &call.status else { panic!("{:?}", call.status) };
    assert!(answer.as_str().contains("\"completed\"") && answer.as_str().contains("\"ok\""), "{answer}");
    again.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}
