//! Functions that are not async as tools: they may block, they may panic, and they cannot be stopped midway.

#![allow(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    clippy::similar_names,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto_events::call::{CallEvent, CallStatus, FailureClass};
use proto_events::codec::AnyEvent;
use proto_events::id::{Position, Version};
use proto_events::json;
use proto_events::json::JsonValue as Value;
use proto_events::task::TaskEvent;
use serde::Deserialize;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, Part, System, TaskHandle, TaskSnapshot, TaskState};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use taskreel_log::views::event_rows;

#[derive(Deserialize, JsonSchema)]
struct Ask {
    city: String,
}

fn shout(ask: Ask) -> Result<String, Infallible> {
    Ok(ask.city.to_uppercase())
}

fn number(ask: Ask) -> Result<u8, std::num::ParseIntError> {
    ask.city.parse()
}

fn who(cx: ToolContext, ask: Ask) -> Result<String, ToolError> {
    if ask.city.is_empty() { Err(ToolError::arguments("which city?")) } else { Ok(cx.task_id().to_owned()) }
}

fn system() -> Builder {
    System::builder("-").store(Arc::new(MemoryStore::new()))
}

async fn send(system: &System, tool: &str, city: &str) -> TaskHandle {
    system.submit(Part::tool_call(tool, json!({"city": city})).unwrap()).await.unwrap()
}

async fn call(system: &System, tool: &str, city: &str) -> TaskSnapshot {
    send(system, tool, city).await.finished().await.unwrap()
}

fn status(task: &TaskSnapshot) -> CallStatus {
    task.task().calls().iter().next().unwrap().status.clone()
}

fn result(task: &TaskSnapshot) -> Value {
    match status(task) {
        CallStatus::Succeeded(result) => result.tree(),
        other => panic!("{other:?}"),
    }
}

