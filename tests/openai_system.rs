//! The `OpenAI`-compatible backend in a whole system: the effect of its failures, schema and key on the log.
#![cfg(feature = "openai")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod model_server;

use std::sync::Arc;
use std::time::Duration;

use model_server::{
    Answer, ModelServer, Step, event, json_answer, piece, said, stream_head, streamed, whole,
};
use proto_events::call::CallEvent;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, Position};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::task::TaskEvent;
use serde::Deserialize;
use taskreel::infer::OpenAiCompatible;
use taskreel::{Error, JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::decode_record;

#[derive(Deserialize, JsonSchema)]
struct Two {
    a: i64,
    b: i64,
}

/// Starts a system on a log in memory, with one tool whose name the API does not accept.
async fn system(model: OpenAiCompatible) -> (System, Arc<MemoryStore>) {
    let log = Arc::new(MemoryStore::new());
    let add = |two: Two| async move { Ok::<_, std::io::Error>(two.a + two.b) };
    let builder = System::builder("in memory").store(Arc::<MemoryStore>::clone(&log));
    (builder.tool("math.add", "Adds", add).infer(model).start().await.unwrap(), log)
}

/// Runs one part; returns the finished task, and the events of its calls.
async fn run(model: OpenAiCompatible, part: Part) -> (TaskSnapshot, Vec<CallEvent>) {
    let (system, log) = system(model).await;
    let end = system.session("s").send(part).await.unwrap().finished().await.unwrap();
    let calls = calls(&*log);
    system.shutdown().await.unwrap();
    (end, calls)
}

fn calls(log: &dyn EventReader) -> Vec<CallEvent> {
    timed_calls(log).into_iter().map(|(event, _)| event).collect()
}

fn timed_calls(log: &dyn EventReader) -> Vec<(CallEvent, Timestamp)> {
    let mut calls = Vec::new();
    for stored in log.read_all(Position(1), 10_000).unwrap() {
        if stored.record.stream.category() == Some(Category::Task) {
            let events = decode_record::<TaskEvent>(&stored).unwrap();
            calls.extend(events.into_iter().filter_map(|recorded| match recorded.event {
                TaskEvent::Call(event) => Some((event, recorded.metadata.at)),
                _ => None,
            }));
        }
    }
    calls
}

fn asking(prompt: &str, schema: &Value) -> Part {
    Part::new("infer", json!({"prompt": prompt, "output_schema": schema}).into())
}

fn answer(end: &TaskSnapshot) -> Value {
    end.answer().map_or(Value::Null, JsonText::tree)
}

fn native(arguments: &str) -> Answer {
    let call = json!({"index": 0, "id": "c", "function": {"name": "math_add", "arguments": arguments}});
    whole(&json!({"content": null, "tool_calls": [call]}))
}

#[tokio::test]
async fn a_conversation_with_a_native_call_ends_well_and_its_usage_is_kept() {
    let server = ModelServer::start([native(r#"{"a":2,"b":3}"#), streamed(&[&said("5")])]).await;
    let model = OpenAiCompatible::new(server.url(), "m").temperature(0.0);
    let (end, calls) = run(model, Part::infer("2 + 3?")).await;
    assert_eq!((end.state(), answer(&end)), (TaskState::Completed, json!("5")));
    let usages: Vec<_> = calls
        .iter()
        .filter_map(|call| match call {
            CallEvent::Succeeded { usage: Some(usage), .. } => {
                Some((usage.input_tokens, usage.output_tokens))
            }
            _ => None,
        })
        .collect();
    assert_eq!(usages, [(11, 7), (11, 7)]);
    let CallEvent::Requested(intent) = &calls[0] else { panic!("{calls:?}") };
    assert_eq!(intent.target, "openai-compatible/m");
    let expected = format!(
        r#"{{"backend":"openai-compatible","model":"m","base_url":"{}","parameters":{{"temperature":0.0}}}}"#,
        server.url()
    );
    assert_eq!(intent.args.as_str(), expected);
    // The second request shows the model its own call and the result.
    let messages = &server.seen()[1].body["messages"];
    let asked = &messages[2]["tool_calls"][0];
    assert_eq!((&messages[2]["role"], &messages[2]["content"]), (&json!("assistant"), &json!("")));
    assert_eq!(asked["function"], json!({"name": "math_add", "arguments": r#"{"a":2,"b":3}"#}));
    assert_eq!(messages[3], json!({"role": "tool", "tool_call_id": asked["id"].clone(), "content": "5"}));
}

#[tokio::test]
async fn a_storm_of_429_is_retried_with_its_waits_in_the_log_and_then_given_up() {
    let busy =
        |wait| json_answer("429 Too Many Requests", &[("retry-after-ms", wait)], &json!({"error": "busy"}));
    let server = ModelServer::start([busy("40"), busy("80"), streamed(&[&said("late")])]).await;
    let (system, log) = system(OpenAiCompatible::new(server.url(), "m")).await;
    let end = system.session("s").send(Part::infer("hi")).await.unwrap().finished().await.unwrap();
    assert_eq!(answer(&end), json!("late"));
    let waits: Vec<u64> = timed_calls(&*log)
        .iter()
        .filter_map(|call| match call {
            (CallEvent::RetryScheduled { failure, due, .. }, at) => {
                let cause = &failure.message;
                assert!(cause.contains("HTTP 429") && cause.contains("busy"), "{cause}");
                Some(u64::try_from(due.since(*at).as_millis()).unwrap())
            }
            _ => None,
        })
        .collect();
    assert!(waits.len() == 2 && (40..=50).contains(&waits[0]) && (80..=100).contains(&waits[1]), "{waits:?}");

    let server = ModelServer::start([busy("1")]).await;
    let (end, calls) = run(OpenAiCompatible::new(server.url(), "m"), Part::infer("hi")).await;
    assert_eq!(end.state(), TaskState::Failed);
    assert!(end.task().error().unwrap().contains("HTTP 429"), "{:?}", end.task().error());
    assert_eq!(server.seen().len(), 4, "one question and three retries");
    assert!(matches!(calls.last(), Some(CallEvent::Failed { attempt: 4, .. })), "{calls:?}");
}

#[tokio::test]
async fn a_cancel_in_the_middle_of_an_answer_hangs_up() {
    let silent = vec![Step::Send([stream_head(), event(&piece("{\"type\""))].concat()), Step::Silence];
    let server = ModelServer::start([silent]).await;
    let (system, log) = system(OpenAiCompatible::new(server.url(), "m")).await;
    let task = system.session("s").send(Part::infer("hi")).await.unwrap();
    server.until_asked(1).await;
    task.cancel(Some("enough")).await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Canceled);
    server.until_left().await;
    assert!(matches!(calls(&*log).last(), Some(CallEvent::Canceled { .. })));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_answer_of_its_schema_is_put_out_as_it_came() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let big = r#"{"n":1180591620717411303424,"x":1.50}"#;
    // As a bare document, as the content of a final action, and as text in one.
    let cases = [
        (big.to_owned(), big.to_owned()),
        (format!(r#"{{"type":"final","content":{big}}}"#), big.to_owned()),
        (said(big), JsonText::string(big).to_string()),
    ];
    for (reply, expected) in cases {
        let server = ModelServer::start([streamed(&[&reply])]).await;
        let model = OpenAiCompatible::new(server.url(), "m").format_with_tools(true);
        let (end, _) = run(model, asking("n?", &schema)).await;
        assert_eq!(end.answer().unwrap().as_str(), expected, "{reply}");
        let body = &server.seen()[0].body;
        assert_eq!(body["response_format"]["json_schema"]["schema"], schema);
        let system = body["messages"][0]["content"].as_str().unwrap();
        assert!(system.ends_with(&schema.to_string()), "{system}");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_told_once_and_then_fails_the_task() {
    let schema = json!({"type": "object", "required": ["n"]});
    let good = r#"{"n":1}"#;
    let server = ModelServer::start([streamed(&[&said("{}")]), streamed(&[good])]).await;
    let (end, _) = run(OpenAiCompatible::new(server.url(), "m"), asking("n?", &schema)).await;
    assert_eq!(answer(&end), json!({"n": 1}));
    let told = &server.seen()[1].body["messages"][2];
    assert_eq!(told["role"], "system");
    assert!(told["content"].as_str().unwrap().contains("\"n\" is a required property"), "{told}");

    // An unreadable reply between them changes nothing.
    let server = ModelServer::start([streamed(&["{}"]), streamed(&["prose"]), streamed(&[&said("x")])]).await;
    let (end, _) = run(OpenAiCompatible::new(server.url(), "m"), asking("n?", &schema)).await;
    assert_eq!(end.state(), TaskState::Failed);
    let error = end.task().error().unwrap();
    assert!(error.contains("does not fit the output schema") && error.contains("is not of type"), "{error}");
    assert_eq!(server.seen().len(), 3);

    let server = ModelServer::start([streamed(&[good])]).await;
    let (end, _) =
        run(OpenAiCompatible::new(server.url(), "m"), asking("n?", &json!({"$ref": "#/none"}))).await;
    assert_eq!((end.state(), server.seen().len()), (TaskState::Failed, 0), "a schema of no use asks nobody");
    assert!(end.task().error().unwrap().contains("'#/none' leads nowhere"));
}

#[tokio::test]
async fn a_limit_of_tokens_ends_the_run_before_or_after_the_call() {
    let budget = |name: &str, limit: u64| {
        let message = json!({"role": "user", "parts": [{"type": "infer", "content": {"prompt": "hi"}}]});
        json!({"id": name, "messages": [message], "metadata": {"budget": {name: limit}}})
    };
    let server = ModelServer::start([streamed(&[&said("x")])]).await;
    let (system, _) = system(OpenAiCompatible::new(server.url(), "m")).await;
    let mut errors = Vec::new();
    for posted in
        [budget("max_input_tokens", 20), budget("max_output_tokens", 6), budget("max_output_tokens", 7)]
    {
        let posted = JsonText::from(posted);
        let mut ports = taskreel_log::ports::Ports::default();
        let posted = taskreel::PostedTask::from_json(&posted, &mut ports).unwrap();
        let id = format!("{}-{}", posted.id, errors.len());
        let task = system.submit(taskreel::PostedTask { id, ..posted }).await.unwrap();
        errors.push(task.finished().await.unwrap().task().error().unwrap_or_default());
    }
    assert!(errors[0].starts_with("Run budget exceeded: max_input_tokens observed "), "{errors:?}");
    assert_eq!(errors[1], "Run budget exceeded: max_output_tokens observed 7 > limit 6");
    assert_eq!(errors[2], "");
    assert_eq!(server.seen().len(), 2, "a question that is over the limit is not asked");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn no_byte_of_the_log_holds_the_key() {
    let key = "sk-very-secret-2";
    let leaks = json!({"error": {"message": format!("Incorrect API key provided: {key}")}});
    let answers =
        [streamed(&[&said(&format!("I was given {key}"))]), json_answer("401 Unauthorized", &[], &leaks)];
    let server = ModelServer::start(answers).await;
    let (system, log) =
        system(OpenAiCompatible::new(server.url(), "m").api_key(key).header("x-more", key)).await;
    for _ in 0..2 {
        system.session("s").send(Part::infer("what key?")).await.unwrap().finished().await.unwrap();
    }
    let records = log.read_all(Position(1), 10_000).unwrap();
    let bytes: Vec<u8> = records.iter().flat_map(|stored| stored.bytes.iter().copied()).collect();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("[REDACTED]") && !holds("very-secret"));
    assert_eq!(server.seen()[0].header("x-more"), Some(key));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_model_that_cannot_be_asked_keeps_the_system_from_starting() {
    let log: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let model = OpenAiCompatible::new("http://127.0.0.1:1/v1", "m").api_key_env("TASKREEL_NO_SUCH_KEY");
    let refused = System::builder("in memory").store(log).infer(model).start().await.err();
    let Some(Error::Builder(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("openai-compatible/m") && why.contains("TASKREEL_NO_SUCH_KEY"), "{why}");
}

#[tokio::test]
async fn a_slow_server_is_an_attempt_that_passes() {
    let slow = vec![Step::Send([stream_head(), event(&piece("{"))].concat()), Step::Silence];
    let server = ModelServer::start([slow, streamed(&[&said("now")])]).await;
    let model = OpenAiCompatible::new(server.url(), "m").idle_timeout(Duration::from_millis(30));
    let (end, calls) = run(model, Part::infer("hi")).await;
    assert_eq!(answer(&end), json!("now"));
    let retried = calls
        .iter()
        .any(|call| matches!(call, CallEvent::Dispatched { cause, .. } if cause.contains("silent")));
    assert!(retried, "{calls:?}");
}
