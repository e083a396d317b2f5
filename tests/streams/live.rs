//! The view of a task's subscriber: the pieces of an answer as they arrive, the progress of a tool, and the
//! run as Protolink streams it, without gap or repeat at any time of subscribing.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::live_support::{all, names, posted};
use proto_events::call::TokenUsage;
use proto_events::id::{Position, Version};
use proto_events::json;
use proto_events::json::JsonValue as Value;
use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use taskreel::limits::LIVE_BUFFER;
use taskreel::tool::{BoxFuture, ToolContext};
use taskreel::{JsonSchema, Live, Part, System, TaskState, TaskStreamEvent, TaskStreamPayload};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use tokio::sync::Semaphore;

const ANSWER: &str = r#"{"type":"final","content":"wear the long coat"}"#;

/// A model that returns its answer in pieces, one for each permit, and ends with one more. `fails` attempts
/// break off before their end.
#[derive(Clone)]
struct Pieces {
    size: usize,
    permits: Arc<Semaphore>,
    fails: u32,
}

impl Pieces {
    fn of(size: usize, permits: usize) -> Self {
        Self { size, permits: Arc::new(Semaphore::new(permits)), fails: 0 }
    }
}

impl InferBackend for Pieces {
    fn backend(&self) -> &'static str {
        "pieces"
    }

    fn model(&self) -> &'static str {
        "p-1"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let pieces = self.clone();
        Box::pin(async move {
            let breaks_off = request.attempt <= pieces.fails;
            for (at, piece) in ANSWER.as_bytes().chunks(pieces.size).enumerate() {
                pieces.permits.acquire().await.unwrap().forget();
                request.deltas.say(std::str::from_utf8(piece).unwrap());
                if breaks_off && at == 1 {
                    let retry_after = Some(Duration::from_millis(1));
                    return Err(InferError::new(InferErrorKind::Transient { retry_after }, "Cut", "cut off"));
                }
            }
            pieces.permits.acquire().await.unwrap().forget();
            let usage = Some(TokenUsage { input_tokens: 7, output_tokens: 5 });
            Ok(InferReply {
                content: ANSWER.to_owned(),
                usage,
                model: "p-1".to_owned(),
                ..InferReply::default()
            })
        })
    }
}

async fn system(model: impl InferBackend) -> (System, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    (System::builder("-").store(store.clone()).stateless().infer(model).start().await.unwrap(), store)
}

fn chunks(events: &[TaskStreamEvent]) -> Vec<String> {
    let chunk = |event: &TaskStreamEvent| match &event.payload {
        TaskStreamPayload::Llm { kind, content, .. } if kind == "llm_chunk" => content.clone(),
        _ => None,
    };
    events.iter().filter_map(chunk).collect()
}

/// Returns the next event that is no piece of the answer within the reply.
async fn piece(live: &mut taskreel::LiveFeed) -> Live {
    loop {
        let heard = live.next().await.unwrap();
        if !matches!(heard, Live::Answer { .. }) {
            return heard;
        }
    }
}

#[tokio::test]
async fn pieces_of_an_answer_are_heard_while_it_comes_in_and_the_log_has_one_event() {
    let model = Pieces::of(20, 2);
    let (system, store) = system(model.clone()).await;
    let task = system.task("t").unwrap();
    let mut live = task.live();
    system.submit(posted("t", &Part::infer("Coat?"))).await.unwrap();
    assert!(matches!(live.next().await.unwrap(), Live::Began { attempt: 1, .. }));
    let mut heard = String::new();
    for _ in 0..2 {
        let Live::Delta { at, text, attempt: 1, .. } = piece(&mut live).await else { panic!("a piece") };
        assert_eq!(at, heard.len());
        heard.push_str(&text);
    }
    assert_eq!(heard, ANSWER[..40], "two pieces are heard while the model still speaks");
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Working);
    model.permits.add_permits(9);
    task.finished().await.unwrap();
    while let Live::Delta { text, .. } = piece(&mut live).await {
        heard.push_str(&text);
        if heard.len() == ANSWER.len() {
            break;
        }
    }
    assert_eq!(heard, ANSWER);
    let records = store.read_all(Position(1), 100).unwrap();
    let outcomes = records.iter().flat_map(|record| &record.record.events);
    assert_eq!(outcomes.filter(|event| event.kind == 202).count(), 1, "the answer is one event");
    system.shutdown().await.unwrap();
    while let Some(live) = live.next().await {
        assert!(matches!(live, Live::Answer { .. }), "a feed ends with its system: {live:?}");
    }
}

