//! The chunks of an artifact while a model answers: live pieces, which the whole artifact of the log replaces.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::{BoxFuture, System};
use taskreel_log::memory::MemoryStore;
use taskreel_log::sled::SledStore;
use tokio::sync::Semaphore;

use crate::asked::{ALL, Binding, handler, hosts};
use crate::streams::{id, kind, message, words};
use crate::support::{Connection, Host, actix, connect};

/// A model that says its answer piece by piece, one for each permit, and ends with one more.
#[derive(Clone)]
struct Slow {
    permits: Arc<Semaphore>,
    begun: Arc<Semaphore>,
}

const PIECES: [&str; 4] = [r#"{"type": "final", "content": "Grü"#, "ße ", "aus ", r#"Oslo"}"#];
const TEXT: &str = "Grüße aus Oslo";

impl Slow {
    fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), begun: Arc::new(Semaphore::new(0)) }
    }

    /// Lets the model say all that is left of one answer.
    fn finish(&self, said: usize) {
        self.permits.add_permits(PIECES.len() + 1 - said);
    }
}

impl InferBackend for Slow {
    fn backend(&self) -> &'static str {
        "slow"
    }

    fn model(&self) -> &'static str {
        "s-1"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let model = self.clone();
        Box::pin(async move {
            model.begun.add_permits(1);
            for piece in PIECES {
                model.permits.acquire().await.unwrap().forget();
                request.deltas.say(piece);
            }
            model.permits.acquire().await.unwrap().forget();
            Ok(InferReply { content: PIECES.concat(), model: "s-1".to_owned(), ..InferReply::default() })
        })
    }
}

type Framed = (Option<String>, Value);

async fn frame(connection: &mut Connection, binding: Binding) -> Option<Framed> {
    let (place, body) = connection.frame().await?;
    Some((place, binding.result(&body).unwrap_or_else(|error| panic!("{error:?}: {body}"))))
}

async fn open(
    host: &Host,
    binding: Binding,
    operation: &str,
    params: &Value,
    after: Option<&str>,
) -> Connection {
    let headers: Vec<_> = after.map(|after| ("last-event-id", after)).into_iter().collect();
    let mut connection = connect(host).await;
    connection.write_all(&binding.request(operation, params, &headers)).await.unwrap();
    assert_eq!(connection.head().await.0, 200);
    connection
}

/// The artifacts that a client has after these frames, by A2A's rules: a chunk that is not appended replaces.
fn folded(binding: Binding, frames: &[Framed]) -> Vec<(String, String)> {
    let mut known: Vec<(String, String)> = Vec::new();
    for (_, event) in frames {
        let (kind, event) = kind(binding, event);
        if kind == "task" {
            for artifact in event["artifacts"].as_array().into_iter().flatten() {
                known.push((artifact["artifactId"].as_str().unwrap().to_owned(), text(artifact)));
            }
        }
        if kind != "artifact-update" {
            continue;
        }
        let artifact = &event["artifact"];
        let id = artifact["artifactId"].as_str().unwrap();
        let at = known.iter().position(|(known, _)| known == id);
        match (at, event["append"] == true) {
            (Some(at), true) => known[at].1.push_str(&text(artifact)),
            (Some(at), false) => known[at].1 = text(artifact),
            (None, false) => known.push((id.to_owned(), text(artifact))),
            (None, true) => panic!("a chunk is added to an artifact that was never begun: {event}"),
        }
    }
    known
}

