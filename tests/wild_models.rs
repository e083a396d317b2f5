//! Answers of real model servers, as public reports show them: each body is read by `OpenAiCompatible`, alone and within a system.
//!
//! The bodies stand in `tests/wild/model`, and in the folder `model` of the one that `TASKREEL_WILD` names, whatever it holds. What is
//! known to be right for some of them stands beside them in `expected.json`.
#![cfg(feature = "openai")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its helpers too, and prints a line for each body"
)]

mod model_server;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model_server::{Answer, ModelServer, Step, bodies, folders, request_of, whole};
use proto_events::id::StreamId;
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::session::Session;
use serde::Deserialize;
use taskreel::infer::{
    InferBackend, InferError, InferErrorKind, InferPolicy, InferReply, LlmRole, OpenAiCompatible,
};
use taskreel::{JsonSchema, Part, System, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::fold_stream;

/// The longest time for one body: a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Deserialize, JsonSchema)]
struct City {
    #[allow(dead_code, reason = "only the call counts")]
    city: String,
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    order: String,
}

fn model(server: &ModelServer) -> OpenAiCompatible {
    OpenAiCompatible::new(server.url(), "m").idle_timeout(Duration::from_secs(2))
}

async fn read(body: Vec<u8>) -> Result<InferReply, InferError> {
    let server = ModelServer::start([vec![Step::Send(body)]]).await;
    tokio::time::timeout(PATIENCE, model(&server).infer(request_of(&[(LlmRole::User, "Coat?")])))
        .await
        .expect("it hangs")
}

fn kind(outcome: &Result<InferReply, InferError>) -> &'static str {
    match outcome.as_ref().map_err(|error| error.kind) {
        Ok(reply) if reply.without_reason => "reply without a reason",
        Ok(_) => "reply",
        Err(InferErrorKind::Transient { .. }) => "transient",
        Err(InferErrorKind::Malformed) => "malformed",
        Err(_) => "failed",
    }
}

/// Compares what was read with what is known to be right.
fn compare(name: &str, outcome: &Result<InferReply, InferError>, right: &Value) {
    let said = |key: &str| right.get(key).and_then(Value::as_str);
    if let Some(right) = said("kind") {
        assert_eq!(kind(outcome), right, "{name}: {outcome:?}");
    }
    if let Some(words) = said("says") {
        let error = outcome.as_ref().expect_err(name);
        assert!(error.message.contains(words), "{name}: {error:?}");
    }
    if let Some(content) = said("content") {
        assert_eq!(outcome.as_ref().expect(name).content, content, "{name}");
    }
    if let Some(calls) = right.get("calls") {
        let calls_of = |reply: &InferReply| -> Value {
            reply.calls.iter().map(|ask| json!([ask.tool.clone(), ask.args.as_str()])).collect()
        };
        assert_eq!(&calls_of(outcome.as_ref().expect(name)), calls, "{name}");
    }
    if let Some(seconds) = right.get("waits").and_then(Value::as_f64) {
        let Err(InferErrorKind::Transient { retry_after: Some(wait) }) =
            outcome.as_ref().map_err(|error| error.kind)
        else {
            panic!("{name}: {outcome:?}")
        };
        assert!(wait.as_secs_f64() >= seconds, "{name}: {wait:?}");
    }
}

#[tokio::test]
async fn each_body_is_read_as_it_is_meant_and_none_hangs() {
    let known = std::fs::read_to_string(folders()[0].join("expected.json")).unwrap();
    let known = Value::parse(&known).unwrap();
    let bodies = bodies();
    assert!(bodies.len() > 30);
    for (name, body) in bodies {
        let outcome = read(body).await;
        let shown = match &outcome {
            Ok(reply) => format!("{:?}, {} calls", reply.content, reply.calls.len()),
            Err(error) => format!("{}: {}", error.type_name, error.message),
        };
        println!("{name}: {}: {}", kind(&outcome), shown.chars().take(120).collect::<String>());
        if let Some(right) = known.get(&name) {
            compare(&name, &outcome, right);
        }
    }
}

