//! The `genai` backend against local servers that speak Anthropic's and Ollama's own APIs, correctly and
//! incorrectly.
#![cfg(feature = "genai")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod model_server;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use model_server::{Answer, ModelServer, Step, json_answer, raw, request_of, said, stream_head};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::LlmRole;
use taskreel::infer::{Deltas, Genai, InferBackend, InferErrorKind, InferRequest};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy, ToolSpec};
use taskreel::{Artifact, Part, Ports, System};
use taskreel_log::memory::MemoryStore;

#[derive(serde::Deserialize, taskreel::JsonSchema)]
struct Nothing {}

const KEY: &str = "sk-very-secret-3";

fn request() -> InferRequest {
    request_of(&[
        (LlmRole::System, "Reply in JSON."),
        (LlmRole::User, "2 + 3?"),
        (LlmRole::Assistant, "{}"),
        (LlmRole::System, "a note"),
    ])
}

fn claude(server: &ModelServer) -> Genai {
    Genai::new("anthropic", "claude-x").base_url(server.url()).api_key(KEY).max_tokens(50).temperature(0.5)
}

fn event(kind: &str, mut data: Value) -> Vec<u8> {
    data["type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n").into_bytes()
}

/// Returns an answer of Anthropic's API: its start, one block, its end.
fn blocks(block: &Value, delta: &Value, reason: &str) -> Vec<Vec<u8>> {
    vec![
        stream_head(),
        event(
            "message_start",
            json!({"message": {"id": "m", "usage": {"input_tokens": 11, "output_tokens": 1}}}),
        ),
        event("content_block_start", json!({"index": 0, "content_block": block})),
        event("content_block_delta", json!({"index": 0, "delta": delta})),
        event("content_block_stop", json!({"index": 0})),
        event("message_delta", json!({"delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})),
        event("message_stop", json!({})),
    ]
}

fn text(content: &str, reason: &str) -> Vec<Vec<u8>> {
    blocks(&json!({"type": "text", "text": ""}), &json!({"type": "text_delta", "text": content}), reason)
}

fn answer(pieces: Vec<Vec<u8>>) -> Answer {
    pieces.into_iter().map(Step::Send).collect()
}

#[tokio::test]
async fn anthropic_is_asked_in_its_own_words_and_streams() {
    let server = ModelServer::start([answer(text(&said("5"), "end_turn"))]).await;
    let heard = Arc::new(Mutex::new(String::new()));
    let listener = Arc::clone(&heard);
    let deltas = Deltas::to(Arc::new(move |piece: &str| listener.lock().unwrap().push_str(piece)));
    let reply = claude(&server).infer(InferRequest { deltas, ..request() }).await.unwrap();
    assert_eq!(reply.content, said("5"));
    assert_eq!(*heard.lock().unwrap(), said("5"));
    let usage = reply.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (11, 7));
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /v1/messages");
    assert_eq!(seen.header("x-api-key"), Some(KEY));
    assert_eq!((&seen.body["model"], &seen.body["max_tokens"]), (&json!("claude-x"), &json!(50)));
    assert!(seen.body["system"].to_string().contains("Reply in JSON."), "{}", seen.body);
    let roles: Vec<_> =
        seen.body["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "the note stands in its place: {}", seen.body);
}

#[tokio::test]
async fn a_native_call_is_read_and_tools_are_offered_by_plain_names() {
    let block = json!({"type": "tool_use", "id": "1", "name": "math_add", "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": "{\"a\":1180591620717411303424}"});
    let server = ModelServer::start([answer(blocks(&block, &delta, "tool_use"))]).await;
    let add = ToolSpec {
        name: "math.add".to_owned(),
        description: "Adds".to_owned(),
        input_schema: Arc::new(json!({"type": "object"})),
        policy: ToolPolicy::read_only(),
    };
    let reply = claude(&server).infer(InferRequest { tools: vec![add], ..request() }).await.unwrap();
    let asked: Vec<_> = reply.calls.iter().map(|ask| (ask.tool.as_str(), ask.args.as_str())).collect();
    assert_eq!(asked, [("math.add", r#"{"a":1.1805916207174113e+21}"#)]);
    assert_eq!(server.seen()[0].body["tools"][0]["name"], "math_add");
}

#[tokio::test]
async fn ollama_is_asked_by_its_own_api() {
    let line = |message: Value, done: bool| {
        let mut line = json!({"model": "qwen3", "message": message, "done": done});
        if done {
            line["done_reason"] = "stop".into();
            line["prompt_eval_count"] = 11.into();
            line["eval_count"] = 7.into();
        }
        format!("{line}\n")
    };
    let text = said("hi");
    let body = line(json!({"role": "assistant", "content": text}), false)
        + &line(json!({"role": "assistant", "content": ""}), true);
    let answer = raw("200 OK", &[("content-type", "application/x-ndjson")], body.as_bytes());
    let server = ModelServer::start([answer]).await;
    let base = server.url().trim_end_matches("v1").to_owned();
    let reply = Genai::new("ollama", "qwen3").base_url(base).infer(request()).await.unwrap();
    assert_eq!((reply.content, reply.usage.unwrap().input_tokens), (text, 11));
    assert_eq!(server.seen()[0].line, "POST /api/chat");
}

#[tokio::test]
async fn calls_that_are_too_large_together_are_too_large_however_they_are_divided() {
    let call = |n: usize| {
        let function = json!({"name": "add", "arguments": json!({"text": "x".repeat(1024 * 1024)})});
        let call = json!({"id": format!("c{n}"), "function": function});
        let message = json!({"role": "assistant", "content": "", "tool_calls": [call]});
        format!("{}\n", json!({"model": "qwen3", "message": message, "done": false}))
    };
    let body: String = (0..20).map(call).collect();
    let answer = raw("200 OK", &[("content-type", "application/x-ndjson")], body.as_bytes());
    let server = ModelServer::start([answer]).await;
    let base = server.url().trim_end_matches("v1").to_owned();
    let error = Genai::new("ollama", "qwen3").base_url(base).infer(request()).await.unwrap_err();
    assert_eq!((error.type_name.as_str(), error.kind), ("AnswerTooLarge", InferErrorKind::Malformed));
}

#[tokio::test]
async fn every_failure_has_its_kind() {
    let error =
        |kind: &str| json!({"type": "error", "error": {"type": kind, "message": format!("wrong {KEY}")}});
    let busy = json_answer("529 Overloaded", &[("retry-after", "2")], &error("overloaded_error"));
    let mut cut = text("{", "end_turn");
    cut.truncate(4);
    let cases: [(Answer, &str); 6] = [
        (busy, "transient"),
        (json_answer("401 Unauthorized", &[], &error("authentication_error")), "failed"),
        (raw("302 Found", &[("location", "http://other/")], b""), "failed"),
        (answer(cut), "transient"),
        (answer(text("{", "max_tokens")), "malformed"),
        (answer(text("{", "refusal")), "failed"),
    ];
    for (answer, kind) in cases {
        let shown = format!("{answer:?}");
        let server = ModelServer::start([answer]).await;
        let error = claude(&server).infer(request()).await.expect_err(&shown);
        let found = match error.kind {
            InferErrorKind::Transient { .. } => "transient",
            InferErrorKind::Malformed => "malformed",
            InferErrorKind::Failed => "failed",
            _ => "another kind",
        };
        assert_eq!(found, kind, "{error:?} after {shown}");
        assert!(!format!("{error:?}").contains("very-secret"), "{error:?}");
        let wait = match error.kind {
            InferErrorKind::Transient { retry_after } => retry_after,
            _ => None,
        };
        // The requested delay, and up to a quarter more.
        let asked = error.message.contains("529");
        assert_eq!(wait.is_some_and(|wait| (2.0..=2.5).contains(&wait.as_secs_f64())), asked, "{wait:?}");
    }
}

#[tokio::test]
async fn a_key_that_an_errors_cut_goes_through_is_masked_as_a_whole() {
    // The places of the keys differ, so that the cut goes through one of them in most cases.
    for before in ["", "12345", "1234567890"] {
        let said = format!("{before}{}", format!("{KEY} ").repeat(300));
        let body = json!({"type": "error", "error": {"type": "authentication_error", "message": said}});
        let server = ModelServer::start([json_answer("401 Unauthorized", &[], &body)]).await;
        let error = claude(&server).infer(request()).await.unwrap_err();
        assert!(error.message.contains("[REDACTED]"), "{error:?}");
        assert!(error.message.contains("characters in all"), "{error:?}");
        assert!(!error.message.contains("sk-v"), "{error:?}");
    }
}

#[tokio::test]
async fn silence_passes_and_dropping_the_question_hangs_up() {
    let mut steps = answer(text("{", "end_turn"));
    steps.truncate(4);
    steps.push(Step::Silence);
    let server = ModelServer::start([steps.clone()]).await;
    let model = claude(&server).idle_timeout(Duration::from_millis(50));
    let error = model.infer(request()).await.unwrap_err();
    assert!(error.is_transient() && error.message.contains("silent"), "{error:?}");
    server.until_left().await;

    let server = ModelServer::start([steps]).await;
    let asking = tokio::spawn(claude(&server).infer(request()));
    server.until_asked(1).await;
    asking.abort();
    server.until_left().await;
}

#[tokio::test]
async fn it_serves_a_system_and_an_unknown_provider_keeps_one_from_starting() {
    let server = ModelServer::start([answer(text(&said("yes"), "end_turn"))]).await;
    let start =
        |model: Genai| System::builder("in memory").store(Arc::new(MemoryStore::new())).infer(model).start();
    let model = claude(&server);
    assert!(!format!("{model:?} {:?}", model.parameters()).contains("very-secret"));
    let system = start(model).await.unwrap();
    let end = system.session("s").send(Part::infer("hi")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.answer().map(JsonText::tree), Some(json!("yes")));
    system.shutdown().await.unwrap();
    let refused = start(Genai::new("nobody", "m")).await.err().unwrap().to_string();
    assert!(refused.contains("`nobody`"), "{refused}");
}

#[tokio::test]
async fn an_image_that_a_tool_attached_is_sent_behind_the_answer_of_the_tool() {
    // A PNG file by its first bytes.
    const PNG: &str = "iVBORw0KGgoA";
    let block = json!({"type": "tool_use", "id": "1", "name": "shoot", "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": "{}"});
    let asks = answer(blocks(&block, &delta, "tool_use"));
    let server = ModelServer::start([asks, answer(text(&said("red"), "end_turn"))]).await;
    let shoot = |cx: ToolContext, _: Nothing| async move {
        let content = json!({"raw": PNG, "mediaType": "image/png"});
        let part = Part::new("image", JsonText::from(content));
        Ok::<_, ToolError>(cx.attach(Artifact::new(vec![part], &mut Ports::default())))
    };
    let builder = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let system = builder
        .tool("shoot", "Takes a picture", shoot)
        .infer(claude(&server).images())
        .start()
        .await
        .unwrap();
    let end = system.session("s").send(Part::infer("Shoot.")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.answer().map(JsonText::tree), Some(json!("red")));
    system.shutdown().await.unwrap();
    let sent = &server.seen()[1].body["messages"];
    let last = sent.as_array().unwrap().last().unwrap();
    let image = last["content"].as_array().unwrap().iter().find(|part| part["type"] == json!("image"));
    let source = &image.unwrap()["source"];
    assert_eq!((&source["media_type"], &source["data"]), (&json!("image/png"), &json!(PNG)), "{sent}");
}
