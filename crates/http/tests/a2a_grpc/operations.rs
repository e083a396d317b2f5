//! Every operation, and that a task is the same over every binding.

use std::sync::Arc;

use a2a_pb::proto::{
    CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Part, SendMessageRequest, TaskState, part,
};
use a2a_pb::{proto, protojson};
use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::json;
use taskreel::System;
use taskreel::handler::HandlerEnd;
use taskreel::tool::ToolError;
use taskreel_http::{A2a, Mounted, Server};
use taskreel_log::memory::MemoryStore;

use crate::agent::{Gate, agent, with_handler};
use crate::peer::{all, at_once, follow, message, peer, peer_of, said, sending, sent, state, told};
use crate::support::{actix, request, send};

fn get(id: &str) -> GetTaskRequest {
    GetTaskRequest { id: id.to_owned(), ..GetTaskRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_sent_read_continued_listed_and_canceled() {
    let system = agent(&Gate::shut()).await;
    let peer = peer(&system).await;
    let mut client = peer.client.clone();

    let done = sent(&client, sending(message("hello"))).await;
    assert_eq!((state(&done), said(&done).as_str()), (TaskState::Completed, "heard hello"));
    assert_eq!(done.history.len(), 2);
    assert_eq!(client.get_task(get(&done.id)).await.unwrap().into_inner(), done);
    for (length, shown) in [(0, 0), (1, 1), (9, 2)] {
        let shorter = GetTaskRequest { history_length: Some(length), ..get(&done.id) };
        assert_eq!(client.get_task(shorter).await.unwrap().into_inner().history.len(), shown);
    }

    let asked = sent(&client, sending(message("ask"))).await;
    assert_eq!((state(&asked), said(&asked).as_str()), (TaskState::InputRequired, "Which city?"));
    let reply =
        Message { task_id: asked.id.clone(), context_id: asked.context_id.clone(), ..message("Oslo") };
    let answered = sent(&client, sending(reply)).await;
    assert_eq!((answered.id.as_str(), state(&answered)), (asked.id.as_str(), TaskState::Completed));

    let at_work = sent(&client, at_once("wait")).await;
    assert!(!matches!(state(&at_work), TaskState::Completed), "{at_work:?}");
    let cancel = CancelTaskRequest { id: at_work.id.clone(), ..CancelTaskRequest::default() };
    assert_eq!(state(&client.cancel_task(cancel.clone()).await.unwrap().into_inner()), TaskState::Canceled);
    assert_eq!(state(&client.cancel_task(cancel).await.unwrap().into_inner()), TaskState::Canceled);

    let mut request = ListTasksRequest { page_size: Some(2), ..ListTasksRequest::default() };
    let mut listed = Vec::new();
    loop {
        let page = client.list_tasks(request.clone()).await.unwrap().into_inner();
        assert_eq!((page.page_size, page.total_size), (2, 3));
        listed.extend(page.tasks.into_iter().map(|task| task.id));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, [&at_work.id, &answered.id, &done.id].map(String::clone), "newest first");
    let unset = ListTasksRequest { page_size: Some(0), ..ListTasksRequest::default() };
    let unset = client.list_tasks(unset).await.unwrap().into_inner();
    assert_eq!(unset.tasks.len(), 3, "zero is what clients send that set no size");
    let completed = ListTasksRequest { status: TaskState::Completed.into(), ..ListTasksRequest::default() };
    let completed = client.list_tasks(completed).await.unwrap().into_inner();
    assert_eq!(completed.tasks.len(), 2);
    let of_context = ListTasksRequest { context_id: done.context_id.clone(), ..ListTasksRequest::default() };
    assert_eq!(client.list_tasks(of_context).await.unwrap().into_inner().tasks[0].id, done.id);
    let since = answered.status.unwrap().timestamp;
    let since = ListTasksRequest { status_timestamp_after: since, ..ListTasksRequest::default() };
    let since = client.list_tasks(since).await.unwrap().into_inner();
    assert!(since.tasks.iter().all(|task| task.id != done.id), "{since:?}");
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_the_task_and_tells_pieces_and_states() {
    let system = agent(&Gate::shut()).await;
    let peer = peer(&system).await;
    let stream = peer.client.clone().send_streaming_message(sending(message("report"))).await.unwrap();
    let events = all(stream.into_inner()).await;
    let kinds: Vec<_> = events.iter().map(|event| told(event).0).collect();
    assert_eq!(kinds, ["task", "artifact", "artifact", "artifact", "status"]);
    let Some(proto::stream_response::Payload::ArtifactUpdate(second)) = &events[2].payload else { panic!() };
    assert!(second.append && second.last_chunk, "{second:?}");
    peer.stop().await;
    system.shutdown().await.unwrap();
}

fn number(number: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(number)) }
}

fn object(members: Vec<(&str, Value)>) -> Struct {
    Struct { fields: members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

/// Returns a message with a part of each kind, and all that a message has beside them.
fn rich() -> Message {
    let list = Value { kind: Some(Kind::ListValue(ListValue { values: vec![number(1.0), number(2.5)] })) };
    let data = object(vec![("count", number(42.0)), ("share", number(0.1)), ("list", list)]);
    let parts = [
        part::Content::Text("echo".to_owned()),
        part::Content::Raw(vec![0, 255, 7]),
        part::Content::Url("https://example.com/a.txt".to_owned()),
        part::Content::Data(Value { kind: Some(Kind::StructValue(data)) }),
        part::Content::Data(Value { kind: Some(Kind::NullValue(0)) }),
    ];
    let part = |content| Part {
        content: Some(content),
        metadata: Some(object(vec![("k", number(3.0))])),
        filename: "a.txt".to_owned(),
        media_type: "text/plain".to_owned(),
    };
    Message {
        parts: parts.into_iter().map(part).collect(),
        context_id: "context-1".to_owned(),
        metadata: Some(object(vec![("trace", Value { kind: Some(Kind::StringValue("t".to_owned())) })])),
        extensions: vec!["urn:other".to_owned()],
        reference_task_ids: vec!["another".to_owned()],
        ..message("")
    }
}

/// Returns JSON without what protobuf's JSON may leave out, with its numbers as doubles.
fn plainly(json: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match json {
        Json::Number(number) => json!(number.as_f64()),
        Json::Array(items) => items.iter().map(plainly).collect(),
        Json::Object(members) => {
            let kept =
                members.iter().filter(|(_, value)| value.as_array().is_none_or(|items| !items.is_empty()));
            kept.map(|(name, value)| (name.clone(), plainly(value))).collect()
        }
        // Two ways to write the same zone.
        Json::String(text) => json!(text.replace("+00:00", "Z")),
        other => other.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_back_as_it_was_sent_and_is_the_same_over_rest() {
    let system = agent(&Gate::shut()).await;
    let a2a = A2a::new(system.clone());
    let peer = peer_of(Arc::new(a2a.grpc())).await;
    let host = actix(Arc::new(a2a)).await;
    let task = sent(&peer.client, sending(rich())).await;
    let kept = &task.history[0];
    let mut expected = rich();
    expected.task_id.clone_from(&task.id);
    let plain = Message { metadata: expected.metadata.clone(), ..kept.clone() };
    assert_eq!(plain.parts.len(), 5);
    for (kept, sent) in plain.parts.iter().zip(&expected.parts) {
        assert_eq!(
            (&kept.content, &kept.filename, &kept.media_type),
            (&sent.content, &sent.filename, &sent.media_type)
        );
        assert_eq!(kept.metadata.as_ref().unwrap().fields["k"], sent.metadata.as_ref().unwrap().fields["k"]);
    }
    assert_eq!(
        (plain.message_id, plain.context_id, plain.task_id, plain.extensions, plain.reference_task_ids),
        (
            expected.message_id,
            expected.context_id,
            expected.task_id,
            expected.extensions,
            expected.reference_task_ids
        )
    );
    // The JSON of REST, read by the official types, is the same message as that of gRPC.
    let path = format!("/tasks/{}", task.id);
    let rest = send(&host, &request("GET", &path, &[("a2a-version", "1.0")], "")).await;
    let same = protojson::Task::decode(task.encode_to_vec().as_slice()).unwrap();
    assert_eq!(plainly(&rest.json()), plainly(&serde_json::to_value(same).unwrap()));
    host.stop().await;
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_protobuf_does_not_hold_has_its_text_beside_it() {
    let system = agent(&Gate::shut()).await;
    let a2a = A2a::new(system.clone());
    let peer = peer_of(Arc::new(a2a.grpc())).await;
    let host = actix(Arc::new(a2a)).await;
    let body =
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}, {"data": [0]}]}});
    // An integer beyond 2^53, a float as nobody prints it, and objects that protobuf does not read for their depth.
    let deep = format!("{}1{}", "{\"a\":[".repeat(40), "]}".repeat(40));
    let exact = &format!("{{\"big\":9007199254740993,\"odd\":[0.10],\"deep\":{deep}}}");
    let body = body.to_string().replace("[0]", exact);
    let headers = [("a2a-version", "1.0"), ("content-type", "application/json")];
    let sent = send(&host, &request("POST", "/message:send", &headers, &body)).await.json();
    let task =
        peer.client.clone().get_task(get(sent["task"]["id"].as_str().unwrap())).await.unwrap().into_inner();
    let part = &task.history[0].parts[1];
    let own = &part.metadata.as_ref().unwrap().fields["urn:taskreel:a2a:protolink:v1"];
    let Some(Kind::StructValue(own)) = &own.kind else { panic!("{part:?}") };
    assert_eq!(own.fields["json"].kind, Some(Kind::StringValue(exact.clone())), "{part:?}");
    // Sent back over gRPC, it is the same content.
    let again = Message { parts: task.history[0].parts.clone(), ..message("") };
    let again = crate::peer::sent(&peer.client, sending(again)).await;
    assert_eq!(again.history[0].parts[1], *part);
    host.stop().await;
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_a_message_one_task_and_no_key_makes_two() {
    let system = agent(&Gate::shut()).await;
    let peer = peer(&system).await;
    let keyed = |text: &str, key: Option<&str>| {
        let mut request = tonic::Request::new(sending(message(text)));
        if let Some(key) = key {
            request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
        }
        let mut client = peer.client.clone();
        async move { client.send_message(request).await.map(tonic::Response::into_inner) }
    };
    let first = keyed("hello", Some("k")).await.unwrap();
    assert_eq!(keyed("hello", Some("k")).await.unwrap(), first);
    assert_ne!(keyed("hello", None).await.unwrap(), first);
    assert_eq!(keyed("other", Some("k")).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tenant_names_the_agent_and_the_card_names_the_port() {
    let gate = Gate::shut();
    let system = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let system = with_handler(system, &gate)
        .agent("second", |agent| {
            agent.handler(|_, _| async { Ok::<_, ToolError>(HandlerEnd::Rejected("no".into())) })
        })
        .start()
        .await
        .unwrap();
    let a2a = A2a::new(system.clone());
    let peer = peer_of(Arc::new(a2a.grpc())).await;
    a2a.grpc_at(&peer.address());
    let of = |tenant: &str| SendMessageRequest { tenant: tenant.to_owned(), ..sending(message("hello")) };
    assert_eq!(state(&sent(&peer.client, of("")).await), TaskState::Completed);
    assert_eq!(state(&sent(&peer.client, of("second")).await), TaskState::Rejected);
    let refused = peer.client.clone().send_message(of("third")).await.unwrap_err();
    assert_eq!(crate::peer::wrong(&refused), ["tenant"]);

    let host = actix(Arc::new(Mounted::new().mount("/", Arc::new(a2a)))).await;
    for (path, tenant) in [("", system.agent_name()), ("/second", "second")] {
        let card =
            send(&host, &request("GET", &format!("{path}/.well-known/agent-card.json"), &[], "")).await;
        let card = card.json();
        let of_grpc = json!({
            "url": peer.address(), "protocolBinding": "GRPC", "tenant": tenant, "protocolVersion": "1.0",
        });
        assert!(card["supportedInterfaces"].as_array().unwrap().contains(&of_grpc), "{card}");
    }
    host.stop().await;
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_names_the_host_of_its_own_address_where_the_port_has_none() {
    let system = agent(&Gate::shut()).await;
    let a2a = A2a::new(system.clone());
    a2a.grpc_at("0.0.0.0:50051");
    let host = actix(Arc::new(a2a)).await;
    let card = send(&host, &request("GET", "/.well-known/agent-card.json", &[], "")).await.json();
    let interfaces = card["supportedInterfaces"].as_array().unwrap();
    let grpc = interfaces.iter().find(|one| one["protocolBinding"] == "GRPC").unwrap();
    let named = card["url"].as_str().unwrap().trim_start_matches("http://");
    let named = named.rsplit_once(':').map_or(named, |(host, _)| host);
    assert_eq!(grpc["url"], format!("{named}:50051"));
    assert!(grpc.get("tenant").is_none(), "{grpc}");
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_above_the_usual_bound_of_grpc_is_taken_and_comes_back() {
    let system = agent(&Gate::shut()).await;
    let peer = crate::peer::peer_with(Server::new(), Arc::new(A2a::new(system.clone()).grpc())).await;
    let text = "x".repeat(5 * 1024 * 1024);
    let task = sent(&peer.client, sending(message(&text))).await;
    assert_eq!(crate::peer::text_of(&task.history[0]).len(), text.len());
    let stream = follow(&peer.client, &task.id, Some("0")).await.unwrap();
    assert!(!all(stream).await.is_empty());
    peer.stop().await;
    system.shutdown().await.unwrap();
}
