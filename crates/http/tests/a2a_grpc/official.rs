//! The official client for Rust, which chooses a binding of the card: JSON-RPC, REST and gRPC.

use std::sync::Arc;

use a2a::event::StreamResponse;
use a2a::{
    AgentCard, CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Part, Role,
    SendMessageConfiguration, SendMessageRequest, SendMessageResponse, SubscribeToTaskRequest, Task,
    TaskState, error_code,
};
use a2a_client::agent_card::AgentCardResolver;
use a2a_client::{A2AClient, A2AClientFactory, Transport};
use a2a_grpc::GrpcTransportFactory;
use futures_util::StreamExt as _;
use taskreel_http::A2a;

use crate::agent::{Gate, agent};
use crate::peer::{peer_of, with_cryptography};
use crate::support::actix;

type Client = A2AClient<Box<dyn Transport>>;

fn sending(text: &str, task: Option<&Task>, at_once: bool) -> SendMessageRequest {
    let mut message = Message::new(Role::User, vec![Part::text(text)]);
    message.task_id = task.map(|task| task.id.clone());
    let configuration = SendMessageConfiguration {
        accepted_output_modes: None,
        task_push_notification_config: None,
        history_length: None,
        return_immediately: Some(at_once),
    };
    SendMessageRequest { message, configuration: Some(configuration), metadata: None, tenant: None }
}

async fn sent(client: &Client, request: SendMessageRequest) -> Task {
    match client.send_message(&request).await.unwrap() {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => panic!("{message:?}"),
    }
}

fn kind(event: &StreamResponse) -> &'static str {
    match event {
        StreamResponse::Task(_) => "task",
        StreamResponse::Message(_) => "message",
        StreamResponse::StatusUpdate(_) => "status",
        StreamResponse::ArtifactUpdate(_) => "artifact",
    }
}

/// Goes through the operations, and returns the card's interface that was chosen.
async fn round(card: &AgentCard, binding: &str) {
    let factory = A2AClientFactory::builder()
        .register(Arc::new(GrpcTransportFactory::new()))
        .preferred_bindings(vec![binding.to_owned()])
        .build();
    let (client, chosen) = factory.create_from_card_with_interface(card).await.unwrap();
    assert_eq!(chosen.protocol_binding, binding);

    let done = sent(&client, sending("hello", None, false)).await;
    assert_eq!(done.status.state, TaskState::Completed, "{binding}");
    assert_eq!(done.status.message.as_ref().unwrap().text(), Some("heard hello"), "{binding}");
    let get = |id: &str| GetTaskRequest { id: id.to_owned(), history_length: None, tenant: None };
    assert_eq!(client.get_task(&get(&done.id)).await.unwrap(), done, "{binding}");
    let unknown = client.get_task(&get("none")).await.unwrap_err();
    assert_eq!(unknown.code, error_code::TASK_NOT_FOUND, "{binding}");

    let asked = sent(&client, sending("ask", None, false)).await;
    assert_eq!(asked.status.state, TaskState::InputRequired, "{binding}");
    let follow = SubscribeToTaskRequest { id: asked.id.clone(), tenant: None };
    let mut followed = client.subscribe_to_task(&follow).await.unwrap();
    assert_eq!(kind(&followed.next().await.unwrap().unwrap()), "task", "{binding}");
    let answered = sent(&client, sending("Oslo", Some(&asked), false)).await;
    assert_eq!((answered.id.as_str(), &answered.status.state), (asked.id.as_str(), &TaskState::Completed));
    let rest: Vec<_> = followed.map(|event| kind(&event.unwrap())).collect().await;
    assert_eq!(rest, ["status", "status", "status"], "{binding}");

    let stream = client.send_streaming_message(&sending("report", None, false)).await.unwrap();
    let kinds: Vec<_> = stream.map(|event| kind(&event.unwrap())).collect().await;
    assert_eq!(kinds, ["task", "artifact", "artifact", "artifact", "status"], "{binding}");

    let at_work = sent(&client, sending("wait", None, true)).await;
    let cancel = CancelTaskRequest { id: at_work.id.clone(), metadata: None, tenant: None };
    assert_eq!(client.cancel_task(&cancel).await.unwrap().status.state, TaskState::Canceled, "{binding}");
    let cancel = CancelTaskRequest { id: done.id.clone(), metadata: None, tenant: None };
    let over = client.cancel_task(&cancel).await.unwrap_err();
    assert_eq!(over.code, error_code::TASK_NOT_CANCELABLE, "{binding}");

    let list = ListTasksRequest {
        context_id: Some(done.context_id.clone()),
        status: None,
        page_size: None,
        page_token: None,
        history_length: None,
        status_timestamp_after: None,
        include_artifacts: None,
        tenant: None,
    };
    let listed = client.list_tasks(&list).await.unwrap();
    assert_eq!(listed.tasks.iter().map(|task| &task.id).collect::<Vec<_>>(), [&done.id], "{binding}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_goes_through_the_operations_over_each_binding_of_the_card() {
    let system = agent(&Gate::shut()).await;
    let a2a = A2a::new(system.clone());
    let peer = peer_of(Arc::new(a2a.grpc())).await;
    a2a.grpc_at(&peer.address());
    let host = actix(Arc::new(a2a)).await;
    with_cryptography();
    let card = AgentCardResolver::new(None).resolve(&format!("http://{}", host.address)).await.unwrap();
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        round(&card, binding).await;
    }
    host.stop().await;
    peer.stop().await;
    system.shutdown().await.unwrap();
}
