//! Agents that are looked up in a registry at the moment when they are asked.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_events::call::{CallKind, CallStatus, FailureClass};
use proto_events::json;
use proto_events::model::AgentCard;
use support::{Host, PATIENCE, actix, builder};
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolContext, ToolError};
use taskreel::{Part, Principal, System};
use taskreel_http::protolink::{Client, RegistryDirectory};
use taskreel_http::{HttpHandler, Mounted, Protolink, Registry, RegistryHandler};
use taskreel_log::audit::{replay_all, verify};
use taskreel_log::memory::MemoryStore;

fn client() -> Client {
    Client::new().unwrap().timeout(PATIENCE)
}

/// A system with the agent `far` and a registry in which nothing is registered, on one port.
async fn far() -> (System, Registry, Host, String) {
    let other = System::builder("in memory").store(Arc::new(MemoryStore::new())).name("far");
    let other = support::with_tools(other).start().await.unwrap();
    let registry = Registry::new(&other, "main").unwrap();
    let both = Mounted::new()
        .mount("/", Arc::new(RegistryHandler::new(registry.clone())) as Arc<dyn HttpHandler>)
        .mount("/", Arc::new(Protolink::new(other.clone())));
    let host = actix(Arc::new(both)).await;
    let url = format!("http://{}", host.address);
    (other, registry, host, url)
}

async fn register(registry: &Registry, name: &str, url: &str) {
    let card = AgentCard::new(name, "Answers", url);
    registry.register(card, &Principal::default()).await.unwrap();
}

fn assert_sound(system: &System) {
    let store = system.log();
    let verified = verify(store.as_ref());
    assert!(verified.findings.is_empty() && verified.failed.is_none(), "{:?}", verified.findings);
    assert_eq!(replay_all(store.as_ref()).unwrap().mismatch, None);
}

#[tokio::test]
async fn an_agent_that_comes_after_the_start_is_found_when_it_is_asked_and_one_that_is_unknown_is_told() {
    let (other, registry, host, url) = far().await;
    let ask = |text: &str| {
        Entry::json(
            &json!({"type": "agent_call", "agent": "far", "action": "tool_call", "tool": "echo", "args": {"text": text}}),
        )
    };
    let model = Scripted::new([
        ask("first"),
        Entry::json(&json!({"type": "tool_call", "tool": "come", "args": {"text": ""}})),
        ask("far"),
        Entry::json(&json!({"type": "final", "content": "done"})),
    ]);
    let shown = model.clone();
    let to = url.clone();
    // In the middle of the run the other agent is registered.
    let come = move |_: support::Text| {
        let (registry, url) = (registry.clone(), to.clone());
        async move {
            register(&registry, "far", &url).await;
            Ok::<_, ToolError>("it came")
        }
    };
    let directory = RegistryDirectory::new(&client(), &url);
    let system = builder().infer(model).tool("come", "Registers", come).peer_directory(directory);
    let system = system.start().await.unwrap();
    let ended = system.submit(Part::infer("q")).await.unwrap().finished().await.unwrap();
    assert_eq!(ended.answer().unwrap().as_str(), "\"done\"", "{ended:?}");
    assert!(format!("{:?}", shown.requests()).contains("knows no agent 'far'"), "the model is told");
    let calls: Vec<_> =
        ended.task().calls().iter().filter(|call| call.request.kind == CallKind::Delegate).cloned().collect();
    assert_eq!(calls.len(), 2);
    for call in &calls {
        assert_eq!(call.request.target, "far");
        assert!(call.request.args.as_str().contains("parent_run_id"), "the intent holds the task");
    }
    assert!(matches!(&calls.first().unwrap().status, CallStatus::Failed(failure)
        if failure.class == FailureClass::Rejected && failure.message.contains("knows no agent 'far'")));
    assert!(
        matches!(&calls.last().unwrap().status, CallStatus::Succeeded(answer) if answer.as_str().contains("far"))
    );
    assert_sound(&system);
    system.shutdown().await.unwrap();
    host.stop().await;
    other.shutdown().await.unwrap();
}

async fn tool_asks(cx: ToolContext, args: support::Text) -> Result<String, ToolError> {
    match cx.delegate(&args.text, "hello").await {
        Ok(answer) => Ok(answer.result.to_string()),
        Err(error) => Ok(format!("not answered: {error}")),
    }
}

#[tokio::test]
async fn an_agent_that_is_gone_and_a_registry_that_is_gone_are_failures_of_the_call_before_its_effect() {
    let (other, registry, host, url) = far().await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    register(&registry, "gone", &format!("http://{free}")).await;
    for registry in [url.clone(), format!("http://{free}")] {
        let directory = RegistryDirectory::new(&client(), &registry);
        let system =
            builder().tool("asks", "Asks", tool_asks).peer_directory(directory).start().await.unwrap();
        let part = Part::tool_call("asks", json!({"text": "gone"})).unwrap();
        let ended = system.submit(part).await.unwrap().finished().await.unwrap();
        let call = ended.task().calls().iter().find(|call| call.request.kind == CallKind::Delegate).unwrap();
        let CallStatus::Failed(failure) = &call.status else { panic!("{:?}", call.status) };
        assert_eq!(
            (failure.class, failure.error_type.as_str()),
            (FailureClass::BeforeEffect, "ConnectionError")
        );
        assert!(failure.message.contains("Failed to connect"), "{}", failure.message);
        assert_sound(&system);
        system.shutdown().await.unwrap();
    }
    host.stop().await;
    other.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_name_is_no_address_and_agents_of_the_system_are_not_looked_up() {
    let (other, registry, host, url) = far().await;
    for name in ["agent", "closed"] {
        register(&registry, name, &url).await;
    }
    // Counts the connections of whoever takes a name for an address.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let long = "x".repeat(300);
    for (name, words) in [
        (address.as_str(), "knows no agent"),
        ("agent", "Self-delegation is not allowed"),
        ("closed", "not found"),
        ("a\u{0}b", "not found"),
        (long.as_str(), "not found"),
        ("", "not found"),
    ] {
        let system = builder()
            .tool("asks", "Asks", tool_asks)
            .agent("open", |agent| agent)
            .agent("closed", |agent| agent)
            .delegates_to(["open"])
            .peer_directory(RegistryDirectory::new(&client(), &url));
        let system = system.start().await.unwrap();
        let part = Part::tool_call("asks", json!({"text": name})).unwrap();
        let ended = system.submit(part).await.unwrap().finished().await.unwrap();
        let said = ended.task().output().map(|output| output.to_string()).unwrap_or_default();
        assert!(said.contains("not answered") && said.contains(words), "{name:?}: {said}");
        assert_sound(&system);
        system.shutdown().await.unwrap();
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    host.stop().await;
    other.shutdown().await.unwrap();
}
