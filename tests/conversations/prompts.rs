//! Prompts are rendered again from the log alone, as the models were sent them, and an inference is never sent again with another
//! prompt than its intent names.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;

use proto_events::call::{Call, CallRequested, CallStatus, FailureClass};
use proto_events::id::{StreamId, Version};
use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, JsonSchema, Part, System, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::shown::prompt_of;
use tokio::sync::Notify;

use crate::prompt_support::{assert_rendered, inferences, with_other_intents};

#[derive(serde::Deserialize, JsonSchema)]
struct City {
    /// A city, as a person would say it.
    city: String,
}

async fn forecast(asked: City) -> Result<String, Infallible> {
    Ok(format!("rain in {}", asked.city))
}

fn call(city: &str) -> String {
    json!({"type": "tool_call", "tool": "forecast", "args": {"city": city}}).to_string()
}

fn script() -> Scripted {
    let last = r#"{"type": "final", "content": "take a coat"}"#;
    let replies = [
        call("Oslo").as_str(),
        "no JSON",
        last,
        last,
        call("Rome").as_str(),
        last,
        r#"{"type": "final", "content": "{\"n\": 1}"}"#,
    ]
    .map(|reply| taskreel::infer::Entry::Text(reply.to_owned()));
    Scripted::new(replies)
}

fn builder(store: Arc<dyn EventStore>) -> Builder {
    let policy = ToolPolicy::read_only();
    System::builder("-").store(store).name("desk").system_prompt("Be brief.").tool_with(
        "forecast",
        "Weather for one city",
        forecast,
        policy,
    )
}

#[tokio::test]
async fn each_prompt_of_a_conversation_and_of_plain_tasks_is_rendered_from_the_log_as_it_was_sent() {
    for stateless in [false, true] {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let model = script();
        let builder = builder(store.clone()).infer(model.clone());
        let system = if stateless { builder.stateless() } else { builder }.start().await.unwrap();
        let schema = json!({"prompt": "n?", "output_schema": {"type": "object", "required": ["n"]}});
        for part in [
            Part::infer("Coat in Oslo?"),
            Part::infer("And now?"),
            Part::infer("In Rome?"),
            Part::new("infer", schema.into()),
        ] {
            let end = system.session("s").send(part).await.unwrap().finished().await.unwrap();
            assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        }
        system.shutdown().await.unwrap();
        let requests = model.requests();
        assert_eq!(requests.len(), 7);
        let log = store.reopen().unwrap();
        assert_rendered(&*log, &requests);
        let lengths: Vec<usize> = requests.iter().map(|request| request.messages.len()).collect();
        let expected: &[usize] = if stateless { &[2, 4, 5, 2, 2, 4, 2] } else { &[2, 4, 5, 7, 9, 11, 13] };
        assert_eq!(lengths, expected);
    }
}

/// A model that never answers, and says when it is asked.
#[derive(Clone, Default)]
struct Silent(Arc<Notify>);

impl InferBackend for Silent {
    fn backend(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &'static str {
        "scripted"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

/// The change of the agent between two programs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Nothing,
    SystemPrompt,
    Tools,
    Parameters,
    Model,
    Renderer,
}

/// A script with other parameters than it has.
struct Warm(Scripted);

impl InferBackend for Warm {
    fn backend(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &'static str {
        "scripted"
    }

