//! A server of gRPC and its client, as its definition generates it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2a_pb::proto::a2a_service_client::A2aServiceClient;
use a2a_pb::proto::{
    Message, Part, Role, SendMessageConfiguration, SendMessageRequest, StreamResponse,
    SubscribeToTaskRequest, Task, TaskState, part, send_message_response, stream_response,
};
use prost::Message as _;
use taskreel::System;
use taskreel_http::{A2a, HttpHandler, RunningServer, Server};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use crate::support::PATIENCE;

/// The client.
pub(crate) type Client = A2aServiceClient<Channel>;

/// A server with a client.
pub(crate) struct Peer {
    pub(crate) client: Client,
    pub(crate) serving: RunningServer,
}

impl Peer {
    pub(crate) fn address(&self) -> String {
        self.serving.address().to_string()
    }

    pub(crate) async fn stop(self) {
        drop(self.client);
        self.serving.stop().await.unwrap();
    }
}

/// Gives the process its cryptography, which clients of HTTP ask for though nothing here is encrypted.
pub(crate) fn with_cryptography() {
    // Another test may have done so.
    let _first = rustls::crypto::ring::default_provider().install_default();
}

/// Serves the agents of a system.
pub(crate) async fn peer(system: &System) -> Peer {
    peer_of(Arc::new(A2a::new(system.clone()).grpc())).await
}

pub(crate) async fn peer_of(handler: Arc<dyn HttpHandler>) -> Peer {
    peer_with(Server::new().grace(Duration::from_millis(200)), handler).await
}

pub(crate) async fn peer_with(server: Server, handler: Arc<dyn HttpHandler>) -> Peer {
    let serving = server.workers(2).mount("/", handler).start_grpc("127.0.0.1:0").await.unwrap();
    Peer { client: client_of(&serving).await, serving }
}

pub(crate) async fn client_of(serving: &RunningServer) -> Client {
    A2aServiceClient::connect(format!("http://{}", serving.address()))
        .await
        .unwrap()
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX)
}

/// Returns a message of the user.
pub(crate) fn message(text: &str) -> Message {
    Message {
        message_id: "m1".to_owned(),
        role: Role::User.into(),
        parts: vec![of_text(text)],
        ..Message::default()
    }
}

pub(crate) fn of_text(text: &str) -> Part {
    Part { content: Some(part::Content::Text(text.to_owned())), ..Part::default() }
}

/// Returns a request to send a message.
pub(crate) fn sending(message: Message) -> SendMessageRequest {
    SendMessageRequest { message: Some(message), ..SendMessageRequest::default() }
}

/// Returns a request to send a message whose sender does not wait.
pub(crate) fn at_once(text: &str) -> SendMessageRequest {
    let configuration = SendMessageConfiguration { return_immediately: true, ..Default::default() };
    SendMessageRequest { configuration: Some(configuration), ..sending(message(text)) }
}

