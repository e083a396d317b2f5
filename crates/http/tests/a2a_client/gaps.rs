//! Streams that break off at agents whose streams do not continue after a place.

use serde_json::{Value, json};
use taskreel_http::a2a::{A2aError, Binding, Client, ErrorKind, StreamItem};
use taskreel_http::protolink::ClientError;

use crate::forge::{Answer, Asked, at, card, events, forge, options, rpc, say, task, whole};

fn status(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": format!("TASK_STATE_{state}")}}})
}

fn piece(text: &str) -> Value {
    let artifact = json!({"artifactId": "a", "parts": [{"text": text}]});
    json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, "append": true}})
}

/// Returns the events of a run.
fn run() -> Vec<Value> {
    vec![json!({"task": task("WORKING")}), piece("one"), piece("two"), status("WORKING"), status("COMPLETED")]
}

/// Returns a word for each item.
async fn words(client: &Client) -> Result<Vec<String>, A2aError> {
    let mut stream = client.stream(&say("x")).await?;
    let mut words = Vec::new();
    while let Some(item) = stream.next().await {
        words.push(match item? {
            StreamItem::Gap(gap) => format!("gap {:?} {}", gap.task.status.state, gap.is_exact),
            StreamItem::Event(event) => {
                event.state().map_or("piece".to_owned(), |state| format!("{state:?}"))
            }
            other => panic!("{other:?}"),
        });
    }
    Ok(words)
}

/// Starts an agent whose stream breaks off after so many events, and that answers the next question about the task so.
async fn breaking(after: usize, next: fn(&Asked) -> Answer) -> Client {
    let url = forge(move |asked| {
        if asked.is("SendStreamingMessage") { events(asked, &run()[..after], false) } else { next(asked) }
    })
    .await;
    at(&url, Binding::JsonRpc, &options().attempts(3))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_after_any_event_goes_on_behind_a_gap() {
    for after in 1..5 {
        let client = breaking(after, |asked| {
            assert!(asked.is("SubscribeToTask") && asked.header("last-event-id").is_none());
            events(asked, &[json!({"task": task("WORKING")}), piece("three"), status("COMPLETED")], true)
        });
        let told = words(&client.await).await.unwrap();
        assert_eq!(told.len(), after + 3);
        assert_eq!(told[after..], ["gap Working true", "piece", "Completed"]);
    }
    let whole = breaking(5, |asked| panic!("{}", asked.head));
    assert_eq!(words(&whole.await).await.unwrap().len(), 5, "the end of the task is the end of the stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ended_in_the_gap_is_the_last_item() {
    let client = breaking(2, |asked| {
        if asked.is("SubscribeToTask") {
            return rpc(asked, "error", &json!({"code": -32004, "message": "it is over"}));
        }
        rpc(asked, "result", &task("FAILED"))
    });
    assert_eq!(words(&client.await).await.unwrap(), ["Working", "piece", "gap Failed true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_does_not_begin_with_the_task_has_a_gap_that_says_so() {
    let client = breaking(2, |asked| {
        if asked.is("SubscribeToTask") {
            return events(asked, &[piece("three"), status("COMPLETED")], true);
        }
        rpc(asked, "result", &task("WORKING"))
    });
    let told = ["Working", "piece", "gap Working false", "piece", "Completed"];
    assert_eq!(words(&client.await).await.unwrap(), told);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_promises_places_and_forgets_them_leaves_a_gap_too() {
    let promised = json!([{"uri": "urn:taskreel:a2a:resume:v1"}]);
    let url = forge(move |asked| {
        if asked.is("agent-card.json") {
            let host = asked.header("host").unwrap();
            return whole(200, &card(&format!("http://{host}"), &promised));
        }
        if asked.is("SendStreamingMessage") {
            let Answer(bytes, _) = events(asked, &run()[..2], false);
            let placed = String::from_utf8(bytes).unwrap().replace("\r\ndata:", "\r\nid: 7\ndata:");
            // Two lines more in each chunk.
            return Answer(rechunked(&placed), Vec::new());
        }
        assert_eq!(asked.header("last-event-id"), Some("7"));
        events(asked, &[json!({"task": task("WORKING")}), status("COMPLETED")], true)
    })
    .await;
    let client = Client::discover(&url, &options()).await.unwrap();
    assert_eq!(words(&client).await.unwrap(), ["Working", "piece", "gap Working true", "Completed"]);
}

/// Returns an answer with the lengths of its chunks as they are.
fn rechunked(answer: &str) -> Vec<u8> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let chunks = body.split("\r\n").filter(|line| line.starts_with("id:"));
    let chunks = chunks.map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    chunks.fold(format!("{head}\r\n\r\n"), |text, chunk| text + &chunk).into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_go_on_ends_with_an_error_after_a_bounded_number_of_attempts() {
    let lost = words(&breaking(0, |asked| panic!("{}", asked.head)).await).await.unwrap_err();
    assert!(matches!(lost, A2aError::Transport(ClientError::Protocol { .. })), "{lost}");
    // The agent breaks off each time.
    let gone = breaking(1, |asked| events(asked, &[json!({"task": task("WORKING")})], false));
    assert!(matches!(words(&gone.await).await, Err(A2aError::Transport(ClientError::Protocol { .. }))));
    let denied = breaking(1, |asked| {
        if asked.is("GetTask") {
            return rpc(asked, "error", &json!({"code": -32001, "message": "no"}));
        }
        rpc(asked, "error", &json!({"code": -32004, "message": "no streams"}))
    });
    assert_eq!(words(&denied.await).await.unwrap_err().kind(), Some(ErrorKind::TaskNotFound));
    for frame in [json!({"task": {"id": "t"}}), json!([]), json!({"statusUpdate": {}}), json!({"task": null})]
    {
        let url =
            forge(move |asked| events(asked, &[json!({"task": task("WORKING")}), frame.clone()], true)).await;
        let wrong = words(&at(&url, Binding::JsonRpc, &options())).await.unwrap_err();
        assert!(matches!(wrong, A2aError::Answer { .. }), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_and_a_message_alone_end_a_stream() {
    let message = json!({"message": {"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}});
    for (frames, told) in [
        (vec![json!({"task": task("WORKING")}), status("INPUT_REQUIRED")], vec!["Working", "InputRequired"]),
        (vec![message], vec!["piece"]),
    ] {
        let url = forge(move |asked| events(asked, &frames, true)).await;
        assert_eq!(words(&at(&url, Binding::JsonRpc, &options())).await.unwrap(), told);
    }
}
