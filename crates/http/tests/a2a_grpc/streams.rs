//! Streams: every subscriber hears the same, a place is taken up again, and nobody who goes away disturbs anything.

use std::time::Duration;

use a2a_pb::proto::TaskState;
use futures_util::future::join_all;
use taskreel::System;
use tonic::{Code, Request};

use crate::agent::{Gate, agent, with_handler};
use crate::peer::{
    all, at_once, client_of, follow, message, next, peer, place, sending, sent, told, up_to_end,
};
use crate::support::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_after_each_place_without_gap_or_repeat_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = || async { with_handler(System::builder(dir.path()), &Gate::shut()).start().await.unwrap() };
    let system = start().await;
    let first = peer(&system).await;
    let stream = first.client.clone().send_streaming_message(sending(message("report"))).await.unwrap();
    let whole = all(stream.into_inner()).await;
    let id = whole[0].clone().payload.unwrap();
    let a2a_pb::proto::stream_response::Payload::Task(task) = id else { panic!("{id:?}") };
    let check = |client| {
        let (whole, id) = (whole.clone(), task.id.clone());
        async move {
            for (at, event) in whole.iter().enumerate() {
                for place in [place(event), told(event).1.to_string()] {
                    let rest = all(follow(&client, &id, Some(&place)).await.unwrap()).await;
                    assert_eq!(rest, whole[at + 1..], "after {place}");
                }
            }
        }
    };
    check(first.client.clone()).await;
    first.stop().await;
    system.shutdown().await.unwrap();

    let system = start().await;
    let second = peer(&system).await;
    check(second.client.clone()).await;
    second.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_subscribers_hear_the_same_and_those_who_leave_disturb_nobody() {
    let gate = Gate::shut();
    let system = agent(&gate).await;
    let peer = peer(&system).await;
    let task = sent(&peer.client, at_once("wait")).await;
    let mut streams = Vec::new();
    // Over several connections: one has a bound.
    for _ in 0..4 {
        let client = client_of(&peer.serving).await;
        let opened = join_all((0..250).map(|_| follow(&client, &task.id, None))).await;
        streams.extend(opened.into_iter().map(Result::unwrap));
    }
    for stream in &mut streams {
        assert_eq!(told(&next(stream).await).0, "task");
    }
    let kept: Vec<_> =
        streams.into_iter().enumerate().filter(|(at, _)| at % 2 == 0).map(|(_, one)| one).collect();
    gate.open();
    let heard = join_all(kept.into_iter().map(all)).await;
    assert!(!heard[0].is_empty());
    // Those that came while the agent spoke have the words in their first event.
    let last = |events: &Vec<_>| events.last().cloned();
    assert!(heard.iter().all(|events| last(events) == last(&heard[0])), "{heard:?}");
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_a_deadline_nor_a_caller_who_gives_up_cancels_anything_of_the_task() {
    let gate = Gate::shut();
    let system = agent(&gate).await;
    let peer = peer(&system).await;
    let mut client = peer.client.clone();
    // The time of the call is over while the agent is at work.
    let mut request = Request::new(sending(message("wait")));
    request.set_timeout(Duration::from_millis(100));
    let late = client.send_message(request).await.unwrap_err();
    assert!(matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled), "{late:?}");
    // The caller drops the call.
    let dropped =
        tokio::time::timeout(Duration::from_millis(100), client.send_message(sending(message("wait")))).await;
    assert!(dropped.is_err());
    // The caller drops a stream.
    let mut stream = client.send_streaming_message(sending(message("wait"))).await.unwrap().into_inner();
    next(&mut stream).await;
    drop(stream);
    for _ in 0..3 {
        gate.open();
    }
    let done = async {
        loop {
            let list = a2a_pb::proto::ListTasksRequest {
                status: TaskState::Completed.into(),
                ..a2a_pb::proto::ListTasksRequest::default()
            };
            if client.list_tasks(list).await.unwrap().into_inner().total_size == 3 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, done).await.expect("all three are completed");
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_stream_ends_it_with_its_status() {
    let gate = Gate::shut();
    let system = agent(&gate).await;
    let peer = peer(&system).await;
    // As a header, so that the server is the one that keeps it.
    let mut request = Request::new(sending(message("wait")));
    request.metadata_mut().insert("grpc-timeout", "300m".parse().unwrap());
    let stream = peer.client.clone().send_streaming_message(request).await.unwrap();
    let (events, end) = up_to_end(stream.into_inner()).await;
    assert_eq!(told(&events[0]).0, "task");
    assert_eq!(end.unwrap().code(), Code::DeadlineExceeded);
    gate.open();
    peer.stop().await;
    system.shutdown().await.unwrap();
}
