//! Cards that cannot be used, and credentials that stay where they belong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use taskreel_http::a2a::{A2aError, Binding, Client, Version};
use taskreel_http::protolink::ClientError;

use crate::forge::{Answer, at, card, forge, options, rpc, say, task, whole};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_card_is_a_typed_error_within_bounds() {
    let grpc = r#"{"name":"n","supportedInterfaces":[{"url":"h:1","protocolBinding":"GRPC","protocolVersion":"1.0"}]}"#;
    let future = r#"{"name":"n","supportedInterfaces":[{"url":"http://h","protocolBinding":"JSONRPC","protocolVersion":"2.0"}]}"#;
    for text in ["{}", "[]", r#"{"name":"n","supportedInterfaces":[]}"#, grpc, future] {
        let url = forge(move |_| whole(200, text)).await;
        let error = Client::discover(&url, &options()).await.unwrap_err();
        assert!(matches!(error, A2aError::Card { .. }), "{text}: {error}");
    }
    let url = forge(|_| whole(200, "<html>")).await;
    assert!(matches!(Client::discover(&url, &options()).await, Err(A2aError::Answer { .. })));
    let url = forge(|_| whole(404, "no")).await;
    let gone = Client::discover(&url, &options()).await.unwrap_err();
    assert!(matches!(gone, A2aError::Transport(ClientError::Status { status, .. }) if status == 404));
    let endless = || Answer(b"HTTP/1.1 200 OK\r\n\r\n{\"name\":\"".to_vec(), vec![b'n'; 64 * 1024]);
    let url = forge(move |_| endless()).await;
    let large = Client::discover(&url, &options()).await.unwrap_err();
    assert!(matches!(large, A2aError::Transport(ClientError::TooLarge { .. })), "{large}");
    for wrong in ["", "h", "ws://h", "ftp://h", "http://u:hush@h"] {
        let error = Client::discover(wrong, &options()).await.unwrap_err();
        assert!(matches!(error, A2aError::Transport(ClientError::Url { .. })), "{wrong}: {error}");
        assert!(!error.to_string().contains("u:hush"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_is_found_at_its_own_address_and_one_of_0_3_is_spoken_to_in_0_3() {
    let url = forge(|asked| {
        if asked.is("GET /cards/one.json ") {
            let here = format!("http://{}/rpc/", asked.header("host").unwrap());
            return whole(200, &json!({"name": "n", "url": here, "protocolVersion": "0.3.0"}).to_string());
        }
        assert!(asked.is("POST /rpc/ ") && asked.is("message/send"), "{}", asked.head);
        assert_eq!(asked.header("a2a-version"), Some("0.3"));
        let task = json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}});
        rpc(asked, "result", &task)
    })
    .await;
    let client = Client::discover(&format!("{url}/cards/one.json"), &options()).await.unwrap();
    assert_eq!((client.interface().version, client.interface().binding), (Version::V03, Binding::JsonRpc));
    client.send(&say("x")).await.unwrap();
    assert!(
        matches!(client.stream(&say("x")).await, Err(A2aError::Request(_))),
        "the card says no word of streams"
    );
    let other = options().version(Version::V1);
    assert!(matches!(
        Client::discover(&format!("{url}/cards/one.json"), &other).await,
        Err(A2aError::Card { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_shown_to_the_host_of_the_card_and_to_no_other() {
    let strange = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&strange);
    let other = forge(move |asked| {
        seen.fetch_add(1, Ordering::SeqCst);
        rpc(asked, "result", &json!({"task": task("COMPLETED")}))
    })
    .await;
    let there = other.clone();
    let url = forge(move |_| whole(200, &card(&there, &json!([])))).await;
    let secret = options().bearer("hush");
    let refused = Client::discover(&url, &secret).await.unwrap_err();
    assert!(matches!(&refused, A2aError::Card { why, .. } if why.contains("other hosts")), "{refused}");
    Client::discover(&url, &options()).await.unwrap().send(&say("x")).await.unwrap();
    let allowed = Client::discover(&url, &secret.clone().credentials_for_other_hosts()).await.unwrap();
    allowed.send(&say("x")).await.unwrap();
    assert_eq!(strange.swap(0, Ordering::SeqCst), 2);

    let there = other.clone();
    let redirecting = forge(move |asked| {
        assert_eq!(asked.header("authorization"), Some("Bearer hush"));
        assert_eq!(asked.header("x-key"), Some("hush"));
        let head =
            format!("HTTP/1.1 307 X\r\nlocation: {there}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        Answer(head.into_bytes(), Vec::new())
    })
    .await;
    let client = at(&redirecting, Binding::JsonRpc, &secret.header("x-key", "hush").unwrap());
    assert!(!format!("{client:?}").contains("hush"), "{client:?}");
    let error = client.send(&say("x")).await.unwrap_err();
    assert!(matches!(&error, A2aError::Transport(ClientError::Status { status, .. }) if *status == 307));
    assert_eq!(strange.load(Ordering::SeqCst), 0, "the redirect was not followed");
}
