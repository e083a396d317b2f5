//! Requests that are asked again, and those that are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use taskreel_http::a2a::{Binding, Client};

use crate::forge::{Answer, at, forge, options, rpc, say, task, whole};

/// Starts an agent that takes nothing at first, and answers the third request.
async fn slow_to_start() -> (Client, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let url = forge(move |asked| {
        if seen.fetch_add(1, Ordering::SeqCst) < 2 {
            return whole(503, "later");
        }
        let about_task = asked.is("GetTask") || asked.is("CancelTask");
        rpc(asked, "result", &if about_task { task("WORKING") } else { json!({"task": task("WORKING")}) })
    })
    .await;
    (at(&url, Binding::JsonRpc, &options()), count)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_reads_and_what_has_a_key_is_asked_again() {
    let (client, count) = slow_to_start().await;
    client.get("t", None).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3);

    let (client, count) = slow_to_start().await;
    client.send(&say("x").idempotency_key("k")).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3);

    let (client, count) = slow_to_start().await;
    client.send(&say("x")).await.unwrap_err();
    client.stream(&say("x")).await.unwrap_err();
    assert_eq!(count.load(Ordering::SeqCst), 2, "each was sent once");

    let (client, count) = slow_to_start().await;
    client.cancel("t").await.unwrap_err();
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_that_an_agent_names_is_waited_for_and_a_long_one_is_left_to_the_caller() {
    for (seconds, asked) in [(1, 2), (3_600, 1)] {
        let count = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&count);
        let url = forge(move |asked| {
            if seen.fetch_add(1, Ordering::SeqCst) > 0 {
                return rpc(asked, "result", &task("WORKING"));
            }
            let head = format!(
                "HTTP/1.1 429 X\r\nconnection: close\r\nretry-after: {seconds}\r\ncontent-length: 0\r\n\r\n"
            );
            Answer(head.into_bytes(), Vec::new())
        })
        .await;
        let client = at(&url, Binding::JsonRpc, &options());
        let began = std::time::Instant::now();
        let answer = client.get("t", None).await;
        assert_eq!((answer.is_ok(), count.load(Ordering::SeqCst)), (asked == 2, asked));
        assert!(asked == 1 || began.elapsed() >= std::time::Duration::from_secs(1));
    }
}