#[tokio::test]
async fn no_body_refunds_what_it_does_not_ask_for_by_a_tool_call() {
    for (name, body) in bodies() {
        let asks =
            String::from_utf8_lossy(&body).replace(' ', "").matches(r#""function":{"name":"refund""#).count();
        let server = ModelServer::start([vec![Step::Send(body)]]).await;
        let refunds = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&refunds);
        let refund = move |asked: Order| {
            noted.lock().unwrap().push(asked.order);
            async { Ok::<_, Infallible>("refunded") }
        };
        let weather = |_: City| async { Ok::<_, Infallible>("four degrees") };
        let system = System::builder("-")
            .store(Arc::new(MemoryStore::new()))
            .tool("refund", "Refunds an order", refund)
            .tool("weather", "Tells the weather", weather)
            .infer_policy(InferPolicy::default().retries(0))
            .infer(model(&server))
            .start()
            .await
            .unwrap();
        let sent = system.session("s").send(Part::infer("Coat?")).await.unwrap();
        let end = tokio::time::timeout(PATIENCE, sent.finished()).await.expect(&name).unwrap();
        assert!(matches!(end.state(), TaskState::Completed | TaskState::Failed), "{name}");
        assert!(refunds.lock().unwrap().len() <= asks, "{name}");
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_no_answer_before_its_reason() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Take a c\u{f6}at\"},\"finish_reason\":\"\"}]}\n\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\".\"},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let end = text.find("\"stop\"}]}").unwrap() + "\"stop\"}]}".len();
    for cut in (0..=text.len()).step_by(3).chain([end - 1, end, text.len()]) {
        let outcome = read([head.as_bytes(), &text.as_bytes()[..cut]].concat()).await;
        if cut < end {
            assert_eq!(kind(&outcome), "transient", "{cut}: {outcome:?}");
        } else {
            assert_eq!(outcome.unwrap().content, "Take a c\u{f6}at.", "{cut}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_ends_without_a_reason_is_marked_in_its_conversation() {
    for (reason, is_marked) in [(r#""stop""#, false), ("null", true)] {
        let text = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"Take a coat\"}},\"finish_reason\":{reason}}}]}}\n\n\
            data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":2}}}}\n\ndata: [DONE]\n\n"
        );
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let server = ModelServer::start([vec![Step::Send(format!("{head}{text}").into_bytes())]]).await;
        let store = Arc::new(MemoryStore::new());
        let builder = System::builder("-").store(Arc::clone(&store) as _).infer(model(&server));
        let system = builder.start().await.unwrap();
        let sent = system.session("s").send(Part::infer("Coat?")).await.unwrap();
        assert_eq!(sent.finished().await.unwrap().state(), TaskState::Completed);
        let stream = StreamId::session("agent", "s").unwrap();
        let all = fold_stream::<Session>(&*store, &stream, None).unwrap().state;
        let answer = all.history().as_slice().last().unwrap();
        assert_eq!((answer.content.as_str(), answer.is_without_reason()), ("Take a coat", is_marked));
        system.shutdown().await.unwrap();
    }
}

/// Judges a history as the strictest servers do; each rule is that of a provider.
fn judge(body: &Value, reasoning_member: &str) -> Result<(), String> {
    let messages = body["messages"].as_array().ok_or("no messages")?;
    let mut open: Vec<String> = Vec::new();
    let (mut asked, mut before) = (0, "");
    for message in messages {
        let role = message["role"].as_str().unwrap();
        if message["content"].as_str().is_none() && role != "user" {
            return Err(format!("content is no text: {message}"));
        }
        if std::mem::replace(&mut before, role) == "tool" && role == "user" {
            return Err("Unexpected role 'user' after role 'tool'".to_owned());
        }
        if role == "tool" {
            let id = message["tool_call_id"].as_str().ok_or("a result without an id")?;
            if open.is_empty() || open.remove(0) != id {
                return Err(format!("{id} was not asked for in this order"));
            }
            continue;
        }
        if !open.is_empty() {
            return Err(format!("{open:?} have no results before a message of {role}"));
        }
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            asked += 1;
            let id = call["id"].as_str().ok_or("a call without an id")?;
            if id.len() != 9 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(format!("the id {id} has not nine letters and digits"));
            }
            open.push(id.to_owned());
            let arguments = call["function"]["arguments"].as_str().ok_or("arguments are no text")?;
            if !Value::parse(arguments).is_ok_and(|arguments| arguments.is_object()) {
                return Err(format!("arguments are no object: {arguments}"));
            }
            if call["extra_content"]["google"]["thought_signature"].as_str() != Some("c2lnbmF0dXJl") {
                return Err(format!("no signature: {call}"));
            }
            if message[reasoning_member].as_str() != Some("I need the weather.") {
                return Err(format!("no {reasoning_member}: {message}"));
            }
        }
    }
    if asked == 0 { Err("no call in the history".to_owned()) } else { Ok(()) }
}