#[tokio::test]
async fn a_stream_that_is_taken_while_the_answer_comes_in_has_all_of_it_once() {
    let model = Pieces::of(7, 3);
    let (system, _) = system(model.clone()).await;
    let early = system.task("t").unwrap().events().await.unwrap();
    let mut probe = system.task("t").unwrap().live();
    let task = system.submit(posted("t", &Part::infer("Coat?"))).await.unwrap();
    for _ in 0..4 {
        probe.next().await.unwrap();
    }
    let late = task.events().await.unwrap();
    model.permits.add_permits(99);
    let early = all(early).await;
    let late = all(late).await;
    let after = all(task.events().await.unwrap()).await;
    for events in [&early, &late, &after] {
        assert_eq!(chunks(events).concat(), ANSWER);
        assert!(events.last().unwrap().is_last());
    }
    assert_eq!(
        chunks(&early).len(),
        ANSWER.len().div_ceil(7),
        "who was there from the start has every piece"
    );
    assert_eq!(chunks(&late).len(), 1, "who came in the middle waits for the whole");
    let durable = |events: &[TaskStreamEvent]| -> Vec<Value> {
        let durable = events.iter().filter(
            |event| !matches!(&event.payload, TaskStreamPayload::Llm { kind, .. } if kind == "llm_chunk"),
        );
        durable.map(|event| event.to_json().tree()).collect()
    };
    assert_eq!(durable(&early), durable(&after), "ids and times included");
    assert_eq!(durable(&late), durable(&after));
    let usage =
        &durable(&after).into_iter().find(|event| event["llm_event_type"] == "llm_call_metrics").unwrap();
    assert_eq!(usage["metadata"]["usage"]["total_tokens"], 12);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_listener_that_is_too_slow_is_told_and_its_stream_still_has_the_whole_answer() {
    let (system, _) = system(Long).await;
    let (mut live, events) =
        (system.task("t").unwrap().live(), system.task("t").unwrap().events_after(Version(0)));
    let task = system.submit(posted("t", &Part::infer("Coat?"))).await.unwrap();
    task.finished().await.unwrap();
    let Live::Lost { pieces } = live.next().await.unwrap() else { panic!("it was slow") };
    let said = 1 + Long::answer().len().div_ceil(Long::PIECE_BYTES);
    assert!(
        pieces >= (said - LIVE_BUFFER) as u64,
        "all but the newest, of the reply and of the answer in it"
    );
    let events = all(events).await;
    assert_eq!(chunks(&events).concat(), Long::answer());
    system.shutdown().await.unwrap();
}

/// A model that returns a long answer without waiting.
struct Long;

impl Long {
    const PIECE_BYTES: usize = 4;

    fn answer() -> String {
        json!({"type": "final", "content": "la ".repeat(2 * LIVE_BUFFER)}).to_string()
    }
}

impl InferBackend for Long {
    fn backend(&self) -> &'static str {
        "long"
    }

    fn model(&self) -> &'static str {
        "l-1"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        Box::pin(async move {
            let answer = Self::answer();
            for piece in answer.as_bytes().chunks(Self::PIECE_BYTES) {
                request.deltas.say(std::str::from_utf8(piece).unwrap());
            }
            Ok(InferReply { content: answer, model: "l-1".to_owned(), ..InferReply::default() })
        })
    }
}

#[tokio::test]
async fn a_new_attempt_takes_back_the_pieces_of_the_one_before() {
    let model = Pieces { fails: 1, ..Pieces::of(10, 99) };
    let (system, _) = system(model).await;
    let mut live = system.task("t").unwrap().live();
    let events = system.task("t").unwrap().events().await.unwrap();
    let task = system.submit(posted("t", &Part::infer("Coat?"))).await.unwrap();
    task.finished().await.unwrap();
    let events = all(events).await;
    let retry = names(&events).iter().position(|name| *name == "llm_retry").expect("a retry is told");
    let (before, behind) = events.split_at(retry);
    assert_eq!(chunks(before).concat(), ANSWER[..20]);
    assert_eq!(chunks(behind).concat(), ANSWER, "the second attempt's pieces begin anew");
    let mut attempts = Vec::new();
    while attempts.last() != Some(&2) {
        if let Live::Began { attempt, .. } = live.next().await.unwrap() {
            attempts.push(attempt);
        }
    }
    assert_eq!(attempts, [1, 2]);
    system.shutdown().await.unwrap();
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn brews(cx: ToolContext, _: Nothing) -> Result<&'static str, Infallible> {
    cx.progress("half");
    cx.progress("nearly");
    Ok("tea")
}

#[tokio::test]
async fn progress_of_a_tool_reaches_listeners_and_is_not_in_the_log() {
    let store = Arc::new(MemoryStore::new());
    let system =
        System::builder("-").store(store.clone()).tool("brew", "Brews", brews).start().await.unwrap();
    let mut live = system.task("t").unwrap().live();
    let events = system.task("t").unwrap().events().await.unwrap();
    let task = system.submit(posted("t", &Part::tool_call("brew", json!({})).unwrap())).await.unwrap();
    task.finished().await.unwrap();
    live.next().await.unwrap();
    for said in ["half", "nearly"] {
        let Live::Progress { text, attempt: 1, .. } = live.next().await.unwrap() else { panic!("progress") };
        assert_eq!(text.as_ref(), said);
    }
    let events = all(events).await;
    let progress = events.iter().filter_map(|event| match &event.payload {
        TaskStreamPayload::Progress { message, .. } => Some(message.as_str()),
        _ => None,
    });
    assert_eq!(progress.collect::<Vec<_>>(), ["Executing tool: brew", "half", "nearly"]);
    let again = all(task.events().await.unwrap()).await;
    let names = names(&again);
    assert_eq!(
        names,
        ["task_status_update", "task_progress", "task_artifact_update", "task_status_update"],
        "what was only heard is gone"
    );
    system.shutdown().await.unwrap();
}
