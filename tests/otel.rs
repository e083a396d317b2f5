//! Spans as OpenTelemetry: their names and attributes follow the `GenAI` conventions, and they are exported.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use opentelemetry::trace::{SpanKind, Status};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use proto_events::call::TokenUsage;
use proto_events::json;
use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::otel::Telemetry;
use taskreel::tool::{BoxFuture, ToolError};
use taskreel::{JsonSchema, Part, System};
use taskreel_log::memory::MemoryStore;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[derive(Debug, Clone, Default)]
struct InMemory(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for InMemory {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

async fn weather(ask: City) -> Result<u64, ToolError> {
    if ask.city.is_empty() { Err(ToolError::failed("no such city")) } else { Ok(20) }
}

struct Says;

impl InferBackend for Says {
    fn backend(&self) -> &'static str {
        "says"
    }

    fn model(&self) -> &'static str {
        "s-1"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let usage = Some(TokenUsage { input_tokens: 11, output_tokens: 3 });
        let content = json!({"type": "final", "content": "mild"}).to_string();
        Box::pin(async move {
            Ok(InferReply { content, usage, model: "s-1-0611".to_owned(), ..InferReply::default() })
        })
    }
}

async fn work() {
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .name("butler")
        .tool("weather", "Weather", weather)
        .infer(Says)
        .start()
        .await
        .unwrap();
    let call = |city: &str| Part::tool_call("weather", json!({"city": city})).unwrap();
    for part in [Part::infer("Coat?"), call("Oslo"), call("")] {
        system.session("demo").send(part).await.unwrap().finished().await.unwrap();
    }
    system.shutdown().await.unwrap();
}

fn attributes(span: &SpanData) -> BTreeMap<String, String> {
    let pair = |attribute: &opentelemetry::KeyValue| {
        (attribute.key.to_string(), attribute.value.as_str().into_owned())
    };
    span.attributes.iter().map(pair).collect()
}

#[tokio::test]
async fn spans_go_out_in_the_words_of_the_genai_conventions() {
    let exporter = InMemory::default();
    let telemetry = Telemetry::with_exporter("test", exporter.clone()).unwrap();
    tracing_subscriber::registry().with(telemetry.layer()).init();
    work().await;
    let other = tracing::info_span!(target: "somebody.else", "task", session = "theirs");
    drop(other);
    telemetry.shutdown().unwrap();
    let spans = exporter.0.lock().unwrap().clone();
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();

    let [chat] = named("chat s-1")[..] else { panic!("{spans:#?}") };
    assert_eq!(chat.span_kind, SpanKind::Client);
    let said = attributes(chat);
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "says"),
        ("gen_ai.request.model", "s-1"),
        ("gen_ai.response.model", "s-1-0611"),
        ("gen_ai.usage.input_tokens", "11"),
        ("gen_ai.usage.output_tokens", "3"),
        ("gen_ai.conversation.id", "demo"),
        ("taskreel.attempt", "1"),
    ] {
        assert_eq!(said.get(key).map(String::as_str), Some(value), "{key} of {said:?}");
    }

    let tools = named("execute_tool weather");
    assert_eq!(tools.len(), 2);
    let failed: Vec<_> = tools.iter().filter(|span| matches!(span.status, Status::Error { .. })).collect();
    assert_eq!(failed.len(), 1);
    let said = attributes(failed[0]);
    assert_eq!((said["gen_ai.tool.name"].as_str(), said["error.type"].as_str()), ("weather", "ToolError"));
    assert_eq!(failed[0].status, Status::error("no such city"));
    assert!(said["gen_ai.tool.call.id"].starts_with("call_"));

    let runs = named("invoke_agent butler");
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|span| attributes(span)["gen_ai.conversation.id"] == "demo"));
    assert_eq!(runs.iter().filter(|span| matches!(span.status, Status::Error { .. })).count(), 1);
    let route =
        spans.iter().find(|span| span.name == "route" && span.span_context.span_id() == chat.parent_span_id);
    let route = route.expect("the chat stands in its route");
    assert!(runs.iter().any(|run| run.span_context.span_id() == route.parent_span_id), "and that in its run");
    assert_eq!(chat.span_context.trace_id(), route.span_context.trace_id());

    let [theirs] = named("task")[..] else { panic!("others' spans go out as they are") };
    assert_eq!(attributes(theirs)["session"], "theirs");
    let all = spans.iter().flat_map(|span| attributes(span).into_values()).collect::<Vec<_>>();
    assert!(
        !all.iter().any(|value| value.contains("Coat?") || value.contains("mild")),
        "no prompt, no answer"
    );
}

/// Answers one request with 200 and returns its head and body.
fn one_request(listener: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.trim().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    (head, body)
}

/// Entry of the next test's child: the environment of a process can be set only from outside.
#[tokio::test]
async fn child_that_exports_to_where_the_environment_says() {
    if std::env::var_os("TASKREEL_OTEL_CHILD").is_none() {
        return;
    }
    let telemetry = Telemetry::otlp("child").unwrap();
    let _default = tracing_subscriber::registry().with(telemetry.layer()).set_default();
    tracing::info_span!(target: "taskreel::actors::spans", "infer", model = "s-1").in_scope(|| {});
    telemetry.shutdown().unwrap();
}

#[test]
fn spans_arrive_at_the_endpoint_that_the_environment_names() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_exports_to_where_the_environment_says"])
        .env("TASKREEL_OTEL_CHILD", "1")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .spawn()
        .unwrap();
    let server = std::thread::spawn(move || one_request(&listener));
    assert!(child.wait().unwrap().success(), "the child exported what it had");
    let (head, body) = server.join().unwrap();
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    let holds = |text: &str| body.windows(text.len()).any(|window| window == text.as_bytes());
    for text in ["chat s-1", "gen_ai.request.model", "service.name", "child"] {
        assert!(holds(text), "`{text}` is not in the request");
    }
}
