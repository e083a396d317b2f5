//! The `OpenAI`-compatible backend against a server that speaks the API correctly and incorrectly.
#![cfg(feature = "openai")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod model_server;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use model_server::{
    Answer, ModelServer, Step, ending, event, json_answer, piece, raw, request_of, said, stream_head,
    streamed, whole,
};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::LlmRole;
use taskreel::infer::{
    Deltas, InferBackend, InferError, InferErrorKind, InferReply, InferRequest, OpenAiCompatible,
};
use taskreel::tool::{ToolPolicy, ToolSpec};

fn request() -> InferRequest {
    request_of(&[(LlmRole::System, "Reply in JSON."), (LlmRole::User, "Grüezi 😀")])
}

fn add() -> ToolSpec {
    ToolSpec {
        name: "math.add".to_owned(),
        description: "Adds".to_owned(),
        input_schema: Arc::new(json!({"type": "object", "properties": {"a": {"type": "integer"}}})),
        policy: ToolPolicy::read_only(),
    }
}

async fn ask(server: &ModelServer) -> Result<InferReply, InferError> {
    OpenAiCompatible::new(server.url(), "qwen3").infer(request()).await
}

/// Returns the backend's result for one answer.
async fn told(answer: Answer) -> Result<InferReply, InferError> {
    ask(&ModelServer::start([answer]).await).await
}

