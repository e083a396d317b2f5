//! Tasks and contexts of somebody else do not exist.

use serde_json::{Value, json};

use crate::agent::{Gate, agent};
use crate::asked::{ALL, hosts};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_another_is_not_found_whatever_is_asked_and_not_even_control_shows_it() {
    let system = agent(&Gate::shut()).await;
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

/// Returns the metadata of a message with which an agent sends its run context along.
fn run(context: &Value) -> Value {
    json!({"urn:taskreel:a2a:protolink:v1": {"run": context.to_string()}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_context_leads_into_no_context_of_another_wherever_it_names_it() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let context = format!("talk-{binding:?}-{}", host.name);
            let sent = async |caller: &str, more: Value| {
                let message = binding.message("hello", &more);
                let params = json!({"message": message, "configuration": binding.blocking()});
                binding.task_of(&host, Some(caller), params).await
            };
            let first = sent("ada", json!({"contextId": context})).await.unwrap();
            assert_eq!(first["contextId"], json!(context), "{first}");
            let outside = json!({"metadata": run(&json!({"session_id": context}))});
            let inside = json!({"metadata": run(&json!({"run_context": {"session_id": context}}))});
            let mut beside = inside.clone();
            beside["contextId"] = json!(format!("bob-{context}"));
            for (place, more) in [("outside", &outside), ("inside", &inside), ("beside", &beside)] {
                let refused = sent("bob", more.clone()).await.unwrap_err();
                let code = if binding.is_rpc() { -32602 } else { 400 };
                assert_eq!(refused.0, code, "{binding:?} {place}: {refused:?}");
            }
            for (place, more) in [("outside", outside), ("inside", inside)] {
                let own = sent("ada", more).await.unwrap();
                assert_eq!(own["contextId"], json!(context), "{binding:?} {place}: {own}");
            }
            // A context of its own is named in the run context as anywhere else.
            let other = format!("bob-{context}");
            let own = json!({"metadata": run(&json!({"run_context": {"session_id": other}}))});
            assert_eq!(sent("bob", own).await.unwrap()["contextId"], json!(other), "{binding:?}");
            let listed = json!({"contextId": context});
            let listed = binding.ask_as(&host, Some("ada"), "list", listed).await.unwrap();
            assert_eq!(listed["totalSize"], 3, "{binding:?}: {listed}");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
