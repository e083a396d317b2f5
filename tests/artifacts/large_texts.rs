//! Large replies and results are read apart from the actors' thread: all tasks share that thread, and none may keep it
//! for the time that a text of many megabytes takes. The proof: the threads of the runtime for calls that may block are
//! all taken, so that the large text cannot be read, and other tasks go on.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use proto_events::call::CallStatus;
use proto_events::id::{StreamId, Version};
use proto_events::json;
use proto_events::task::{Task, TaskEvent};
use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest, LlmRole};
use taskreel::limits::ERROR_TEXT_BYTES;
use taskreel::{BoxFuture, JsonSchema, Part, System, TaskState};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::{decode_record, fold_stream};
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The arguments of a tool.
#[derive(Deserialize, JsonSchema)]
struct Number {
    n: u8,
}

const LARGE: usize = 4 * 1024 * 1024;

/// A model that returns one long answer, and tells when it does.
struct Long(Arc<Notify>);

impl InferBackend for Long {
    fn backend(&self) -> &'static str {
        "long"
    }

    fn model(&self) -> &'static str {
        "long-1"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let told = Arc::clone(&self.0);
        Box::pin(async move {
            let content = json!({"type": "final", "content": "x".repeat(LARGE)}).to_string();
            told.notify_one();
            Ok(InferReply { content, model: "long-1".to_owned(), ..InferReply::default() })
        })
    }
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it hangs")
}

fn outcome(store: &MemoryStore, id: &str) -> CallStatus {
    let stream = StreamId::task("agent", id).unwrap();
    let task = fold_stream::<Task>(store, &stream, None::<Version>).unwrap().state;
    task.calls().iter().next().unwrap().status.clone()
}

#[tokio::test]
async fn while_a_large_text_waits_to_be_read_the_actors_thread_is_free() {
    for large in [Part::infer("go"), Part::tool_call("long", json!({})).unwrap()] {
        let calls = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (begun, store) = (Arc::new(Notify::new()), Arc::new(MemoryStore::new()));
        let told = Arc::clone(&begun);
        let long = move |_: Nothing| {
            told.notify_one();
            async { Ok::<_, Infallible>("x".repeat(LARGE)) }
        };
        let quick = |_: Nothing| async { Ok::<_, Infallible>("done") };
        let builder = System::builder("-").store(store.clone()).calls_on(calls.handle().clone());
        let builder = builder.stateless().infer(Long(Arc::clone(&begun))).tool("long", "Long", long);
        let system = builder.tool("quick", "Quick", quick).start().await.unwrap();

        let (release, held) = mpsc::channel::<()>();
        let blocked = calls.spawn_blocking(move || held.recv());
        let task = system.submit(large).await.unwrap();
        soon(begun.notified()).await;
        for _ in 0..20 {
            let other = system.submit(Part::tool_call("quick", json!({})).unwrap()).await.unwrap();
            assert_eq!(soon(other.finished()).await.unwrap().state(), TaskState::Completed);
        }
        assert!(
            matches!(outcome(&store, task.id()), CallStatus::Dispatched),
            "the text was read on the actors' thread"
        );

        release.send(()).unwrap();
        let end = soon(task.finished()).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed);
        assert!(end.answer().unwrap().as_str().len() > LARGE);
        blocked.await.unwrap().unwrap();
        system.shutdown().await.unwrap();
        calls.shutdown_background();
    }
}

/// A model that always returns this.
struct Says(String);

impl InferBackend for Says {
    fn backend(&self) -> &'static str {
        "says"
    }

    fn model(&self) -> &'static str {
        "says-1"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let content = self.0.clone();
        Box::pin(
            async move { Ok(InferReply { content, model: "says-1".to_owned(), ..InferReply::default() }) },
        )
    }
}

/// Returns an object with this many fields.
fn many(fields: usize) -> String {
    let fields: Vec<String> = (0..fields).map(|n| format!(r#""an unknown field number {n}":1"#)).collect();
    format!("{{{}}}", fields.join(","))
}

/// Returns the length of the longest text that the model was told in a task, its own words apart.
fn longest_note(store: &MemoryStore, id: &str) -> usize {
    let stream = StreamId::task("agent", id).unwrap();
    let records = store.read_stream(&stream, Version(1), usize::MAX).unwrap();
    let events = records.iter().flat_map(|record| decode_record::<TaskEvent>(record).unwrap());
    let lengths = events.filter_map(|recorded| match recorded.event {
        TaskEvent::InferMessageAppended(said) if said.message.role != LlmRole::Assistant => {
            Some(said.message.content.len())
        }
        _ => None,
    });
    lengths.max().unwrap()
}

#[tokio::test]
async fn the_error_about_a_large_reply_is_cut_whatever_is_wrong_with_it() {
    let action = |rest: &str| format!(r#"{{"type":"tool_call","tool":"quick",{rest}"#);
    let long = "x".repeat(200_000);
    for (wrong, reply) in [
        ("unknown fields of the action", action(many(5_000).trim_start_matches('{'))),
        ("unknown arguments", action(&format!(r#""args":{}}}"#, many(5_000)))),
        ("an argument with a long name", action(&format!(r#""args":{{"{long}":1}}}}"#))),
        ("a wrong value", action(&format!(r#""args":{{"n":"{long}"}}}}"#))),
        ("an unknown tool", format!(r#"{{"type":"tool_call","tool":"{long}","args":{{}}}}"#)),
        (
            "an unknown agent",
            format!(r#"{{"type":"agent_call","agent":"{long}","action":"infer","prompt":"p"}}"#),
        ),
        ("an unknown type", format!(r#"{{"type":"{long}"}}"#)),
        ("no action", long.clone()),
    ] {
        let quick = |asked: Number| async move { Ok::<_, Infallible>(asked.n) };
        let store = Arc::new(MemoryStore::new());
        let builder = System::builder("-").store(store.clone()).stateless().delegation(true);
        let system = builder.infer(Says(reply)).tool("quick", "Quick", quick).start().await.unwrap();
        let end = soon(system.submit(Part::infer("go")).await.unwrap().finished()).await.unwrap();
        assert_eq!(end.state(), TaskState::Failed, "{wrong}");
        let error = end.task().error().unwrap();
        assert!(error.len() < 2 * ERROR_TEXT_BYTES, "{wrong}: {}", error.len());
        let longest = longest_note(&store, end.task().id());
        assert!(longest < 2 * ERROR_TEXT_BYTES, "{wrong}: {longest}");
        soon(system.shutdown()).await.unwrap();
    }
}
