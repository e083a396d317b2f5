//! Behind the check of callers: credentials, scopes, and whose the tasks are.

use std::sync::Arc;

use a2a_pb::proto::{
    CancelTaskRequest, GetExtendedAgentCardRequest, GetTaskRequest, ListTasksRequest, TaskState,
};
use taskreel_http::{A2a, Access, Guard};
use tonic::{Code, Request};

use crate::agent::{Gate, agent};
use crate::peer::{message, peer_of, sending, state};

const FILE: &str = r#"{"credentials": [
    {"name": "ada", "scopes": ["read", "run", "control"], "secret_file": "ada"},
    {"name": "bob", "scopes": ["read", "run", "control"], "secret_file": "bob"},
    {"name": "eve", "scopes": ["read"], "secret_file": "eve"}
]}"#;

fn by<T>(caller: Option<&str>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(caller) = caller {
        request.metadata_mut().insert("authorization", format!("Bearer {caller}").parse().unwrap());
    }
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_needs_a_credential_and_its_scope_and_shows_the_callers_own_tasks() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["ada", "bob", "eve"] {
        std::fs::write(dir.path().join(name), format!("{name}-token")).unwrap();
    }
    std::fs::write(dir.path().join("auth.json"), FILE).unwrap();
    let access = Access::open().with_file(&dir.path().join("auth.json")).unwrap();
    let system = agent(&Gate::shut()).await;
    let a2a = A2a::new(system.clone()).url("http://agents.example").secured();
    let guard = Guard::new(access, Arc::new(a2a.grpc()));
    let refusals = guard.refusals();
    let peer = peer_of(Arc::new(guard)).await;
    a2a.grpc_at(&peer.address());
    let mut client = peer.client.clone();

    for caller in [None, Some("nobody-token")] {
        let status = client.send_message(by(caller, sending(message("ask")))).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
        let status = client.send_streaming_message(by(caller, sending(message("ask")))).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    }
    assert!(refusals.rows().any(|(_, count)| count > 0));

    let sent =
        client.send_message(by(Some("ada-token"), sending(message("ask")))).await.unwrap().into_inner();
    let Some(a2a_pb::proto::send_message_response::Payload::Task(task)) = sent.payload else { panic!() };
    assert_eq!(state(&task), TaskState::InputRequired);
    let get = GetTaskRequest { id: task.id.clone(), ..GetTaskRequest::default() };
    let cancel = CancelTaskRequest { id: task.id.clone(), ..CancelTaskRequest::default() };
    let status = client.get_task(by(Some("bob-token"), get.clone())).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let status = client.cancel_task(by(Some("bob-token"), cancel.clone())).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let list = |caller| {
        let mut client = client.clone();
        async move { client.list_tasks(by(Some(caller), ListTasksRequest::default())).await }
    };
    assert_eq!(list("bob-token").await.unwrap().into_inner().total_size, 0);
    assert_eq!(list("ada-token").await.unwrap().into_inner().total_size, 1);

    // Who may only read sends and cancels nothing.
    let status = client.send_message(by(Some("eve-token"), sending(message("ask")))).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    let status = client.cancel_task(by(Some("eve-token"), cancel.clone())).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    let card = client.get_extended_agent_card(by(Some("eve-token"), GetExtendedAgentCardRequest::default()));
    let card = card.await.unwrap().into_inner();
    assert_eq!(card.capabilities.unwrap().extended_agent_card, Some(true));
    assert!(
        card.supported_interfaces
            .iter()
            .any(|one| one.protocol_binding == "GRPC" && one.url == peer.address())
    );
    assert!(card.security_schemes.contains_key("bearer"), "{:?}", card.security_schemes);

    let canceled = client.cancel_task(by(Some("ada-token"), cancel)).await.unwrap().into_inner();
    assert_eq!(state(&canceled), TaskState::Canceled);
    peer.stop().await;
    system.shutdown().await.unwrap();
}