#[tokio::test]
async fn a_stream_is_one_reply_its_pieces_are_heard_and_usage_is_exact() {
    let text = said("Zürich 😀");
    let (left, right) = text.split_at(10);
    let server = ModelServer::start([streamed(&[left, right])]).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&heard);
    let deltas = Deltas::to(Arc::new(move |piece: &str| listener.lock().unwrap().push(piece.to_owned())));
    let model = OpenAiCompatible::new(server.url(), "qwen3").temperature(0.5).seed(3);
    let reply = model.infer(InferRequest { deltas, ..request() }).await.unwrap();
    assert_eq!((reply.content.as_str(), reply.model.as_str()), (text.as_str(), "served-model"));
    let usage = reply.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (11, 7));
    assert_eq!(*heard.lock().unwrap(), [left, right]);

    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /v1/chat/completions");
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(
        seen.body,
        json!({
            "model": "qwen3",
            "messages": [
                {"role": "system", "content": "Reply in JSON."},
                {"role": "user", "content": "Grüezi 😀"},
            ],
            "temperature": 0.5, "seed": 3,
            "stream": true, "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn a_whole_answer_is_read_whether_it_was_asked_for_or_not() {
    let answer = whole(&json!({"role": "assistant", "content": said("hi")}));
    let server = ModelServer::start([answer.clone()]).await;
    let reply = OpenAiCompatible::new(server.url(), "qwen3").whole_answers().infer(request()).await.unwrap();
    assert_eq!(reply.content, said("hi"));
    assert_eq!(reply.usage.unwrap().input_tokens, 11);
    let body = &server.seen()[0].body;
    assert_eq!((&body["stream"], body.get("stream_options")), (&json!(false), None));
    assert_eq!(told(answer).await.unwrap().content, said("hi"), "a server that does not stream");
    let server = ModelServer::start([streamed(&["a"])]).await;
    let model = OpenAiCompatible::new(server.url(), "qwen3").whole_answers();
    assert_eq!(model.infer(request()).await.unwrap().content, "a", "a server that streams unasked");
}

#[tokio::test]
async fn native_calls_are_offered_and_all_of_them_are_read() {
    let arguments = r#"{"a": 1180591620717411303424, "b":1.0}"#;
    let call = |name: &str, arguments: &str| json!({"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}});
    let message =
        json!({"content": null, "tool_calls": [call("math_add", arguments), call("math_add", "{}")]});
    let server = ModelServer::start([whole(&message)]).await;
    let asked = InferRequest { tools: vec![add()], ..request() };
    let reply = OpenAiCompatible::new(server.url(), "m").infer(asked.clone()).await.unwrap();
    let asked_for: Vec<_> = reply.calls.iter().map(|ask| (ask.tool.as_str(), ask.args.as_str())).collect();
    assert_eq!(asked_for, [("math.add", arguments), ("math.add", "{}")]);
    let body = &server.seen()[0].body;
    assert_eq!(body["tools"][0]["function"]["name"], "math_add");
    assert_eq!(body["tools"][0]["function"]["parameters"]["properties"]["a"]["type"], "integer");

    let reply = OpenAiCompatible::new(server.url(), "m").json_actions().infer(asked).await.unwrap();
    assert_eq!(reply.calls[0].tool, "math_add", "a name that was not offered is the model's own");
    let body = &server.seen()[1].body;
    assert_eq!(body.get("tools"), None);
}

#[tokio::test]
async fn the_schema_of_the_answer_is_sent_where_it_does_not_forbid_actions() {
    let server = ModelServer::start([whole(&json!({"content": "{}"}))]).await;
    let schema =
        JsonText::parse(r#"{"type":"object","properties":{"n":{"maximum":1180591620717411303424}}}"#)
            .unwrap();
    let asked = InferRequest { output_schema: Some(schema), ..request() };
    let with_tools = InferRequest { tools: vec![add()], ..asked.clone() };
    let model = || OpenAiCompatible::new(server.url(), "m");
    model().infer(asked.clone()).await.unwrap();
    model().format_with_tools(true).infer(with_tools.clone()).await.unwrap();
    model().infer(with_tools.clone()).await.unwrap();
    model().json_actions().infer(with_tools).await.unwrap();
    let sent: Vec<_> = server.seen().iter().map(|seen| seen.body.get("response_format").cloned()).collect();
    let format = sent[0].as_ref().unwrap();
    assert_eq!(format["type"], "json_schema");
    assert_eq!(format["json_schema"]["schema"].to_string(), asked.output_schema.unwrap().as_str());
    assert_eq!(sent[1], sent[0]);
    assert_eq!(sent[2], None, "many servers refuse it beside tools");
    assert_eq!(sent[3], None, "a model that calls tools by JSON actions could not call one");
}

#[tokio::test]
async fn a_stream_is_read_wherever_the_network_cuts_it_and_however_its_lines_end() {
    let text = said("Zürich 😀");
    for newline in ["\n", "\r\n", "\r"] {
        let body = [event(&piece(&text)), ending()].concat();
        let body = format!(": a comment\n\n: another\nevent: message\n{}", String::from_utf8(body).unwrap());
        let body = body.replace('\n', newline).into_bytes();
        let head = [stream_head(), b"\xef\xbb\xbf".to_vec()].concat();
        let steps = std::iter::once(head).chain(body.chunks(3).map(<[u8]>::to_vec)).map(Step::Send);
        let reply = told(steps.collect()).await.unwrap();
        assert_eq!((reply.content.as_str(), reply.usage.is_some()), (text.as_str(), true), "{newline:?}");
    }
    // HTTP chunks that end between the bytes of a character.
    let mut answer =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for chunk in [event(&piece(&text)), ending()].concat().chunks(7) {
        answer.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
    }
    answer.extend(b"0\r\n\r\n");
    assert_eq!(told(vec![Step::Send(answer)]).await.unwrap().content, text);
}

#[tokio::test]
async fn a_stream_that_is_cut_passes_and_one_that_said_its_end_is_whole() {
    let start = [stream_head(), event(&piece("{\"type\":"))].concat();
    let finished = event(&json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}));
    for cut in [start.clone(), [start.clone(), b"data: {\"choi".to_vec()].concat()] {
        let error = told(vec![Step::Send(cut)]).await.unwrap_err();
        assert!(error.is_transient() && error.message.contains("in the middle"), "{error:?}");
    }
    let chunked =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nda"
            .to_vec();
    let error = told(vec![Step::Send(chunked)]).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let short =
        raw("200 OK", &[("content-type", "application/json"), ("content-length", "500")], b"{\"choices\":");
    let error = told(short).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    for end in [finished, b"data: [DONE]".to_vec()] {
        told(vec![Step::Send([start.clone(), end].concat())]).await.unwrap();
    }
}

#[tokio::test]
async fn every_way_to_say_no_has_its_kind_and_its_words() {
    use InferErrorKind::{Failed, Malformed};
    let passing = InferErrorKind::Transient { retry_after: None };
    let error = |text: &str| json!({"error": {"message": text, "type": "x", "code": null}});
    let cases: Vec<(Answer, InferErrorKind, &str)> = vec![
        (
            json_answer("401 Unauthorized", &[], &error("no key")),
            Failed,
            "HTTP 401 from the model's server: no key",
        ),
        (json_answer("404 Not Found", &[], &json!({"detail": "no model"})), Failed, "no model"),
        (raw("400 Bad Request", &[], b"odd"), Failed, "HTTP 400 from the model's server: odd"),
        (raw("200 OK", &[("content-type", "text/html")], b"<html>Login"), Failed, "text/html and not JSON"),
        (
            raw("302 Found", &[("location", "https://other/v1?token=1")], b""),
            Failed,
            "redirects to https://other/v1;",
        ),
        (
            json_answer(
                "429 Too Many",
                &[],
                &json!({"error": {"message": "pay", "code": "insufficient_quota"}}),
            ),
            Failed,
            "pay",
        ),
        (raw("200 OK", &[("content-type", "application/json")], b"{\"choices\": [}"), passing, "no JSON"),
        (raw("200 OK", &[("content-type", "application/json")], b"\xff{}"), passing, "no JSON"),
        (json_answer("200 OK", &[], &json!({"choices": []})), passing, "no choice"),
        (json_answer("200 OK", &[], &json!([1])), passing, "no choice"),
        (json_answer("200 OK", &[], &error("model overheated")), Failed, "model overheated"),
        (whole(&json!({"content": null, "refusal": "I will not"})), Failed, "refused: I will not"),
        (vec![Step::Send([stream_head(), b"data: {\"a\n\n".to_vec()].concat())], passing, "no JSON"),
        (
            vec![Step::Send([stream_head(), b"event: error\ndata: broken\n\n".to_vec()].concat())],
            Failed,
            "broken",
        ),
        (vec![Step::Send([stream_head(), b"data: [DONE]\n\n".to_vec()].concat())], passing, "no choice"),
    ];
    for (answer, kind, words) in cases {
        let shown = format!("{answer:?}");
        let error = told(answer).await.expect_err(&shown);
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(error.message.contains(words), "{error:?}");
    }
    let cut = json!({"choices": [{"message": {"content": "{\"type"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 1, "completion_tokens": 4096}});
    let error = told(json_answer("200 OK", &[], &cut)).await.unwrap_err();
    assert_eq!((error.kind, error.message.contains("4096 tokens")), (Malformed, true), "{error:?}");
}

/// A server's answer, and the milliseconds after which it may be asked again.
type Busy<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<u64>);

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says() {
    let date = [("retry-after", "Wed, 21 Oct 2015 07:28:09 GMT"), ("date", "Wed, 21 Oct 2015 07:28:00 GMT")];
    let cases: [Busy<'_>; 6] = [
        ("429 Too Many Requests", &[("retry-after", "7")], Some(7_000)),
        ("429 Too Many Requests", &[("retry-after-ms", "120")], Some(120)),
        ("503 Service Unavailable", &date, Some(9_000)),
        ("500 Internal Server Error", &[], None),
        ("529 Overloaded", &[("retry-after", "soon")], None),
        ("408 Request Timeout", &[], None),
    ];
    for (status, headers, wait) in cases {
        let error = told(json_answer(status, headers, &json!({"error": "busy"}))).await.unwrap_err();
        let InferErrorKind::Transient { retry_after } = error.kind else { panic!("{error:?}") };
        let asked = wait.map(Duration::from_millis);
        // The requested delay, and up to a quarter more.
        assert_eq!(retry_after.is_some(), asked.is_some(), "{status}: {retry_after:?}");
        assert!(retry_after >= asked && retry_after <= asked.map(|asked| asked * 5 / 4), "{retry_after:?}");
    }
    let closed = ModelServer::start([]).await.url();
    let error = OpenAiCompatible::new(closed, "m").infer(request()).await.unwrap_err();
    assert!(error.is_transient() && error.message.contains("no connection to http://127.0.0.1"), "{error:?}");
}

#[tokio::test]
async fn silence_in_the_middle_of_an_answer_is_a_timeout_that_passes() {
    let silent = [Step::Send([stream_head(), event(&piece("{"))].concat()), Step::Silence];
    let server = ModelServer::start([silent.to_vec()]).await;
    let model = OpenAiCompatible::new(server.url(), "m").idle_timeout(Duration::from_millis(50));
    let error = model.infer(request()).await.unwrap_err();
    assert!(error.is_transient() && error.message.contains("silent for 50ms"), "{error:?}");
    server.until_left().await;
}

#[tokio::test]
async fn an_answer_without_end_is_given_up_at_its_limit() {
    let much = event(&piece(&"x".repeat(1_000)));
    let endless = std::iter::once(stream_head()).chain(std::iter::repeat_n(much, 100)).map(Step::Send);
    let long_line = [stream_head(), b"data: ".to_vec(), vec![b'x'; 100_000]].concat();
    let comments = std::iter::once(stream_head()).chain(std::iter::repeat_n(b": x\n".repeat(10_000), 20));
    let document = whole(&json!({"content": "x".repeat(100_000)}));
    let answers: [Answer; 4] =
        [endless.collect(), vec![Step::Send(long_line)], comments.map(Step::Send).collect(), document];
    for answer in answers {
        let server = ModelServer::start([answer]).await;
        let model = OpenAiCompatible::new(server.url(), "m").answer_bytes_max(10_000);
        let error = model.infer(request()).await.unwrap_err();
        assert_eq!(error.kind, InferErrorKind::Malformed);
        assert!(error.message.contains("longer than 10000 bytes"), "{error:?}");
    }
}

#[tokio::test]
async fn a_key_is_sent_and_never_comes_out_again() {
    let key = "sk-very-secret-1";
    let echo = |status: &str| {
        json_answer(status, &[], &json!({"error": {"message": format!("wrong key {key}"), "code": key}}))
    };
    let content = said(&format!("your key is {key}"));
    let answers = [echo("401 Unauthorized"), echo("200 OK"), whole(&json!({"content": content}))];
    let server = ModelServer::start(answers).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, format!("{key}\n")).unwrap();
    let model = || OpenAiCompatible::new(server.url(), "m");
    let mut outcomes = Vec::new();
    for model in [model().api_key(key), model().api_key_file(&path), model().header("x-key", key)] {
        outcomes.push(format!("{:?} {model:?} {:?}", model.infer(request()).await, model.parameters()));
    }
    for outcome in &outcomes {
        assert!(!outcome.contains("very-secret") && outcome.contains("[REDACTED]"), "{outcome}");
    }
    let seen = server.seen();
    let bearer = format!("Bearer {key}");
    assert_eq!(seen[0].header("authorization"), Some(bearer.as_str()));
    assert_eq!(seen[1].header("authorization"), Some(bearer.as_str()));
    assert_eq!((seen[2].header("authorization"), seen[2].header("x-key")), (None, Some(key)));
    std::fs::remove_file(&path).unwrap();
    let error = model().api_key_file(&path).infer(request()).await.unwrap_err();
    assert_eq!((error.kind, error.message.contains("key")), (InferErrorKind::Failed, true));
    assert_eq!(server.seen().len(), 3, "nothing is sent without the key");
}

#[tokio::test]
async fn a_key_that_comes_in_two_pieces_is_not_heard() {
    let key = "sk-very-secret-1";
    let text = said(&format!("your key is {key}, and sk-"));
    let (left, right) = text.split_at(text.find("secret-1").unwrap());
    let server = ModelServer::start([streamed(&[left, right])]).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&heard);
    let deltas = Deltas::to(Arc::new(move |piece: &str| listener.lock().unwrap().push(piece.to_owned())));
    let model = OpenAiCompatible::new(server.url(), "m").api_key(key);
    let reply = model.infer(InferRequest { deltas, ..request() }).await.unwrap();
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard.concat(), text.replace(key, "[REDACTED]"));
    assert_eq!(heard.concat(), reply.content);
    assert!(heard.len() > 1, "what cannot be a secret is not held back: {heard:?}");
}

#[tokio::test]
async fn a_key_at_the_cut_of_an_error_text_is_left_out() {
    let key = "sk-very-secret-1";
    for before in 1_980..2_001 {
        let body = format!("{}{key}{}", "x".repeat(before), "y".repeat(9));
        let head = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n", body.len());
        let server = ModelServer::start([vec![Step::Send((head + &body).into_bytes())]]).await;
        let error = OpenAiCompatible::new(server.url(), "m").api_key(key).infer(request()).await.unwrap_err();
        assert!(!error.message.contains("sk-"), "{before}: {}", error.message);
    }
}

#[tokio::test]
async fn dropping_the_question_hangs_up() {
    let silent = [Step::Send([stream_head(), event(&piece("{"))].concat()), Step::Silence];
    let server = ModelServer::start([silent.to_vec()]).await;
    let asking = tokio::spawn(OpenAiCompatible::new(server.url(), "m").infer(request()));
    server.until_asked(1).await;
    asking.abort();
    server.until_left().await;
}

#[test]
fn a_body_is_json_value_for_value() {
    // Numbers are sent as they were given.
    let model = OpenAiCompatible::new("http://h", "m").parameter("big", Value::from(u64::MAX));
    assert_eq!(model.parameters().get("parameters").unwrap().as_str(), r#"{"big":18446744073709551615}"#);
}
