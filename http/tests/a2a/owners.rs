//! Tasks and contexts of somebody else do not exist.

use serde_json::{Value, json};

use crate::agent::{Door, agent};
use crate::asked::{ALL, hosts};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_another_is_not_found_whatever_is_asked_and_not_even_control_shows_it() {
    let system = agent(&Door::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let message = binding.message("ask", &Value::Null);
            let params = json!({"message": message, "configuration": binding.blocking()});
            let task = binding.task_of(&host, Some("ada"), params).await.unwrap();
            let unknown = if binding.is_rpc() { -32001 } else { 404 };
            let at = json!({"taskId": task["id"]});
            let follow = json!({"message": binding.message("Oslo", &at)});
            for caller in ["bob", "operator"] {
                for (operation, params) in [
                    ("get", json!({"id": task["id"]})),
                    ("cancel", json!({"id": task["id"]})),
                    ("subscribe", json!({"id": task["id"]})),
                    ("send", follow.clone()),
                    ("stream", follow.clone()),
                ] {
                    let refused = binding.ask_as(&host, Some(caller), operation, params).await.unwrap_err();
                    assert_eq!(refused, (unknown, "TASK_NOT_FOUND".to_owned()), "{binding:?} {operation}");
                }
                let context = json!({"contextId": task["contextId"]});
                let listed = binding.ask_as(&host, Some(caller), "list", context.clone()).await.unwrap();
                assert_eq!(listed["totalSize"], 0, "{binding:?} {caller}");
                let params = json!({"message": binding.message("hello", &context)});
                let refused = binding.ask_as(&host, Some(caller), "send", params).await.unwrap_err();
                assert_eq!(refused.0, if binding.is_rpc() { -32602 } else { 400 }, "{binding:?} {caller}");
            }
            let own = binding.ask_as(&host, Some("ada"), "get", json!({"id": task["id"]})).await.unwrap();
            assert_eq!(
                own["status"]["state"].as_str().unwrap(),
                binding.state("input-required"),
                "it is as it was"
            );
            let context = json!({"contextId": task["contextId"]});
            let listed = binding.ask_as(&host, Some("ada"), "list", context).await.unwrap();
            assert_eq!(listed["totalSize"], 1);
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
