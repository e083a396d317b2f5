//! Tasks with calls whose outcome is unknown: a message decides nothing, and the task says so until a person has decided.

use proto_events::call::Verdict;
use serde_json::{Value, json};
use taskreel::tool::{ToolError, ToolPolicy};

use crate::asked::{ALL, Binding, hosts};

const EXTENSION: &str = "urn:taskreel:a2a:protolink:v1";

fn call(tool: &str) -> Value {
    let call = json!({"tool_name": tool, "args": {"text": "x"}, "call_id": tool});
    json!({"data": call, "metadata": {EXTENSION: {"type": "tool_call"}}})
}

/// Returns the texts of the status of a task.
fn told(task: &Value) -> String {
    let message = &task["status"]["message"];
    let parts = message["parts"].as_array().or_else(|| message["content"].as_array());
    let texts = parts.into_iter().flatten().filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

async fn system() -> taskreel::System {
    let pays = |_: crate::support::Text| async { Err::<String, _>(ToolError::lost("the connection broke")) };
    let fails = |_: crate::support::Text| async { Err::<String, _>(ToolError::failed("no paper")) };
    let does = |args: crate::support::Text| async move { Ok::<_, ToolError>(args.text) };
    let builder = crate::support::builder();
    let builder = builder.tool_with("pay", "pays", pays, ToolPolicy::manual());
    let builder = builder.tool_with("refund", "refunds", does, ToolPolicy::manual());
    let builder = builder.tool_with("look", "looks", does, ToolPolicy::read_only());
    builder.tool_with("print", "prints", fails, ToolPolicy::manual()).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_no_verdict_about_a_call_whose_outcome_is_unknown() {
    let system = system().await;
    for host in hosts(&system).await {
        for binding in ALL {
            let message = Binding::Rpc1.message("", &json!({"parts": [call("pay")]}));
            let task = Binding::Rpc1.task_of(&host, None, json!({"message": message})).await.unwrap();
            let waits = binding.ask(&host, "get", json!({"id": task["id"]})).await.unwrap();
            assert_eq!(waits["status"]["state"], binding.state("input-required"), "{waits}");
            assert!(told(&waits).contains("is unknown: the connection broke"), "{waits}");
            let at = json!({"taskId": task["id"], "messageId": "m2"});
            for operation in ["send", "stream"] {
                let said = json!({"message": binding.message("Yes, it was paid.", &at), "configuration": binding.blocking()});
                let refused = binding.ask(&host, operation, said).await.unwrap_err();
                assert_eq!(refused.1, "UNSUPPORTED_OPERATION", "{binding:?}");
            }
            let after = binding.ask(&host, "get", json!({"id": task["id"]})).await.unwrap();
            assert_eq!(after, waits, "it waits as before");
            let handle = system.task(task["id"].as_str().unwrap()).unwrap();
            let waiting = handle.snapshot().await.unwrap();
            let lost = waiting.task().lost_calls().next().unwrap().request.call_id.clone();
            handle.reconcile(&lost, Verdict::Landed(json!("paid").into()), "ada").await.unwrap();
            handle.finished().await.unwrap();
            let done = binding.ask(&host, "get", json!({"id": task["id"]})).await.unwrap();
            assert_eq!(done["status"]["state"], binding.state("completed"), "{done}");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_over_says_what_it_did_before_and_which_outcome_nobody_knows() {
    let system = system().await;
    let [host, other] = hosts(&system).await;
    other.stop().await;
    let binding = Binding::Rpc1;
    let send = |calls: Vec<Value>| {
        let message = binding.message("", &json!({"parts": calls}));
        binding.task_of(&host, None, json!({"message": message}))
    };
    let failed = send(vec![call("look"), call("refund"), call("print")]).await.unwrap();
    assert_eq!(failed["status"]["state"], "TASK_STATE_FAILED", "{failed}");
    assert!(told(&failed).contains("Done before: refund."), "the reading is no effect: {failed}");
    let waits = send(vec![call("refund"), call("pay")]).await.unwrap();
    let canceled = binding.ask(&host, "cancel", json!({"id": waits["id"]})).await.unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED");
    assert!(told(&canceled).contains("Done before: refund. Outcome unknown: pay"), "{canceled}");
    let listed = binding.ask(&host, "list", json!({})).await.unwrap();
    let marked = listed["tasks"].as_array().unwrap().iter().filter(|task| {
        task["metadata"][EXTENSION]["unknownOutcomes"] == "1" && told(task).contains("Outcome unknown: pay")
    });
    assert_eq!(marked.count(), 1, "whatever its state is: {listed}");
    host.stop().await;
    system.shutdown().await.unwrap();
}
