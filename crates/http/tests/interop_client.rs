//! The client against the real agents and registries of protolink 0.6.4 and 0.8.3, and delegation from ours to theirs. The
//! variables are those of `interop_protolink`.
#![cfg(all(unix, feature = "client"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod interop;
mod support;

use interop::packages;
use proto_events::json;
use proto_events::model::{
    AgentCard, HistoryCompactionRequest, Message, PostedTask, StateOperationRequest, TaskCancellationRequest,
    TaskState,
};
use support::{PATIENCE, builder};
use taskreel::infer::{Entry, Scripted};
use taskreel::{JsonText, Part, Ports};
use taskreel_http::AgentFilter;
use taskreel_http::protolink::{Client, ClientError, Remote};

fn client() -> Client {
    Client::new().unwrap().timeout(PATIENCE)
}

fn posted(part: Part) -> PostedTask {
    let mint = &mut Ports::default();
    PostedTask::new(Message::new("user", vec![part.hydrated(mint).unwrap()], mint), mint)
}

fn call(tool: &str, args: proto_events::json::JsonValue) -> PostedTask {
    posted(Part::tool_call(tool, args).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_sends_streams_cancels_and_reads_the_card_of_their_agent() {
    for package in packages() {
        let (at, theirs) = (package.version, package.agent("theirs", "sse", &[]));
        let client = client();
        assert_eq!(client.get_agent_card(&theirs.url).await.unwrap().name, "theirs", "{at}");
        let done = client.send_task(&theirs.url, &call("add", json!({"a": 1, "b": 2}))).await.unwrap();
        assert_eq!((done.state, done.output().unwrap().as_str()), (TaskState::Completed, "3"), "{at}");
        // 0.8.3 adds types of events (`action.requested`), which our client does not read.
        if at == "0.6.4" {
            let mut stream =
                client.send_task_streaming(&theirs.url, &call("echo", json!({"text": "ø"}))).await.unwrap();
            let mut count = 0;
            while let Some(event) = stream.next().await {
                event.unwrap();
                count += 1;
            }
            assert!(count >= 3, "{at}: {count} events");
        }
        let slow = call("slow", json!({}));
        let (id, url) = (slow.id.clone(), theirs.url.clone());
        let sender = client.clone();
        let sent = tokio::spawn(async move { sender.send_task(&url, &slow).await });
        let request = JsonText::of_model(&json!({"id": id, "reason": "enough"}));
        let request = TaskCancellationRequest::from_json(&request).unwrap();
        // It is unknown there until it has come in.
        let canceled = loop {
            match client.cancel_task(&theirs.url, &request).await {
                Ok(task) => break task,
                Err(error) => assert!(!sent.is_finished(), "{at}: {error}"),
            }
        };
        assert_eq!(canceled.state, TaskState::Canceled, "{at}");
        assert_eq!(sent.await.unwrap().unwrap().state, TaskState::Canceled, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_describes_compacts_and_resets_the_state_of_their_agent() {
    for package in packages() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.db");
        let (at, theirs) =
            (package.version, package.agent("theirs", "http", &["--state", file.to_str().unwrap()]));
        let client = client();
        for prompt in ["first", "second", "third"] {
            let mut task = posted(Part::infer(prompt));
            task.metadata.set("session_id", JsonText::string("s"));
            let done = client.send_task(&theirs.url, &task).await.unwrap();
            assert_eq!(done.state, TaskState::Completed, "{at}");
        }
        let of =
            |more: proto_events::json::JsonValue| StateOperationRequest::from_json(&more.to_text()).unwrap();
        let request = of(json!({"session_id": "s"}));
        let described = client.describe_state(&theirs.url, &request).await.unwrap();
        assert_eq!(described.stores[0].message_count, Some(7), "{at}");
        let compact = of(json!({"session_id": "s", "strategy": "recent", "max_messages": 5}));
        let compacted = client.compact_state(&theirs.url, &compact).await.unwrap();
        assert_eq!(compacted.compacted, ["conversation"], "{at}");
        let history = json!({"session_id": "s", "strategy": "recent", "max_messages": 3}).to_text();
        let history = HistoryCompactionRequest::from_json(&history).unwrap();
        let compacted = client.compact_history(&theirs.url, &history).await.unwrap();
        assert_eq!(compacted.after_messages, 3, "{at}");
        let reset = client.reset_state(&theirs.url, &request).await.unwrap();
        assert_eq!(reset.cleared, ["conversation"], "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_finds_an_agent_of_theirs_in_their_registry_and_delegates_to_it() {
    for package in packages() {
        let (at, registry) = (package.version, package.registry());
        let theirs = package.agent("theirs", "http", &["--registry", &registry.url]);
        let client = client();
        let own = json!({"name": "ours", "description": "d", "url": "http://127.0.0.1:9"}).to_text();
        client.register(&registry.url, &AgentCard::from_json(&own).unwrap()).await.unwrap();
        assert!(client.heartbeat(&registry.url, "http://127.0.0.1:9").await.unwrap(), "{at}");
        let all = client.discover(&registry.url, &AgentFilter::new()).await.unwrap();
        assert_eq!(all.len(), 2, "{at}");
        client.unregister(&registry.url, "http://127.0.0.1:9").await.unwrap();
        let remote = Remote::find(&client, &registry.url, "theirs").await.unwrap();
        let script = Scripted::new([
            Entry::json(
                &json!({"type": "agent_call", "agent": "theirs", "action": "tool_call", "tool": "echo", "args": {"text": "hello"}}),
            ),
            Entry::json(&json!({"type": "final", "content": "they answered"})),
        ]);
        let system = builder().infer(script).peer(remote).start().await.unwrap();
        let done = system.submit(Part::infer("ask them")).await.unwrap().finished().await.unwrap();
        assert_eq!(done.state(), TaskState::Completed, "{at}: {:?}", done.error());
        let succeeded = done.task().calls().iter().any(|call| {
            call.request.target == "theirs"
                && matches!(call.status, proto_events::call::CallStatus::Succeeded(_))
        });
        assert!(succeeded, "{at}: the question to them is a recorded call");
        system.shutdown().await.unwrap();
        drop(theirs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_sends_streams_and_cancels_through_the_web_socket_of_their_agent() {
    for package in packages() {
        let (at, theirs) = (package.version, package.agent("theirs", "websocket", &[]));
        let client = client();
        assert_eq!(client.get_agent_card(&theirs.url).await.unwrap().name, "theirs", "{at}");
        // Theirs carries out the requests of a socket one after another; each gets its own answer all the same.
        let tasks: Vec<_> = (0..8).map(|number| call("add", json!({"a": number, "b": 1}))).collect();
        let sent = tasks.iter().map(|task| client.send_task(&theirs.url, task));
        for (number, done) in futures_util::future::join_all(sent).await.into_iter().enumerate() {
            let done = done.unwrap();
            assert_eq!(done.output().unwrap().as_str(), (number + 1).to_string(), "{at}");
        }
        let mut stream =
            client.send_task_streaming(&theirs.url, &call("echo", json!({"text": "ø"}))).await.unwrap();
        let mut count = 0;
        while let Some(event) = stream.next().await {
            event.unwrap();
            count += 1;
        }
        assert!(count >= 3, "{at}: {count} events");
        let request = JsonText::of_model(&json!({"id": "nobody"}));
        let request = TaskCancellationRequest::from_json(&request).unwrap();
        let refused = client.cancel_task(&theirs.url, &request).await.unwrap_err();
        assert!(matches!(&refused, ClientError::Refused { .. }), "{at}: {refused:?}");
        // A cancel does not wait behind the task that it cancels.
        let slow = call("slow", json!({}));
        let (id, url, sender) = (slow.id.clone(), theirs.url.clone(), client.clone());
        let sent = tokio::spawn(async move { sender.send_task(&url, &slow).await });
        let request = JsonText::of_model(&json!({"id": id, "reason": "enough"}));
        let request = TaskCancellationRequest::from_json(&request).unwrap();
        let canceled = loop {
            match client.cancel_task(&theirs.url, &request).await {
                Ok(task) => break task,
                Err(error) => assert!(!sent.is_finished(), "{at}: {error}"),
            }
        };
        assert_eq!(canceled.state, TaskState::Canceled, "{at}");
        assert_eq!(sent.await.unwrap().unwrap().state, TaskState::Canceled, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_stays_registered_with_their_registry_which_forgets_all_when_it_ends() {
    for package in packages() {
        let (at, port) = (package.version, interop::port());
        let first = package.registry_at(port);
        let url = first.url.clone();
        let card = AgentCard::new("ours", "Answers", "http://127.0.0.1:9");
        let every = std::time::Duration::from_millis(500);
        let registration = client().keep_registered(&url, vec![card], every).unwrap();
        let known = async |client: &Client| {
            client.discover(&url, &AgentFilter::new()).await.map_or(0, |cards| cards.len())
        };
        let client = client();
        let until = async |count: usize| {
            let began = std::time::Instant::now();
            while known(&client).await != count {
                assert!(began.elapsed() < PATIENCE, "{at}");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        until(1).await;
        while registration.watch().status().heartbeats < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(
            registration.watch().status().registrations,
            1,
            "{at}: their registry hears its heartbeats"
        );
        drop(first);
        let second = package.registry_at(port);
        until(1).await;
        assert_eq!(registration.watch().status().registrations, 2, "{at}");
        registration.stop().await;
        assert_eq!(known(&client).await, 0, "{at}");
        drop(second);
    }
}
