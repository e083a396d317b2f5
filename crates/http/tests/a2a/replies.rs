//! Handlers that answer with a message alone, and tasks that wait for credentials.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskreel_http::{A2a, HttpHandler};

use crate::agent::{Gate, agent};
use crate::asked::{ALL, Binding, hosts, text_of};
use crate::streams::{id, kind, message, words};
use crate::support::{Named, hosts_of};

async fn total(binding: Binding, host: &crate::support::Host, params: Value) -> Value {
    binding.ask(host, "list", params).await.unwrap()["totalSize"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_may_answer_with_a_message_alone_whose_task_is_not_listed() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let before =
                if binding == Binding::Rpc03 { Value::Null } else { total(binding, &host, json!({})).await };
            let params = json!({"message": binding.message("reply", &Value::Null), "configuration": binding.blocking()});
            let answer = binding.ask(&host, "send", params).await.unwrap();
            let said = if binding == Binding::Rpc03 { &answer } else { &answer["message"] };
            assert_eq!(text_of(said), "only words", "{binding:?} {answer}");
            assert_eq!((&said["taskId"], said["contextId"].is_string()), (&Value::Null, true), "{answer}");
            if binding != Binding::Rpc03 {
                assert_eq!(total(binding, &host, json!({})).await, before, "{binding:?}");
            }
            // A client that does not wait is given the task, and finds the words in it.
            let params = json!({"message": binding.message("reply", &Value::Null), "configuration": binding.at_once()});
            let task = binding.task_of(&host, None, params).await.unwrap();
            let streamed = binding.frames(&host, "stream", &message(binding, "reply"), &[], usize::MAX).await;
            assert_eq!(words(binding, &streamed).last().unwrap(), "completed", "{binding:?}");
            assert!(binding.ask(&host, "get", json!({"id": task["id"]})).await.is_ok());
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_may_wait_for_a_reply_is_that_message_or_else_the_task_and_all_of_its_events() {
    let gate = Gate::shut();
    let system = agent(&gate).await;
    let handler = A2a::new(system.clone()).reply_wait(Duration::from_secs(20));
    let waiting = hosts_of(Arc::new(Named(Arc::new(handler) as Arc<dyn HttpHandler>))).await;
    let handler = A2a::new(system.clone()).reply_wait(Duration::from_millis(1));
    let hasty = hosts_of(Arc::new(Named(Arc::new(handler) as Arc<dyn HttpHandler>))).await;
    for (host, hasty) in waiting.into_iter().zip(hasty) {
        for binding in ALL {
            let frames = binding.frames(&host, "stream", &message(binding, "reply"), &[], usize::MAX).await;
            assert_eq!(frames.len(), 1, "{binding:?} {frames:?}");
            let (kind, said) = kind(binding, &frames[0].1);
            assert_eq!((kind.as_str(), text_of(&said).as_str()), ("message", "only words"));
            assert!(said["taskId"].is_null() && frames[0].0.is_none(), "{frames:?}");
            let frames = binding.frames(&host, "stream", &message(binding, "report"), &[], usize::MAX).await;
            let told = words(binding, &frames);
            assert_eq!(told[..2], ["working", "report first"], "the task and all of its events: {told:?}");
            assert_eq!(told.last().unwrap(), "completed");
            // Once the task was shown it stays the answer.
            let mut first = crate::support::connect(&hasty).await;
            first.write_all(&binding.request("stream", &message(binding, "reply late"), &[])).await.unwrap();
            first.head().await;
            let (place, begun) = first.frame().await.unwrap();
            let begun = [(place, binding.result(&begun).unwrap())];
            assert_eq!(words(binding, &begun), ["working"], "{binding:?}");
            gate.open();
            let mut rest = Vec::new();
            while let Some((place, event)) = first.frame().await {
                rest.push((place, binding.result(&event).unwrap()));
            }
            assert_eq!(words(binding, &rest), ["working", "completed"], "{binding:?}");
            let task = json!({"id": id(binding, &begun)});
            assert!(binding.ask(&hasty, "get", task).await.is_ok());
        }
        host.stop().await;
        hasty.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_credentials_says_so_everywhere_and_goes_on_with_a_message() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let asked = binding.task(&host, "log in").await;
            assert_eq!(
                asked["status"]["state"].as_str().unwrap(),
                binding.state("auth-required"),
                "{binding:?}"
            );
            assert_eq!(text_of(&asked["status"]["message"]), "Please log in");
            let read = binding.ask(&host, "get", json!({"id": asked["id"]})).await.unwrap();
            assert_eq!(read, asked, "{binding:?}");
            let streamed =
                binding.frames(&host, "stream", &message(binding, "log in"), &[], usize::MAX).await;
            assert_eq!(words(binding, &streamed), ["working", "auth-required"], "{binding:?}");
            if binding != Binding::Rpc03 {
                let context = json!({"contextId": asked["contextId"]});
                for (state, count) in [("auth-required", 1), ("input-required", 0)] {
                    let mut params = context.clone();
                    params["status"] = json!(binding.state(state));
                    assert_eq!(total(binding, &host, params).await, count, "{binding:?} {state}");
                }
            }
            let at = json!({"taskId": asked["id"], "messageId": "m2"});
            let params =
                json!({"message": binding.message("done", &at), "configuration": binding.blocking()});
            let done = binding.task_of(&host, None, params).await.unwrap();
            assert_eq!(done["status"]["state"].as_str().unwrap(), binding.state("completed"), "{binding:?}");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