fn failure(task: &TaskSnapshot) -> (FailureClass, String, String) {
    match status(task) {
        CallStatus::Failed(failure) => (failure.class, failure.error_type, failure.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn functions_and_closures_of_both_shapes_are_tools() {
    let system = system()
        .tool("shout", "Says it loudly", shout)
        .tool("number", "Reads a number", number)
        .tool("who", "Names the task", who)
        .tool("length", "Counts letters", |ask: Ask| Ok::<_, Infallible>(ask.city.len()))
        .tool("attempt", "Counts attempts", |cx: ToolContext, _: Ask| Ok::<_, Infallible>(cx.attempt()))
        .start()
        .await
        .unwrap();
    assert_eq!(result(&call(&system, "shout", "Oslo").await), "OSLO");
    assert_eq!(result(&call(&system, "number", "7").await), 7);
    let asked = send(&system, "who", "Oslo").await;
    assert_eq!(result(&asked.finished().await.unwrap()), asked.id());
    assert_eq!(result(&call(&system, "length", "Oslo").await), 4);
    assert_eq!(result(&call(&system, "attempt", "Oslo").await), 1);
    let (class, kind, words) = failure(&call(&system, "number", "x").await);
    assert_eq!((class, kind.as_str()), (FailureClass::AfterEffect, "ParseIntError"));
    assert_eq!(words, "invalid digit found in string");
    let (class, _, words) = failure(&call(&system, "who", "").await);
    assert_eq!((class, words.as_str()), (FailureClass::Rejected, "which city?"));
    system.shutdown().await.unwrap();
}

/// Returns a tool that blocks its thread until it receives a word.
fn blocked(told: Receiver<String>) -> impl Fn(Ask) -> Result<String, Infallible> + Send + Sync + 'static {
    let told = Mutex::new(told);
    move |_| Ok(told.lock().unwrap().recv().unwrap())
}

/// Checks that a blocking tool does not take the single thread of this test's runtime.
#[tokio::test]
async fn a_function_that_blocks_blocks_nobody_else() {
    let (tell, told) = channel();
    let system =
        system().tool("wait", "Waits", blocked(told)).tool("shout", "Is loud", shout).start().await.unwrap();
    let waiting = send(&system, "wait", "Oslo").await;
    assert_eq!(result(&call(&system, "shout", "Oslo").await), "OSLO");
    tell.send("go on".to_owned()).unwrap();
    assert_eq!(result(&waiting.finished().await.unwrap()), "go on");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_panic_is_a_failure_and_the_system_goes_on() {
    fn broken(ask: Ask) -> Result<(), Infallible> {
        panic!("no {}", ask.city)
    }
    let system =
        system().tool("broken", "Panics", broken).tool("shout", "Is loud", shout).start().await.unwrap();
    let (class, kind, words) = failure(&call(&system, "broken", "Oslo").await);
    assert_eq!((class, kind.as_str()), (FailureClass::AfterEffect, "panic"));
    assert_eq!(words, "broken panicked: no Oslo");
    assert_eq!(result(&call(&system, "shout", "Oslo").await), "OSLO");
    system.shutdown().await.unwrap();
}

/// Returns a tool that signals its begin, and continues only on a signal, even if its caller has given up.
fn stubborn(
    began: Sender<()>,
    told: Receiver<()>,
) -> impl Fn(ToolContext, Ask) -> Result<bool, ToolError> + Send + Sync + 'static {
    let (began, told) = (Mutex::new(began), Mutex::new(told));
    move |cx, _| {
        began.lock().unwrap().send(()).unwrap();
        told.lock().unwrap().recv().unwrap();
        // A cancel is acknowledged first, and then passed to the tool.
        let until = Instant::now() + Duration::from_secs(60);
        while !cx.cancellation().is_canceled() && Instant::now() < until {
            std::thread::yield_now();
        }
        cx.state().put("k", "too late", Version(0))?;
        Ok(cx.cancellation().is_canceled())
    }
}

/// Waits until the task's stream has the event.
async fn until(reader: &dyn EventReader, wanted: impl Fn(&CallEvent) -> bool) -> CallEvent {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let all = reader.read_all(Position(1), usize::MAX).unwrap();
            for row in all.iter().flat_map(event_rows) {
                if let Ok(AnyEvent::Task(TaskEvent::Call(event))) = row.event
                    && wanted(&event)
                {
                    return event;
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.expect("the event comes")
}

#[tokio::test]
async fn what_a_canceled_function_answers_is_kept_as_late() {
    let ((begin, began), (tell, told)) = (channel(), channel());
    let system = system().tool("stubborn", "Goes on", stubborn(begin, told)).start().await.unwrap();
    let task = send(&system, "stubborn", "Oslo").await;
    tokio::task::spawn_blocking(move || began.recv().unwrap()).await.unwrap();
    task.cancel(Some("enough")).await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Canceled);
    tell.send(()).unwrap();
    let late =
        until(system.log().as_ref(), |event| matches!(event, CallEvent::LateResultIgnored { .. })).await;
    let CallEvent::LateResultIgnored { succeeded, said, .. } = late else { panic!() };
    assert!(succeeded);
    assert_eq!(said, "true", "it was told that nobody waits");
    assert!(system.tool_state("stubborn").await.unwrap().is_empty(), "what it wrote is not kept");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_a_function_answers_after_its_time_is_kept_as_late_too() {
    let ((begin, began), (tell, told)) = (channel(), channel());
    let policy = ToolPolicy::manual().timeout(Duration::from_millis(20));
    let system =
        system().tool_with("stubborn", "Goes on", stubborn(begin, told), policy).start().await.unwrap();
    let task = send(&system, "stubborn", "Oslo").await;
    tokio::task::spawn_blocking(move || began.recv().unwrap()).await.unwrap();
    assert_eq!(task.finished().await.unwrap().state(), TaskState::InputRequired);
    tell.send(()).unwrap();
    until(system.log().as_ref(), |event| {
        matches!(event, CallEvent::LateResultIgnored { succeeded: true, .. })
    })
    .await;
    let after = task.snapshot().await.unwrap();
    assert!(matches!(status(&after), CallStatus::Unknown(_)), "a late answer is evidence, not an outcome");
    system.shutdown().await.unwrap();
}