    fn parameters(&self) -> JsonObject {
        let mut parameters = JsonObject::new();
        parameters.set("temperature", JsonText::parse("1").unwrap());
        parameters
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.0.infer(request)
    }
}

fn changed(builder: Builder, change: Change, model: &Scripted) -> Builder {
    let builder = match change {
        Change::SystemPrompt => builder.system_prompt("Be long."),
        Change::Tools => builder.tool("tides", "Tides of one city", forecast),
        _ => builder,
    };
    match change {
        Change::Parameters => builder.infer(Warm(model.clone())),
        Change::Model => builder.infer(model.clone().named("larger")),
        _ => builder.infer(model.clone()),
    }
}

/// Runs a task into a crash during its inference, and to its end with an agent changed like this; returns the log and
/// the requests of the second program.
async fn resumed(stateless: bool, change: Change) -> (Arc<dyn EventStore>, Vec<InferRequest>) {
    let store = Arc::new(MemoryStore::new());
    let silent = Silent::default();
    let first = builder(store.clone()).infer(silent.clone());
    let first = if stateless { first.stateless() } else { first }.start().await.unwrap();
    let task = first.session("demo").send(Part::infer("Coat in Oslo?")).await.unwrap();
    silent.0.notified().await;
    // The program ends here.
    let store = match change {
        Change::Renderer => {
            let change = |asked: &mut CallRequested| asked.prompt.as_mut().unwrap().renderer += 1;
            with_other_intents(&*store, change).await.reopened()
        }
        _ => store.reopened(),
    };
    let store = Arc::new(store.unwrap());
    let model = Scripted::from_json(r#"{"Oslo":[{"type":"final","content":"yes"}]}"#).unwrap();
    let second = changed(builder(store.clone()), change, &model);
    let second = if stateless { second.stateless() } else { second }.start().await.unwrap();
    let end = second.task(task.id()).unwrap().finished().await.unwrap();
    assert_eq!(end.answer().unwrap().as_str(), "\"yes\"");
    second.shutdown().await.unwrap();
    (store.reopen().unwrap(), model.requests())
}

#[tokio::test]
async fn an_inference_in_flight_under_a_changed_agent_is_intended_anew_and_both_prompts_stay_in_the_log() {
    for stateless in [false, true] {
        for change in [
            Change::Nothing,
            Change::SystemPrompt,
            Change::Tools,
            Change::Parameters,
            Change::Model,
            Change::Renderer,
        ] {
            let (log, requests) = resumed(stateless, change).await;
            let found = inferences(&*log);
            let ends: Vec<_> = found.iter().map(|(_, call)| (call.status.as_str(), call.attempts)).collect();
            if change == Change::Nothing {
                assert_rendered(&*log, &requests);
                assert_eq!(ends, [("succeeded", 2)], "the same prompt is sent again");
                continue;
            }
            assert_eq!(ends, [("failed", 1), ("succeeded", 1)], "{change:?}");
            let CallStatus::Failed(failure) = &found[0].1.status else { panic!("{:?}", found[0].1) };
            assert_eq!(failure.class, FailureClass::Superseded);
            let revisions: Vec<u32> =
                found.iter().map(|(_, call)| call.request.prompt.as_ref().unwrap().revision).collect();
            if change == Change::Renderer {
                assert_eq!(revisions, [1, 1]);
                continue;
            }
            assert_rendered(&*log, &requests);
            assert_eq!(revisions, [1, 2]);
            let [before, after] = [&found[0], &found[1]]
                .map(|(stream, call)| prompt_of(&*log, stream, &call.request.call_id).unwrap());
            assert!(before.system.ends_with("Be brief."), "{}", before.system);
            // A turn keeps the system prompt with which it began.
            let is_new = stateless && change == Change::SystemPrompt;
            assert!(
                after.system.ends_with(if is_new { "Be long." } else { "Be brief." }),
                "{}",
                after.system
            );
            assert_eq!(after.offer.tools.len(), 1 + usize::from(change == Change::Tools));
            assert_eq!(after.messages.len(), 1, "the question is not asked twice");
        }
    }
}

#[tokio::test]
async fn a_prompt_that_is_written_before_its_intent_has_the_digest_of_what_is_on_disk() {
    for stateless in [false, true] {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let model = Scripted::from_json(r#"{"":[{"type":"final","content":"yes"}]}"#).unwrap();
        let builder = builder(store.clone()).infer(model.clone());
        let system = if stateless { builder.stateless() } else { builder }.start().await.unwrap();
        // So much that the planner writes it before it goes on.
        let question = "coat? ".repeat(400_000);
        let end = system.session("s").send(Part::infer(&question)).await.unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
        system.shutdown().await.unwrap();
        let log = store.reopen().unwrap();
        let (stream, call) = inferences(&*log).remove(0);
        let intent = holding(&*log, &stream, &call.request.call_id).remove(0);
        let said = holding(&*log, &said_in(&call, &stream), "coat? coat?").pop();
        assert_ne!(said, Some(intent), "they are two appends");
        assert_rendered(&*log, &model.requests());
    }
}

/// Returns the stream that a prompt was read from.
fn said_in(call: &Call, task: &StreamId) -> StreamId {
    let session = call.request.prompt.as_ref().and_then(|prompt| prompt.session.as_ref());
    session.map_or_else(|| task.clone(), |session| StreamId::parse(session).unwrap())
}

/// Returns the appends whose records of a stream hold a text.
fn holding(log: &dyn EventReader, stream: &StreamId, text: &str) -> Vec<[u8; 16]> {
    let records = log.read_stream(stream, Version(1), usize::MAX).unwrap();
    let holds = |stored: &&taskreel_log::api::StoredRecord| {
        let bodies = stored.record.events.iter().filter_map(|event| event.body());
        bodies.into_iter().any(|body| body.windows(text.len()).any(|seen| seen == text.as_bytes()))
    };
    records.iter().filter(holds).map(|stored| stored.record.set_id).collect()
}
