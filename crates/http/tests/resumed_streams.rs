//! Event streams that break off and continue with `Last-Event-ID`: at each frame, in the middle of an answer, after a
//! restart of the server, without a gap and without a repetition.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use serde_json::Value;
use support::{Host, actix, builder, connect, hosts, request, send, tool_task, with_tools};
use taskreel::infer::{Entry, InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::{BoxFuture, System};
use taskreel_http::Protolink;
use tokio::sync::Semaphore;

/// A frame: the place after it, and the event.
type Framed = (Option<String>, Value);

fn handler(system: &System) -> Arc<Protolink> {
    Arc::new(Protolink::new(system.clone()))
}

/// Posts a task to the stream, and returns the frames: all of them, or as many as are asked for.
async fn frames(host: &Host, body: &str, after: Option<&str>, most: usize) -> Vec<Framed> {
    let mut connection = connect(host).await;
    let after = after.map(|after| ("last-event-id", after));
    let headers: Vec<_> = after.into_iter().collect();
    connection.write_all(&request("POST", "/tasks/stream", &headers, body)).await.unwrap();
    let (status, head) = connection.head().await;
    assert_eq!(status, 200, "{head}");
    let mut frames = Vec::new();
    while frames.len() < most {
        let Some(frame) = connection.frame().await else { break };
        frames.push(frame);
    }
    frames
}

fn ids(frames: &[Framed]) -> Vec<String> {
    frames.iter().map(|(_, frame)| frame["result"]["event_id"].as_str().unwrap().to_owned()).collect()
}

/// Returns the text of the pieces of the answer.
fn text(frames: &[Framed]) -> String {
    let pieces = frames.iter().filter(|(_, frame)| frame["result"]["llm_event_type"] == "llm_chunk");
    pieces.map(|(_, frame)| frame["result"]["content"].as_str().unwrap()).collect()
}

fn infer(id: &str) -> String {
    format!(
        r#"{{"id": "{id}", "messages": [{{"id": "m", "timestamp": "t", "parts": [{{"type": "infer", "content": {{"prompt": "hi"}}}}]}}]}}"#
    )
}

/// A model that calls a tool and then answers, twice.
fn acting() -> Scripted {
    let call = Entry::Text(r#"{"type": "tool_call", "tool": "echo", "args": {"text": "x"}}"#.to_owned());
    let last = Entry::Text(r#"{"type": "final", "content": "done"}"#.to_owned());
    Scripted::new([call.clone(), last.clone(), call, last])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_after_each_of_its_frames_with_the_next_one() {
    let system = builder().infer(acting()).start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        let tool = tool_task(&format!("t-{n}"), "echo", r#"{"text": "x"}"#);
        for (body, least) in [(infer(&format!("i-{n}")), 20), (tool, 4)] {
            let whole = frames(&host, &body, None, usize::MAX).await;
            assert!(whole.len() >= least, "{}", whole.len());
            assert_eq!(ids(&whole), ids(&frames(&host, &body, None, usize::MAX).await), "shown again");
            for (at, (place, frame)) in whole.iter().enumerate() {
                let place = place.as_deref().unwrap_or_else(|| panic!("every frame has a place: {frame}"));
                // After the last one the end is said once more, so that a client which lost it gets it.
                let rest = frames(&host, &body, Some(place), usize::MAX).await;
                if at + 1 < whole.len() {
                    assert_eq!(ids(&rest), ids(&whole)[at + 1..], "after frame {at}, at {place}");
                } else {
                    assert_eq!((rest.len(), &rest[0].1["final"]), (1, &true.into()));
                }
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_after_a_restart_of_the_server_where_it_broke_off() {
    let dir = tempfile::tempdir().unwrap();
    let start = || with_tools(System::builder(dir.path())).infer(acting()).start();
    let body = infer("i");
    let system = start().await.unwrap();
    let host = actix(handler(&system)).await;
    let whole = frames(&host, &body, None, usize::MAX).await;
    host.stop().await;
    system.shutdown().await.unwrap();
    let system = start().await.unwrap();
    let host = actix(handler(&system)).await;
    for (at, (place, _)) in whole.iter().enumerate().take(whole.len() - 1) {
        let rest = frames(&host, &body, place.as_deref(), usize::MAX).await;
        assert_eq!(ids(&rest), ids(&whole)[at + 1..], "after frame {at}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

/// A model that says its answer piece by piece, one for each permit.
#[derive(Clone)]
struct Slow(Arc<Semaphore>);

const ANSWER: &str = r#"{"type": "final", "content": "Grüße aus Oslo"}"#;

impl InferBackend for Slow {
    fn backend(&self) -> &'static str {
        "slow"
    }

    fn model(&self) -> &'static str {
        "s-1"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let permits = Arc::clone(&self.0);
        Box::pin(async move {
            for piece in pieces() {
                permits.acquire().await.unwrap().forget();
                request.deltas.say(&piece);
            }
            permits.acquire().await.unwrap().forget();
            Ok(InferReply { content: ANSWER.to_owned(), model: "s-1".to_owned(), ..InferReply::default() })
        })
    }
}

fn pieces() -> Vec<String> {
    let letters: Vec<char> = ANSWER.chars().collect();
    letters.chunks(10).map(|piece| piece.iter().collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_arrives_continues_in_its_middle() {
    let count = pieces().len();
    let model = Slow(Arc::new(Semaphore::new(0)));
    let system = builder().infer(model.clone()).start().await.unwrap();
    for (n, host) in hosts(&system).await.into_iter().enumerate() {
        for cut in 1..=count {
            let body = infer(&format!("i-{n}-{cut}"));
            let mut connection = connect(&host).await;
            connection.write_all(&request("POST", "/tasks/stream", &[], &body)).await.unwrap();
            connection.head().await;
            let (mut told, mut place) = (Vec::new(), None);
            model.0.add_permits(cut);
            while text(&told) != pieces()[..cut].concat() {
                let frame = connection.frame().await.unwrap();
                place.clone_from(&frame.0);
                told.push(frame);
            }
            drop(connection);
            // What is said while nobody listens is in the answer that the log gets.
            model.0.add_permits(count + 1 - cut);
            let rest = frames(&host, &body, place.as_deref(), usize::MAX).await;
            told.extend(rest);
            assert_eq!(text(&told), ANSWER, "cut after {cut} pieces");
            let known: std::collections::HashSet<_> = ids(&told).into_iter().collect();
            assert_eq!(known.len(), told.len(), "no event comes twice");
            assert_eq!(told.last().unwrap().1["result"]["new_state"], "completed");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_none_or_not_reached_is_refused_and_nothing_is_done() {
    let system = builder().infer(acting()).start().await.unwrap();
    for host in hosts(&system).await {
        for place in ["x", "7", "1.", "-1"] {
            let bytes = request("POST", "/tasks/stream", &[("last-event-id", place)], &infer("none"));
            let refused = send(&host, &bytes).await;
            assert_eq!((refused.status, refused.code().as_str()), (400, "malformed"), "{place}: {refused:?}");
        }
        host.stop().await;
    }
    assert!(system.tasks().page(9).await.unwrap().tasks.is_empty());
    system.shutdown().await.unwrap();
}
