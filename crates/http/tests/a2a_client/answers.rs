//! Answers that are none, and errors in the shapes of both bindings.

use serde_json::{Value, json};
use taskreel_http::a2a::{A2aError, Binding, ErrorKind};
use taskreel_http::protolink::ClientError;

use crate::forge::{Answer, at, forge, options, rpc, say, task, whole};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_none_is_a_typed_error_over_both_bindings() {
    for (status, body) in [
        (200, "nothing"),
        (200, ""),
        (200, "[]"),
        (200, "{}"),
        (
            200,
            r#"{"jsonrpc":"2.0","id":"another","result":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}"#,
        ),
        (200, r#"{"id":"other","status":{"state":"TASK_STATE_WORKING"}}"#),
        (200, r#"{"id":"t","status":{"state":"busy"}}"#),
    ] {
        for binding in [Binding::JsonRpc, Binding::HttpJson] {
            let url = forge(move |_| whole(status, body)).await;
            let client = at(&url, binding, &options());
            for error in [client.get("t", None).await.unwrap_err(), client.cancel("t").await.unwrap_err()] {
                assert!(matches!(error, A2aError::Answer { .. }), "{binding:?} {body}: {error}");
            }
            assert!(matches!(client.send(&say("x")).await, Err(A2aError::Answer { .. })), "{body}");
            assert!(matches!(client.subscribe("t").await, Err(A2aError::Answer { .. })), "{body}");
        }
    }
    let url = forge(|asked| {
        rpc(asked, "result", &json!({"statusUpdate": {"taskId": "t", "status": task("WORKING")["status"]}}))
    })
    .await;
    let error = at(&url, Binding::JsonRpc, &options()).send(&say("x")).await.unwrap_err();
    assert!(matches!(error, A2aError::Answer { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_and_an_endless_event_are_cut_off() {
    for head in ["text/event-stream", "application/json"] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {head}\r\n\r\ndata: ");
        let url = forge(move |_| Answer(head.clone().into_bytes(), vec![b'7'; 64 * 1024])).await;
        for binding in [Binding::JsonRpc, Binding::HttpJson] {
            let client = at(&url, binding, &options().answer_max(1024 * 1024));
            let large = |error: &A2aError| matches!(error, A2aError::Transport(ClientError::TooLarge { .. }));
            assert!(large(&client.get("t", None).await.unwrap_err()));
            let streamed = match client.subscribe("t").await {
                Ok(mut stream) => stream.next().await.unwrap().unwrap_err(),
                Err(error) => error,
            };
            assert!(large(&streamed), "{streamed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_known_in_the_shape_of_each_binding() {
    let info = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}]);
    let typed = json!({"code": -32001, "message": "Task not found", "data": info});
    let bare = json!({"code": -32002, "message": "over"});
    let odd = json!({"code": -32099, "message": "what?", "data": "more"});
    for (error, kind, details) in [
        (typed, ErrorKind::TaskNotFound, 1),
        (bare, ErrorKind::TaskNotCancelable, 0),
        (odd, ErrorKind::Other, 1),
    ] {
        let url = forge(move |asked| rpc(asked, "error", &error)).await;
        let refused = at(&url, Binding::JsonRpc, &options()).get("t", None).await.unwrap_err();
        let A2aError::Refused { reply, .. } = &refused else { panic!("{refused}") };
        assert_eq!((reply.kind, reply.details.len()), (kind, details), "{refused}");
        assert!(!reply.message.is_empty() && reply.code.is_some());
    }
    let rest = |status: u16, body: Value| async move {
        let url = forge(move |_| whole(status, &body.to_string())).await;
        at(&url, Binding::HttpJson, &options()).get("t", None).await.unwrap_err()
    };
    let error = json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "m", "details": info}});
    assert_eq!(rest(404, error).await.kind(), Some(ErrorKind::TaskNotFound));
    assert_eq!(
        rest(401, json!({"error": {"code": "unauthorized", "message": "m"}})).await.kind(),
        Some(ErrorKind::Unauthenticated)
    );
    assert_eq!(rest(404, json!({"message": "Task not found"})).await.kind(), Some(ErrorKind::Other));
    let plain = rest(404, json!("Not Found")).await;
    assert!(matches!(plain, A2aError::Transport(ClientError::Status { .. })), "{plain}");
}
