//! The error table over gRPC, and input that is none.

use a2a_pb::proto::{
    CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTasksRequest, Message, Part, SendMessageConfiguration, SendMessageRequest,
    TaskPushNotificationConfig, part,
};
use prost_types::value::Kind;
use prost_types::{Timestamp, Value};
use tonic::{Code, Request, Status};

use crate::agent::{Gate, agent};
use crate::peer::{Client, all, follow, info, message, of_text, peer, sending, sent, wrong};

/// Asserts a row of the table.
fn is(status: &Status, code: Code, reason: &str) {
    assert_eq!(status.code(), code, "{status:?}");
    let info = info(status);
    assert_eq!(info.reason, reason, "{status:?}");
    if !reason.is_empty() {
        assert_eq!(info.domain, "a2a-protocol.org", "{status:?}");
    }
}

async fn refused(client: &Client, request: SendMessageRequest) -> Status {
    client.clone().send_message(request).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_of_the_table_has_its_code_and_its_reason() {
    let system = agent(&Gate::shut()).await;
    let peer = peer(&system).await;
    let mut client = peer.client.clone();
    let done = sent(&client, sending(message("hello"))).await;

    let none = GetTaskRequest { id: "none".to_owned(), ..GetTaskRequest::default() };
    let status = client.get_task(none).await.unwrap_err();
    is(&status, Code::NotFound, "TASK_NOT_FOUND");
    assert_eq!(info(&status).metadata["taskId"], "none");
    is(&follow(&client, "none", None).await.unwrap_err(), Code::NotFound, "TASK_NOT_FOUND");
    let cancel = CancelTaskRequest { id: done.id.clone(), ..CancelTaskRequest::default() };
    is(&client.cancel_task(cancel).await.unwrap_err(), Code::FailedPrecondition, "TASK_NOT_CANCELABLE");
    let over = Message { task_id: done.id.clone(), ..message("more") };
    is(&refused(&client, sending(over)).await, Code::FailedPrecondition, "UNSUPPORTED_OPERATION");
    is(
        &follow(&client, &done.id, None).await.unwrap_err(),
        Code::FailedPrecondition,
        "UNSUPPORTED_OPERATION",
    );
    let card = client.get_extended_agent_card(GetExtendedAgentCardRequest::default()).await.unwrap_err();
    is(&card, Code::FailedPrecondition, "UNSUPPORTED_OPERATION");

    for version in ["0.3", "2.0", "nonsense"] {
        let mut request = Request::new(GetTaskRequest { id: done.id.clone(), ..GetTaskRequest::default() });
        request.metadata_mut().insert("a2a-version", version.parse().unwrap());
        let status = client.get_task(request).await.unwrap_err();
        is(&status, Code::FailedPrecondition, "VERSION_NOT_SUPPORTED");
    }
    for version in ["1.0", "1.0.1"] {
        let mut request = Request::new(GetTaskRequest { id: done.id.clone(), ..GetTaskRequest::default() });
        request.metadata_mut().insert("a2a-version", version.parse().unwrap());
        assert!(client.get_task(request).await.is_ok());
    }
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_is_wrong_is_named() {
    let system = agent(&Gate::shut()).await;
    let peer = peer(&system).await;
    let client = peer.client.clone();
    let asked = sent(&client, sending(message("ask"))).await;
    let with = |change: &dyn Fn(&mut Message)| {
        let mut message = message("hello");
        change(&mut message);
        sending(message)
    };
    let nan = || Some(part::Content::Data(Value { kind: Some(Kind::NumberValue(f64::NAN)) }));
    let negative = SendMessageConfiguration { history_length: Some(-1), ..Default::default() };
    let cases = [
        (SendMessageRequest::default(), "message"),
        (with(&|message| message.message_id.clear()), "message.messageId"),
        (with(&|message| message.role = 0), "message.role"),
        (with(&|message| message.role = 2), "message.role"),
        (with(&|message| message.role = 77), "message.role"),
        (with(&|message| message.parts.clear()), "message.parts"),
        (with(&|message| message.parts = vec![of_text("a"), Part::default()]), "message.parts[1]"),
        (with(&|message| message.parts[0].content = nan()), "message.parts[0].data"),
        (with(&|message| message.context_id = "a\nb".to_owned()), "message.contextId"),
        (
            with(&|message| {
                message.task_id.clone_from(&asked.id);
                message.context_id = "another".to_owned();
            }),
            "message.contextId",
        ),
        (
            SendMessageRequest { configuration: Some(negative), ..sending(message("hello")) },
            "configuration.historyLength",
        ),
        (SendMessageRequest { tenant: "nobody".to_owned(), ..sending(message("hello")) }, "tenant"),
    ];
    for (request, field) in cases {
        let status = refused(&client, request).await;
        is(&status, Code::InvalidArgument, "");
        assert_eq!(wrong(&status), [field], "{status:?}");
    }
    let later = |nanos| ListTasksRequest {
        status_timestamp_after: Some(Timestamp { seconds: 0, nanos }),
        ..ListTasksRequest::default()
    };
    let lists = [
        (ListTasksRequest { page_size: Some(-1), ..ListTasksRequest::default() }, "pageSize"),
        (ListTasksRequest { page_size: Some(101), ..ListTasksRequest::default() }, "pageSize"),
        (ListTasksRequest { page_token: "x".to_owned(), ..ListTasksRequest::default() }, "pageToken"),
        (ListTasksRequest { history_length: Some(-1), ..ListTasksRequest::default() }, "historyLength"),
        (ListTasksRequest { status: 99, ..ListTasksRequest::default() }, "status"),
        (later(-1), "statusTimestampAfter"),
    ];
    for (request, field) in lists {
        let status = client.clone().list_tasks(request).await.unwrap_err();
        is(&status, Code::InvalidArgument, "");
        assert_eq!(wrong(&status), [field], "{status:?}");
    }
    // A place that is none, one of another task, one that the task has not reached.
    for place in ["x", "-1", "another:1", "99999"] {
        let status = follow(&client, &asked.id, Some(place)).await.unwrap_err();
        is(&status, Code::InvalidArgument, "");
        assert_eq!(wrong(&status), ["Last-Event-ID"], "{place}");
    }
    // Nothing of it began a task.
    let listed = client.clone().list_tasks(ListTasksRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.total_size, 1);
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_refused_where_the_agent_calls_none() {
    let system = agent(&Gate::shut()).await;
    let peer = peer(&system).await;
    let mut client = peer.client.clone();
    let (code, reason) = (Code::FailedPrecondition, "PUSH_NOTIFICATION_NOT_SUPPORTED");
    let config = || TaskPushNotificationConfig { url: "http://localhost/".to_owned(), ..Default::default() };
    is(&client.create_task_push_notification_config(config()).await.unwrap_err(), code, reason);
    let get = GetTaskPushNotificationConfigRequest::default();
    is(&client.get_task_push_notification_config(get).await.unwrap_err(), code, reason);
    let list = ListTaskPushNotificationConfigsRequest::default();
    is(&client.list_task_push_notification_configs(list).await.unwrap_err(), code, reason);
    let delete = DeleteTaskPushNotificationConfigRequest::default();
    is(&client.delete_task_push_notification_config(delete).await.unwrap_err(), code, reason);
    let configuration =
        SendMessageConfiguration { task_push_notification_config: Some(config()), ..Default::default() };
    let sending = SendMessageRequest { configuration: Some(configuration), ..sending(message("hello")) };
    is(&refused(&client, sending).await, code, reason);
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let system = agent(&Gate::shut()).await;
    let peer = peer(&system).await;
    let giant = message(&"x".repeat(21 * 1024 * 1024));
    let status = refused(&peer.client, sending(giant)).await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("bytes"), "{status:?}");
    let task = sent(&peer.client, sending(message("report"))).await;
    let events = all(follow(&peer.client, &task.id, Some("0")).await.unwrap()).await;
    assert!(events.len() > 3, "{events:?}");
    peer.stop().await;
    system.shutdown().await.unwrap();
}
