//! Streams: from the log, so that every subscriber gets the same, and one that comes back gets the rest.

use std::sync::Arc;

use serde_json::{Value, json};
use taskreel::System;
use taskreel_log::sled::SledStore;

use crate::agent::{Gate, agent, with_handler};
use crate::asked::{ALL, Binding, handler, hosts};
use crate::support::{Host, actix, connect};

pub(crate) fn message(binding: Binding, text: &str) -> Value {
    json!({"message": binding.message(text, &Value::Null)})
}

/// Returns the kind of an event, and the event.
pub(crate) fn kind(binding: Binding, event: &Value) -> (String, Value) {
    if binding == Binding::Rpc03 {
        return (event["kind"].as_str().unwrap().to_owned(), event.clone());
    }
    let (kind, inner) = event.as_object().unwrap().iter().next().unwrap();
    (kind.replace("Update", "-update"), inner.clone())
}

/// Returns what each event says, in a word or two.
pub(crate) fn words(binding: Binding, frames: &[(Option<String>, Value)]) -> Vec<String> {
    let word = |event: &Value| {
        let (kind, event) = kind(binding, event);
        match kind.as_str() {
            "artifact-update" => format!(
                "{} {}{}",
                event["artifact"]["artifactId"].as_str().unwrap().chars().take(6).collect::<String>(),
                if event["append"] == true { "more" } else { "first" },
                if event["lastChunk"] == true { " last" } else { "" }
            ),
            _ => event["status"]["state"]
                .as_str()
                .unwrap()
                .to_lowercase()
                .replace("task_state_", "")
                .replace('_', "-")
                .replace("cancelled", "canceled"),
        }
    };
    frames.iter().map(|(_, event)| word(event)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_the_task_and_tells_its_pieces_and_its_end() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let frames = binding.frames(&host, "stream", &message(binding, "report"), &[], usize::MAX).await;
            let told = words(binding, &frames);
            assert_eq!(told[..3], ["working", "report first", "report more last"], "{binding:?} {frames:#?}");
            assert!(told[3].ends_with("first last"), "{told:?}");
            assert_eq!(told[4..], ["completed"], "{binding:?}");
            assert_eq!(kind(binding, &frames[0].1).0, "task");
            let (_, last) = kind(binding, &frames[4].1);
            if !binding.is_1() {
                assert_eq!(last["final"], true, "{last}");
            }
            for (text, word) in [("fail", "failed"), ("reject", "rejected"), ("ask", "input-required")] {
                let frames = binding.frames(&host, "stream", &message(binding, text), &[], usize::MAX).await;
                assert_eq!(words(binding, &frames), ["working", word], "{binding:?}");
                let (_, last) = kind(binding, &frames[1].1);
                assert!(last["status"]["message"].is_object(), "the words about it come with it: {last}");
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

/// Returns the id of the task of a stream's first frame.
pub(crate) fn id(binding: Binding, frames: &[(Option<String>, Value)]) -> Value {
    kind(binding, &frames[0].1).1["id"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_after_any_frame_continues_with_the_next_one() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let whole = binding.frames(&host, "stream", &message(binding, "report"), &[], usize::MAX).await;
            let task = json!({"id": id(binding, &whole)});
            for at in 0..whole.len() {
                let place = whole[at].0.as_deref().expect("every frame has a place");
                let rest =
                    binding.frames(&host, "subscribe", &task, &[("last-event-id", place)], usize::MAX).await;
                assert_eq!(rest, whole[at + 1..], "{binding:?} after frame {at}");
            }
            let wrong = |place: &str| binding.request("subscribe", &task, &[("last-event-id", place)]);
            for place in ["x", "other:1", "99"] {
                let refused = binding.came(&crate::support::send(&host, &wrong(place)).await).unwrap_err();
                assert_eq!(refused.0, if binding.is_rpc() { -32602 } else { 400 }, "{place}");
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_subscribers_get_the_same_and_one_that_goes_away_disturbs_nobody_and_cancels_nothing() {
    let gate = Gate::shut();
    let system = agent(&gate).await;
    for host in hosts(&system).await {
        for binding in ALL {
            // The one that sent it goes away.
            let first = binding.frames(&host, "stream", &message(binding, "wait"), &[], 2).await;
            assert_eq!(words(binding, &first), ["working", "working"], "{binding:?}");
            let task = json!({"id": id(binding, &first)});
            let mut others = Vec::new();
            for _ in 0..3 {
                let mut connection = connect(&host).await;
                connection.write_all(&binding.request("subscribe", &task, &[])).await.unwrap();
                assert_eq!(connection.head().await.0, 200);
                let (place, begun) = connection.frame().await.unwrap();
                assert_eq!(kind(binding, &binding.result(&begun).unwrap()).0, "task");
                others.push((connection, vec![(place, begun)]));
            }
            drop(others.pop());
            gate.open();
            let mut told = Vec::new();
            for (mut connection, mut frames) in others {
                while let Some(frame) = connection.frame().await {
                    frames.push(frame);
                }
                told.push(frames);
            }
            assert_eq!(told[0], told[1], "{binding:?}");
            let place = first[1].0.as_deref().unwrap();
            let rest =
                binding.frames(&host, "subscribe", &task, &[("last-event-id", place)], usize::MAX).await;
            assert_eq!(words(binding, &rest), ["completed"], "{binding:?}");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_its_client_is_followed_until_it_is_over() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let asked = binding.task(&host, "ask").await;
            let mut connection = connect(&host).await;
            connection
                .write_all(&binding.request("subscribe", &json!({"id": asked["id"]}), &[]))
                .await
                .unwrap();
            connection.head().await;
            let (_, begun) = connection.frame().await.unwrap();
            let begun = binding.result(&begun).unwrap();
            assert_eq!(words(binding, &[(None, begun)]), ["input-required"], "{binding:?}");
            let answer = json!({"message": binding.message("Oslo", &json!({"taskId": asked["id"], "messageId": "m2"}))});
            let streamed = binding.frames(&host, "stream", &answer, &[], usize::MAX).await;
            assert_eq!(words(binding, &streamed), ["working", "working", "completed"], "{binding:?}");
            let mut followed = Vec::new();
            while let Some((place, event)) = connection.frame().await {
                followed.push((place, binding.result(&event).unwrap()));
            }
            assert_eq!(words(binding, &followed), ["working", "working", "completed"], "{binding:?}");
            assert_eq!(followed[1..], streamed[1..], "the same events under the same places");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

async fn start(dir: &std::path::Path, gate: &Gate) -> (System, Host) {
    let store = Arc::new(SledStore::open(dir).unwrap());
    let system = with_handler(System::builder(dir).log(store), gate).start().await.unwrap();
    let host = actix(handler(&system)).await;
    (system, host)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_after_a_restart_and_the_end_of_a_server_is_not_the_end_of_a_task() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Gate::shut();
    let (system, host) = start(dir.path(), &gate).await;
    let mut kept = Vec::new();
    for binding in ALL {
        let whole = binding.frames(&host, "stream", &message(binding, "report"), &[], usize::MAX).await;
        let asked = binding.task(&host, "ask").await;
        kept.push((binding, whole, asked));
    }
    let mut followed = Vec::new();
    for (binding, _, asked) in &kept {
        let mut connection = connect(&host).await;
        connection.write_all(&binding.request("subscribe", &json!({"id": asked["id"]}), &[])).await.unwrap();
        connection.head().await;
        let (place, _) = connection.frame().await.unwrap();
        followed.push((connection, place.unwrap()));
    }
    let stopping = tokio::spawn(host.stop());
    let mut places = Vec::new();
    for ((binding, ..), (mut connection, place)) in kept.iter().zip(followed) {
        let (last, word) = connection.frame().await.expect("the server says that it stops");
        let (code, reason) = binding.result(&word).unwrap_err();
        assert_eq!((last, reason.as_str()), (None, "UNAVAILABLE"));
        assert_eq!(code, if binding.is_rpc() { -32000 } else { 503 });
        assert!(connection.frame().await.is_none());
        places.push(place);
    }
    stopping.await.unwrap();
    system.shutdown().await.unwrap();
    let (system, host) = start(dir.path(), &gate).await;
    for ((binding, whole, asked), place) in kept.iter().zip(places) {
        let task = json!({"id": id(*binding, whole)});
        for at in 0..whole.len() {
            let headers = [("last-event-id", whole[at].0.as_deref().unwrap())];
            let rest = binding.frames(&host, "subscribe", &task, &headers, usize::MAX).await;
            assert_eq!(rest, whole[at + 1..], "{binding:?} after frame {at}");
        }
        let at = json!({"taskId": asked["id"], "messageId": "m2"});
        let answer = json!({"message": binding.message("Oslo", &at), "configuration": binding.blocking()});
        binding.task_of(&host, None, answer).await.unwrap();
        let task = json!({"id": asked["id"]});
        let rest = binding.frames(&host, "subscribe", &task, &[("last-event-id", &place)], usize::MAX).await;
        assert_eq!(words(*binding, &rest), ["working", "working", "completed"], "{binding:?}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}