fn text(artifact: &Value) -> String {
    crate::asked::text_of(&json!({"parts": artifact["parts"]}))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_in_chunks_while_the_model_speaks_and_the_whole_replaces_them() {
    let model = Slow::new();
    let system = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let system = system.infer(model.clone()).start().await.unwrap();
    for host in hosts(&system).await {
        for binding in ALL {
            let mut stream = open(&host, binding, "stream", &message(binding, "hi"), None).await;
            let mut frames = vec![frame(&mut stream, binding).await.unwrap()];
            let task = json!({"id": id(binding, &frames)});
            for said in 0..PIECES.len() {
                model.permits.add_permits(1);
                frames.push(frame(&mut stream, binding).await.unwrap());
                let told = words(binding, &frames);
                let append = if said == 0 { "first" } else { "more" };
                assert!(told.last().unwrap().ends_with(append), "a chunk for each piece: {told:?}");
                assert!(TEXT.starts_with(&folded(binding, &frames)[0].1));
            }
            assert_eq!(folded(binding, &frames)[0].1, TEXT, "all of it came before the end of the answer");
            // One that comes now gets no chunk that it could not place.
            let mut late = open(&host, binding, "subscribe", &task, None).await;
            let mut others = vec![frame(&mut late, binding).await.unwrap()];
            model.permits.add_permits(1);
            for (stream, frames) in [(&mut stream, &mut frames), (&mut late, &mut others)] {
                while let Some(one) = frame(stream, binding).await {
                    frames.push(one);
                }
                let told = words(binding, frames);
                assert!(told[told.len() - 2].ends_with("first last"), "{told:?}");
                assert_eq!(told.last().unwrap(), "completed");
            }
            let read = binding.ask(&host, "get", task.clone()).await.unwrap();
            let kept = [(read["artifacts"][0]["artifactId"].as_str().unwrap().to_owned(), TEXT.to_owned())];
            assert_eq!(folded(binding, &frames), kept, "{binding:?}");
            assert_eq!(folded(binding, &others), kept, "{binding:?}");
            // What was only streamed is not told again: the whole stands for it, from any place.
            for (at, (place, _)) in frames.iter().enumerate() {
                let after = [("last-event-id", place.as_deref().unwrap())];
                let rest = binding.frames(&host, "subscribe", &task, &after, usize::MAX).await;
                let whole: Vec<_> = frames[..=at].iter().chain(&rest).cloned().collect();
                assert_eq!(folded(binding, &whole), kept, "{binding:?} after frame {at}");
                assert!(rest.iter().all(|(_, event)| event["append"] != true), "{rest:?}");
                let in_query = after_in_query(&host, binding, &task, place.as_deref().unwrap()).await;
                assert_eq!(in_query, rest, "{binding:?}: `after` in the query means the same");
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

/// Returns the frames after a place that the query names.
async fn after_in_query(host: &Host, binding: Binding, task: &Value, place: &str) -> Vec<Framed> {
    let bytes = binding.request("subscribe", task, &[]);
    let head = String::from_utf8(bytes).unwrap();
    let (first, rest) = head.split_once("\r\n").unwrap();
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let with = if path.contains('?') { '&' } else { '?' };
    let place = place.replace('~', "%7E").replace(':', "%3A");
    let asked = format!("{method} {path}{with}after={place} HTTP/1.1\r\n{rest}");
    let mut connection = connect(host).await;
    connection.write_all(asked.as_bytes()).await.unwrap();
    assert_eq!(connection.head().await.0, 200);
    let mut frames = Vec::new();
    while let Some(one) = frame(&mut connection, binding).await {
        frames.push(one);
    }
    frames
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_in_the_middle_of_an_answer_ends_with_the_same_artifact() {
    let model = Slow::new();
    let system = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let system = system.infer(model.clone()).start().await.unwrap();
    for host in hosts(&system).await {
        for binding in ALL {
            for (cut, unheard) in [(1, 0), (2, 0), (2, 1), (4, 0), (3, 1)] {
                let mut stream = open(&host, binding, "stream", &message(binding, "hi"), None).await;
                let mut frames = vec![frame(&mut stream, binding).await.unwrap()];
                let task = json!({"id": id(binding, &frames)});
                model.permits.add_permits(cut);
                for _ in 0..cut {
                    frames.push(frame(&mut stream, binding).await.unwrap());
                }
                drop(stream);
                model.permits.add_permits(unheard);
                let place = frames.last().unwrap().0.clone().unwrap();
                let mut stream = open(&host, binding, "subscribe", &task, Some(&place)).await;
                model.finish(cut + unheard);
                while let Some(one) = frame(&mut stream, binding).await {
                    frames.push(one);
                }
                let known = folded(binding, &frames);
                assert_eq!(known.len(), 1, "{binding:?} {cut} {known:?}");
                assert_eq!(known[0].1, TEXT, "{binding:?} {cut}");
                assert_eq!(words(binding, &frames).last().unwrap(), "completed");
                if unheard == 0 {
                    // Nothing that was told comes again in a chunk.
                    let chunks = frames
                        .iter()
                        .map(|(_, event)| kind(binding, event))
                        .filter(|(kind, event)| kind == "artifact-update" && event["lastChunk"] != true);
                    let said: String = chunks.map(|(_, event)| text(&event["artifact"])).collect();
                    assert!(TEXT.starts_with(&said), "{said}");
                }
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

async fn start(dir: &Path, model: &Slow) -> (System, Host) {
    let store = Arc::new(SledStore::open(dir).unwrap());
    let system = System::builder(dir).log(store).infer(model.clone()).start().await.unwrap();
    let host = actix(handler(&system)).await;
    (system, host)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_restart_cuts_is_told_anew_and_replaces_what_was_told_of_it() {
    for binding in ALL {
        let dir = tempfile::tempdir().unwrap();
        let model = Slow::new();
        let (system, host) = start(dir.path(), &model).await;
        let mut stream = open(&host, binding, "stream", &message(binding, "hi"), None).await;
        let mut frames = vec![frame(&mut stream, binding).await.unwrap()];
        let task = json!({"id": id(binding, &frames)});
        model.permits.add_permits(2);
        for _ in 0..2 {
            frames.push(frame(&mut stream, binding).await.unwrap());
        }
        let place = frames.last().unwrap().0.clone().unwrap();
        drop(stream);
        host.stop().await;
        // The model does not end: its call is interrupted, as by a crash.
        system.shutdown_within(Duration::from_millis(50)).await.unwrap();
        let model = Slow::new();
        let (system, host) = start(dir.path(), &model).await;
        model.begun.acquire().await.unwrap().forget();
        let mut stream = open(&host, binding, "subscribe", &task, Some(&place)).await;
        model.finish(0);
        while let Some(one) = frame(&mut stream, binding).await {
            frames.push(one);
        }
        let known = folded(binding, &frames);
        assert_eq!(known.len(), 1, "the same artifact: {known:?}");
        assert_eq!(known[0].1, TEXT, "{binding:?}");
        let read = binding.ask(&host, "get", task).await.unwrap();
        assert_eq!(read["artifacts"][0]["artifactId"], known[0].0.as_str());
        host.stop().await;
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_under_a_key_that_comes_many_times_at_once_is_taken_once() {
    let model = Slow::new();
    let system = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let system = system.infer(model.clone()).start().await.unwrap();
    for host in hosts(&system).await {
        for binding in ALL {
            let params =
                json!({"message": binding.message("wait", &Value::Null), "configuration": binding.at_once()});
            let task = binding.task_of(&host, None, params).await.unwrap();
            let at = json!({"taskId": task["id"], "messageId": "m2"});
            let params = json!({"message": binding.message("more", &at), "configuration": binding.at_once()});
            let bytes = binding.request("send", &params, &[("idempotency-key", "k")]);
            let sent = (0..16).map(|_| crate::support::send(&host, &bytes));
            for answer in futures_util::future::join_all(sent).await {
                binding.came(&answer).unwrap();
            }
            let read = binding.ask(&host, "get", json!({"id": task["id"]})).await.unwrap();
            let said =
                read["history"].as_array().unwrap().iter().filter(|said| said["messageId"] == "m2").count();
            assert_eq!(said, 1, "{binding:?} {read}");
            binding.ask(&host, "cancel", json!({"id": task["id"]})).await.unwrap();
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
