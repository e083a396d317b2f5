//! Answers as agents in the wild give them: the work in them is taken, and a message is never sent twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};
use taskreel::{Part, TaskState};
use taskreel_http::a2a::{A2aError, Binding, Client, Event, State, StreamItem};
use taskreel_log::memory::MemoryStore;

use crate::forge::{Answer, Asked, at, card, forge, options, rpc, say, whole};
use crate::remote::{calls, near};

/// Returns an answer with a body of this type.
fn typed(kind: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    );
    Answer((head + body).into_bytes(), Vec::new())
}

fn done() -> Value {
    let said = json!({"artifactId": "a", "parts": [{"text": "Four degrees."}]});
    json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [said]})
}

/// Returns the results of a stream: a task, a piece, its end.
fn results() -> [Value; 3] {
    let piece = json!({"artifactId": "a", "parts": [{"text": "Four degrees."}]});
    [
        json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}),
        json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": piece, "lastChunk": true}}),
        json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}),
    ]
}

fn lines(asked: &Asked, end: &str) -> String {
    let line =
        |result: Value| json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": result}).to_string();
    results().map(line).join("\n") + end
}

/// Returns the events of a stream until its end.
async fn streamed(client: &Client) -> Result<Vec<Event>, A2aError> {
    let mut stream = client.stream(&say("x")).await?;
    let mut events = Vec::new();
    while let Some(item) = stream.next().await {
        match item? {
            StreamItem::Event(event) => events.push(event),
            StreamItem::Gap(gap) => events.push(Event::Task(Box::new(gap.task))),
            other => panic!("{other:?}"),
        }
    }
    Ok(events)
}

#[tokio::test(flavor = "multi_thread")]
async fn json_and_lines_of_json_in_the_place_of_a_stream_are_read_as_its_events() {
    for kind in ["application/x-ndjson", "application/ndjson; charset=utf-8", "application/jsonl"] {
        for end in ["\n", "", "\n\n"] {
            let url = forge(move |asked| typed(kind, &lines(asked, end))).await;
            let events = streamed(&at(&url, Binding::JsonRpc, &options())).await.unwrap();
            assert_eq!(events.len(), 3, "{kind}: {events:?}");
            assert_eq!(events[2].state(), Some(State::Completed));
        }
    }
    let url = forge(|asked| rpc(asked, "result", &json!({"task": done()}))).await;
    let events = streamed(&at(&url, Binding::JsonRpc, &options())).await.unwrap();
    assert!(
        matches!(&events[..], [Event::Task(task)] if task.status.state == State::Completed),
        "{events:?}"
    );
}

/// Returns the card and the answers of an agent, and counts the messages that it takes.
async fn agent(
    count: &Arc<AtomicUsize>,
    answer: impl Fn(&Asked) -> Answer + Clone + Send + 'static,
    looked: Value,
) -> String {
    let count = Arc::clone(count);
    let place = Arc::new(std::sync::OnceLock::new());
    let known = Arc::clone(&place);
    let url = forge(move |asked| {
        if asked.is("agent-card.json") {
            let url: &String = known.get().unwrap();
            return whole(200, &card(url, &json!([])));
        }
        if asked.is("SendStreamingMessage") || asked.is("SendMessage") {
            count.fetch_add(1, Ordering::Relaxed);
            return answer(asked);
        }
        if asked.is("GetTask") { rpc(asked, "result", &looked) } else { whole(404, "{}") }
    })
    .await;
    place.set(url.clone()).unwrap();
    url
}

/// Has a system ask the agent, and returns how its task ended and what it was answered.
async fn asked_by_a_system(url: &str) -> (TaskState, String) {
    let system = near(&Arc::new(MemoryStore::new()), url, "weather?").start().await.unwrap();
    let task = system.submit(Part::infer("q")).await.unwrap();
    let ended = task.finished().await.unwrap();
    let told = calls(&system, &task).join(", ");
    system.shutdown().await.unwrap();
    (ended.state(), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_answer_cannot_be_read_is_not_sent_again_and_its_task_is_looked_at() {
    let odd = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "baking"}}});
    let answers: [fn(&Asked, &Value) -> Answer; 4] = [
        |asked, odd| rpc(asked, "result", odd),
        |asked, odd| {
            typed(
                "application/x-ndjson",
                &(json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": odd}).to_string() + "\n"),
            )
        },
        |asked, odd| {
            let data = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": odd});
            typed("text/event-stream", &format!("data: {data}\n\n"))
        },
        |_, odd| whole(200, &json!({"jsonrpc": "2.0", "id": "another", "result": odd}).to_string()),
    ];
    for (index, answer) in answers.into_iter().enumerate() {
        let count = Arc::new(AtomicUsize::new(0));
        let told = odd.clone();
        let url = agent(&count, move |asked| answer(asked, &told), done()).await;
        let (state, told) = asked_by_a_system(&url).await;
        assert_eq!((state, count.load(Ordering::Relaxed)), (TaskState::Completed, 1), "{index}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_at_the_older_place_is_found_and_protolinks_is_none() {
    for is_protolinks in [false, true] {
        let url = forge(move |asked| {
            if !asked.is("/.well-known/agent.json") {
                return whole(404, r#"{"detail":"Not Found"}"#);
            }
            let mut card: Value = serde_json::from_str(&card("http://127.0.0.1:9", &json!([]))).unwrap();
            if is_protolinks {
                card["transport"] = json!("http");
            }
            whole(200, &card.to_string())
        })
        .await;
        let found = Client::discover(&url, &options()).await;
        if is_protolinks {
            assert!(found.unwrap_err().to_string().contains("404"));
        } else {
            assert_eq!(found.unwrap().card().unwrap().name, "forged");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Lines of JSON that are cut anywhere: the task that was named is told, and nothing is made up.
    #[test]
    fn lines_that_are_cut_anywhere_name_their_task_or_are_an_error(cut in 0..2_000_usize) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let url = forge(move |asked| {
                if asked.is("SendStreamingMessage") {
                    let whole = lines(asked, "\n");
                    typed("application/x-ndjson", &whole[..cut.min(whole.len())])
                } else if asked.is("GetTask") {
                    rpc(asked, "result", &done())
                } else {
                    rpc(asked, "error", &json!({"code": -32601, "message": "no such method"}))
                }
            })
            .await;
            // Behind the first line the task is known, and what the rest was is asked for.
            let first = cut > 300;
            match streamed(&at(&url, Binding::JsonRpc, &options())).await {
                Ok(events) => assert_eq!(events.last().unwrap().state(), Some(State::Completed)),
                Err(error) => assert!(!first, "{cut}: {error}"),
            }
        });
    }
}