fn asking(arguments: &[Value], reasoning_member: &str) -> Answer {
    let signature = json!({"google": json!({"thought_signature": "c2lnbmF0dXJl"})});
    let calls: Vec<Value> = arguments
        .iter()
        .enumerate()
        .map(|(at, arguments)| {
            let function = json!({"name": "weather", "arguments": arguments.clone()});
            json!({"index": at as u64, "id": format!("call-{at}_with.odd id"), "type": "function", "function": function,
                "extra_content": signature.clone()})
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": Value::Null, "tool_calls": calls});
    message.as_object_mut().unwrap().insert(reasoning_member.to_owned(), json!("I need the weather."));
    whole(&message)
}

#[tokio::test]
async fn the_history_that_is_sent_back_is_one_that_the_strictest_server_takes() {
    let good = r#"{"city":"Oslo"}"#;
    let mut cases: Vec<Vec<Value>> =
        (0..=good.len()).map(|cut| vec![json!(good[..cut].to_owned())]).collect();
    cases.extend([
        vec![json!("[1]")],
        vec![json!("null")],
        vec![json!("\"text\"")],
        vec![json!("12")],
        vec![Value::Null],
        vec![json!({"city": "Oslo"})],
        vec![json!(good), json!("{\"city\""), json!(r#"{"city":"Rome"}"#)],
        vec![json!(r#"{"city":"\ud83d"}"#)],
    ]);
    for arguments in cases {
        for member in ["reasoning_content", "reasoning"] {
            let done = whole(&json!({"content": "Four degrees: take a coat."}));
            let server = ModelServer::start([asking(&arguments, member), done]).await;
            let weather = |_: City| async { Ok::<_, Infallible>("four degrees") };
            let system = System::builder("-")
                .store(Arc::new(MemoryStore::new()))
                .tool("weather", "Tells the weather", weather)
                .infer(model(&server))
                .start()
                .await
                .unwrap();
            let sent = system.session("s").send(Part::infer("Coat?")).await.unwrap();
            let end = tokio::time::timeout(PATIENCE, sent.finished()).await.unwrap().unwrap();
            assert_eq!(end.state(), TaskState::Completed, "{arguments:?}: {:?}", end.task().error());
            system.shutdown().await.unwrap();
            let seen = server.seen();
            assert!(seen.len() >= 2);
            for request in &seen[1..] {
                if let Err(why) = judge(&request.body, member) {
                    panic!("{arguments:?}: {why}");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_a_provider_attached_is_sent_back_after_a_restart_too() {
    let done = whole(&json!({"content": "Four degrees."}));
    let server =
        ModelServer::start([asking(&[json!(r#"{"city":"Oslo"}"#)], "reasoning_content"), done]).await;
    let mut store = Arc::new(MemoryStore::new());
    for _ in 0..2 {
        let weather = |_: City| async { Ok::<_, Infallible>("four degrees") };
        let system = System::builder("-")
            .store(Arc::clone(&store) as _)
            .tool("weather", "Tells the weather", weather)
            .infer(model(&server))
            .start()
            .await
            .unwrap();
        let sent = system.session("s").send(Part::infer("Coat?")).await.unwrap();
        assert_eq!(sent.finished().await.unwrap().state(), TaskState::Completed);
        store = Arc::new(store.reopened().unwrap());
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    judge(&seen[2].body, "reasoning_content").unwrap();
    let shown = JsonText::from(seen[2].body.clone());
    assert!(!shown.as_str().contains("null"), "{shown}");
}
