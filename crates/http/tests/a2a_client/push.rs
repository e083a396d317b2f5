//! The client's operations on webhooks, against our own server.

use std::sync::Arc;

use taskreel_http::A2a;
use taskreel_http::a2a::{ErrorKind, PushConfig, State, Version};

use crate::agent::{Gate, agent};
use crate::forge::say;
use crate::hook::{Hook, quick};
use crate::ours::{WAYS, client, handler, task_of};
use crate::support::actix;

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_registered_read_listed_removed_and_told_over_each_binding_in_each_version() {
    let (system, hook) = (agent(&Gate::shut()).await, Hook::start().await);
    let pushing = quick().start(&system).unwrap();
    let host = actix(Arc::new(A2a::new(system.clone()).push(&pushing))).await;
    for (at, way) in WAYS.into_iter().enumerate() {
        let client = client(&format!("http://{}", host.address), way).await;
        let asked = task_of(client.send(&say("ask")).await.unwrap());
        let url = hook.url(&format!("/ok/{at}"));
        let config = PushConfig::new(&url).id("one").token("tok").authentication("Bearer", "cred");
        assert!(!format!("{config:?}").contains("cred"));
        let made = client.set_push_config(&asked.id, &config).await.unwrap();
        assert_eq!((made.id.as_str(), &made.task_id, &made.url), ("one", &asked.id, &url), "{way:?}");
        assert_eq!((made.token.as_deref(), &made.authentication), (None, &Some(("Bearer".to_owned(), None))));
        assert_eq!(client.push_config(&asked.id, "one").await.unwrap(), made);
        let other = client.set_push_config(&asked.id, &PushConfig::new(&hook.url("/other"))).await.unwrap();
        let listed = client.push_configs(&asked.id, None).await.unwrap();
        assert_eq!((listed.configs, listed.next), (vec![made, other.clone()], None), "{way:?}");
        for _ in 0..2 {
            client.delete_push_config(&asked.id, &other.id).await.unwrap();
        }
        let unknown = client.push_config(&asked.id, &other.id).await.unwrap_err();
        assert_eq!(unknown.kind(), Some(ErrorKind::TaskNotFound), "{way:?}: {unknown}");
        task_of(client.send(&say_to(&asked.id)).await.unwrap());
        let seen = hook.until(&format!("/ok/{at}"), |seen| seen.iter().any(|one| is_end(&one.body))).await;
        assert!(seen.iter().all(|one| one.header("authorization") == Some("Bearer cred")));
        // With a message.
        let path = format!("/ok/message-{at}");
        let sent = client.send(&say("report").push_config(PushConfig::new(&hook.url(&path)).id("m"))).await;
        assert_eq!(task_of(sent.unwrap()).status.state, State::Completed);
        hook.until(&path, |seen| seen.iter().any(|one| is_end(&one.body))).await;
    }
    host.stop().await;
    pushing.stop().await;
    // An agent that calls no webhooks says so.
    let host = actix(handler(&system)).await;
    for way in WAYS {
        let client = client(&format!("http://{}", host.address), way).await;
        let refused =
            client.set_push_config("task_1", &PushConfig::new("http://example.com/")).await.unwrap_err();
        assert_eq!(refused.kind(), Some(ErrorKind::PushNotificationNotSupported), "{way:?}: {refused}");
        assert_eq!(way.0 == Version::V1, matches!(client.interface().version, Version::V1));
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

fn say_to(task: &str) -> taskreel_http::a2a::SendRequest {
    let parts = vec![taskreel_http::a2a::Part::text("Oslo")];
    taskreel_http::a2a::SendRequest::new(taskreel_http::a2a::Message::user("answer", parts).for_task(task))
}

fn is_end(body: &serde_json::Value) -> bool {
    let text = body.to_string();
    text.contains("TASK_STATE_COMPLETED") || body["status"]["state"] == "completed"
}
