//! Usage of an agent elsewhere counts for the budget of the task that asked, where the agent says it.
#![cfg(feature = "client")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::sync::Arc;

use proto_events::call::CallKind;
use proto_events::json;
use proto_events::json::JsonText;
use support::{PATIENCE, actix, builder, model};
use taskreel::tool::{ToolContext, ToolError};
use taskreel::{BoxFuture, Ports, PostedTask, System};
use taskreel_http::protolink::{Client, Remote};
use taskreel_http::{HttpHandler, Protolink, Request, Response};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;

async fn asks_three_times(cx: ToolContext, _: support::Text) -> Result<String, ToolError> {
    let mut answered = 0;
    for question in ["one", "two", "three"] {
        answered += u32::from(cx.delegate("far", question).await.is_ok());
    }
    Ok(format!("{answered} answered"))
}

/// Returns the budgets of model calls that the children were given, and the answer.
async fn given(url: &str) -> (Vec<u64>, String) {
    let client = Client::new().unwrap().timeout(PATIENCE);
    let remote = Remote::at(&client, url).await.unwrap();
    let system = builder().tool("asks", "Asks", asks_three_times).peer(remote).start().await.unwrap();
    let part = json!({"type": "tool_call", "content": {"tool_name": "asks", "args": {"text": ""}}});
    let posted = json!({
        "id": "t",
        "messages": [{"id": "m", "role": "user", "parts": [part]}],
        "metadata": {"budget": {"max_llm_calls": 10}},
    });
    let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
    let ended = system.submit(posted).await.unwrap().finished().await.unwrap();
    let children = ended.task().calls().iter().filter(|call| call.request.kind == CallKind::Delegate);
    let given = children.map(|call| {
        let budget = &call.request.args.tree()["task"]["metadata"]["run_context"]["budget"];
        budget["max_llm_calls"].as_u64().unwrap()
    });
    let given = given.collect();
    let answer = ended.task().artifacts()[0].parts[0].content().to_string();
    assert!(verify(system.log().as_ref()).findings.is_empty());
    system.shutdown().await.unwrap();
    (given, answer)
}

async fn far() -> System {
    let other = System::builder("in memory").store(Arc::new(MemoryStore::new())).name("far");
    other.infer(model(&["1", "2", "3"])).start().await.unwrap()
}

#[tokio::test]
async fn an_agent_of_ours_says_what_it_used_over_http_and_through_a_socket() {
    for scheme in ["http", "ws"] {
        let other = far().await;
        let host = actix(Arc::new(Protolink::new(other.clone()))).await;
        let (given, answer) = given(&format!("{scheme}://{}", host.address)).await;
        assert_eq!(given, [10, 9, 8], "{scheme}");
        assert!(answer.contains("3 answered"), "{answer}");
        host.stop().await;
        other.shutdown().await.unwrap();
    }
}

/// The answers of an agent with another word about what was used; none where it says nothing, as Protolink's.
struct Says(Protolink, Option<&'static str>);

impl HttpHandler for Says {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let (answer, says) = (self.0.answer(request), self.1);
        Box::pin(async move {
            let mut response = answer.await;
            response.headers_mut().remove("x-taskreel-used");
            if let Some(says) = says {
                response.headers_mut().insert("x-taskreel-used", says.parse().unwrap());
            }
            response
        })
    }
}

#[tokio::test]
async fn an_agent_that_says_nothing_or_nonsense_costs_nothing_and_one_that_says_too_much_ends_the_budget() {
    let large = r#"{"llm_calls": 18446744073709551615, "runtime_seconds": 1e308}"#;
    for (says, budgets) in [
        (None, vec![10, 10, 10]),
        (Some("{nope"), vec![10, 10, 10]),
        (Some("[]"), vec![10, 10, 10]),
        (Some(r#"{"llm_calls": -5, "steps": "many"}"#), vec![10, 10, 10]),
        (Some(r#"{"llm_calls": 4}"#), vec![10, 6, 2]),
        (Some(large), vec![10]),
    ] {
        let other = far().await;
        let host = actix(Arc::new(Says(Protolink::new(other.clone()), says))).await;
        let (given, answer) = given(&format!("http://{}", host.address)).await;
        assert_eq!(given, budgets, "{says:?}: {answer}");
        host.stop().await;
        other.shutdown().await.unwrap();
    }
}