/// Sends, and returns the task.
pub(crate) async fn sent(client: &Client, request: SendMessageRequest) -> Task {
    match client.clone().send_message(request).await.unwrap().into_inner().payload {
        Some(send_message_response::Payload::Task(task)) => task,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn state(task: &Task) -> TaskState {
    task.status.as_ref().unwrap().state()
}

/// Returns the words of the agent about the state.
pub(crate) fn said(task: &Task) -> String {
    text_of(task.status.as_ref().unwrap().message.as_ref().unwrap())
}

pub(crate) fn text_of(message: &Message) -> String {
    match &message.parts[0].content {
        Some(part::Content::Text(text)) => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns the kind of an event, with the number of changes so far, by which a stream continues.
pub(crate) fn told(event: &StreamResponse) -> (&'static str, u64) {
    let (kind, metadata) = match event.payload.as_ref().unwrap() {
        stream_response::Payload::Task(task) => ("task", &task.metadata),
        stream_response::Payload::Message(message) => ("message", &message.metadata),
        stream_response::Payload::StatusUpdate(update) => ("status", &update.metadata),
        stream_response::Payload::ArtifactUpdate(update) => ("artifact", &update.metadata),
    };
    let own = &metadata.as_ref().unwrap().fields["urn:taskreel:a2a:protolink:v1"];
    let Some(prost_types::value::Kind::StructValue(own)) = &own.kind else { panic!("{own:?}") };
    let Some(prost_types::value::Kind::StringValue(generation)) = &own.fields["generation"].kind else {
        panic!("{own:?}")
    };
    (kind, generation.parse().unwrap())
}

/// Returns the place of an event.
pub(crate) fn place(event: &StreamResponse) -> String {
    let metadata = match event.payload.as_ref().unwrap() {
        stream_response::Payload::Task(task) => &task.metadata,
        stream_response::Payload::Message(message) => &message.metadata,
        stream_response::Payload::StatusUpdate(update) => &update.metadata,
        stream_response::Payload::ArtifactUpdate(update) => &update.metadata,
    };
    let place = &metadata.as_ref().unwrap().fields["urn:taskreel:a2a:resume:v1"];
    let Some(prost_types::value::Kind::StringValue(place)) = &place.kind else { panic!("{place:?}") };
    place.clone()
}

/// Returns the events up to the end of the stream, which must be one in order.
pub(crate) async fn all(stream: Streaming<StreamResponse>) -> Vec<StreamResponse> {
    let (events, end) = up_to_end(stream).await;
    assert!(end.is_none(), "{end:?}");
    events
}

/// Returns the events, and the status with which the stream broke off.
pub(crate) async fn up_to_end(
    mut stream: Streaming<StreamResponse>,
) -> (Vec<StreamResponse>, Option<Status>) {
    let mut events = Vec::new();
    loop {
        match tokio::time::timeout(PATIENCE, stream.message()).await.expect("the stream ends in time") {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(status) => return (events, Some(status)),
        }
    }
}

/// Returns the next event.
pub(crate) async fn next(stream: &mut Streaming<StreamResponse>) -> StreamResponse {
    tokio::time::timeout(PATIENCE, stream.message()).await.unwrap().unwrap().unwrap()
}

/// Follows a task, after a place if one is given.
pub(crate) async fn follow(
    client: &Client,
    id: &str,
    after: Option<&str>,
) -> Result<Streaming<StreamResponse>, Status> {
    let mut request =
        Request::new(SubscribeToTaskRequest { id: id.to_owned(), ..SubscribeToTaskRequest::default() });
    if let Some(after) = after {
        request.metadata_mut().insert("last-event-id", after.parse().unwrap());
    }
    Ok(client.clone().subscribe_to_task(request).await?.into_inner())
}

/// `google.rpc.Status`, as far as it is read here.
#[derive(Clone, PartialEq, prost::Message)]
struct Details {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Info {
    #[prost(string, tag = "1")]
    pub(crate) reason: String,
    #[prost(string, tag = "2")]
    pub(crate) domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) metadata: BTreeMap<String, String>,
}

/// `google.rpc.BadRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct Bad {
    #[prost(message, repeated, tag = "1")]
    wrong: Vec<Wrong>,
}

/// `google.rpc.BadRequest.FieldViolation`.
#[derive(Clone, PartialEq, prost::Message)]
struct Wrong {
    #[prost(string, tag = "1")]
    field: String,
}

fn detail(status: &Status, name: &str) -> Option<Vec<u8>> {
    let whole = Details::decode(status.details()).unwrap();
    assert_eq!(whole.code, i32::from(status.code()), "{status:?}");
    let named = format!("type.googleapis.com/google.rpc.{name}");
    whole.details.into_iter().find(|detail| detail.type_url == named).map(|detail| detail.value)
}

/// Returns the reason of a status for programs.
pub(crate) fn info(status: &Status) -> Info {
    detail(status, "ErrorInfo").map_or_else(Info::default, |info| Info::decode(info.as_slice()).unwrap())
}

/// Returns the fields that were wrong.
pub(crate) fn wrong(status: &Status) -> Vec<String> {
    let bad =
        detail(status, "BadRequest").map_or_else(Bad::default, |bad| Bad::decode(bad.as_slice()).unwrap());
    bad.wrong.into_iter().map(|wrong| wrong.field).collect()
}
