//! The messages of protobuf carry what JSON carries: a task comes back as it was, numbers and content that nests deeper than
//! readers of protobuf go included.

use a2a_pb::{proto, protojson};
use proptest::prelude::*;
use prost::Message as _;
use proto_events::json::JsonText;
use proto_events::model::PostedTask;

use crate::a2a::grpc::answer;
use crate::a2a::grpc::params::Params as _;
use crate::a2a::mapping::numbers::whole;
use crate::a2a::mapping::task::{Own, to_a2a, to_ours};
use crate::a2a::mapping::tests as generated;
use crate::a2a::model;
use crate::a2a::wire::fields::WireFields;
use crate::a2a::wire::{DataForm, read, write};

/// Returns a task as a client has it that reads the bytes by the project's definition.
fn read_by_a_client(message: &proto::Task) -> model::Task {
    let read = protojson::Task::decode(message.encode_to_vec().as_slice()).unwrap();
    let mut json: serde_json::Value = serde_json::to_value(&read).unwrap();
    let status = &mut json["status"];
    if status["state"].is_null() {
        // The first value of an enumeration is left out, as everything that is usual.
        status["state"] = "TASK_STATE_UNSPECIFIED".into();
    }
    if let Some(time) = status["timestamp"].as_str() {
        status["timestamp"] = time.replace("+00:00", "Z").into();
    }
    let json = JsonText::parse(&json.to_string()).unwrap();
    read::task(DataForm::V1, &json, "").unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn back(task: &PostedTask) -> PostedTask {
    to_ours(read_by_a_client(&answer::task(&to_a2a(&Own::from(task)))))
}

/// Returns a message as the server has it that a client has sent.
fn sent(message: &model::Message) -> model::Message {
    let request = proto::SendMessageRequest {
        message: Some(answer::message(message)),
        ..proto::SendMessageRequest::default()
    };
    let arrived = proto::SendMessageRequest::decode(request.encode_to_vec().as_slice()).unwrap();
    let fields = WireFields::new(&arrived.params().unwrap(), "").unwrap();
    read::message(DataForm::V1, fields.get("message").unwrap(), "message").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_task_of_ours_comes_back_as_it_was(task in generated::task()) {
        prop_assert_eq!(generated::tree(&back(&task)), generated::tree(&task));
    }

    #[test]
    fn a_message_of_theirs_arrives_as_it_was_sent(message in generated::their_message()) {
        let json = |message: &model::Message| write::message(DataForm::V1, message).tree();
        prop_assert_eq!(json(&sent(&message)), json(&message));
    }

    #[test]
    fn an_event_tells_the_same_over_every_binding(task in generated::theirs()) {
        let mut task = task;
        // A time is a timestamp in protobuf, and an empty text stands for an absent one.
        task.status.timestamp = Some("2026-11-26T04:22:00.123Z".to_owned());
        for artifact in task.artifacts.iter_mut().flatten() {
            artifact.name = artifact.name.take().filter(|name| !name.is_empty());
            artifact.description = artifact.description.take().filter(|text| !text.is_empty());
        }
        let json = |task: &model::Task| whole(&write::task(DataForm::V1, task)).tree();
        prop_assert_eq!(json(&read_by_a_client(&answer::task(&task))), json(&task));
    }
}

#[test]
fn content_deeper_than_readers_of_protobuf_go_comes_back() {
    for depth in [24, 25, 100, 128] {
        let deep = JsonText::parse(&format!("{}1.0{}", "[".repeat(depth), "]".repeat(depth))).unwrap();
        let mut mint = taskreel::Ports::default();
        let message = proto_events::model::Message::new(
            "agent",
            vec![proto_events::model::Part::new("json", deep)],
            &mut mint,
        );
        let task = PostedTask::new(message, &mut mint);
        assert_eq!(generated::tree(&back(&task)), generated::tree(&task), "{depth}");
    }
}
