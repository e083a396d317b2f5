//! An agent that is asked about the weather, with its scripted model, and what the log says was sent to it.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

use std::convert::Infallible;
use std::sync::Arc;

use proto_events::call::{Call, Selection};
use proto_events::id::StreamId;
use proto_events::json;
use proto_events::task::Task;
use taskreel::infer::{Entry, InferRequest, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, JsonSchema, Part, System, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::{fold_stream, for_each_stream};
use taskreel_log::shown::{prompt_digest, prompt_of};

#[derive(serde::Deserialize, JsonSchema)]
pub(crate) struct City {
    /// A city, as a person would say it.
    city: String,
}

pub(crate) async fn forecast(asked: City) -> Result<String, Infallible> {
    Ok(format!("rain in {}, {}", asked.city, "and wind ".repeat(60)))
}

pub(crate) fn builder(store: Arc<dyn EventStore>) -> Builder {
    let policy = ToolPolicy::read_only();
    System::builder("-").store(store).name("desk").tool_with("forecast", "Weather", forecast, policy)
}

pub(crate) fn last(text: &str) -> Entry {
    Entry::json(&json!({"type": "final", "content": text}))
}

pub(crate) fn call(city: &str) -> Entry {
    Entry::json(&json!({"type": "tool_call", "tool": "forecast", "args": {"city": city}}))
}

/// A tool call and an answer for each of so many turns, the calls by the provider's own interface or in the text.
pub(crate) fn script(turns: usize, is_native: bool) -> Scripted {
    let call = || {
        let args = json!({"city": "Oslo"});
        if is_native {
            Entry::from_value(&json!({"calls": [{"tool": "forecast", "args": args}]})).unwrap()
        } else {
            Entry::json(&json!({"type": "tool_call", "tool": "forecast", "args": args}))
        }
    };
    Scripted::new((0..turns).flat_map(|_| [call(), last("take a coat")]))
}

/// Returns the inferences of a log, each with the stream of its task.
pub(crate) fn inferences(log: &dyn EventReader) -> Vec<(StreamId, Call)> {
    let mut found = Vec::new();
    for_each_stream(log, "task-", |info| {
        let task = fold_stream::<Task>(log, &info.stream, None).unwrap().state;
        let calls = task.calls().iter().filter(|call| call.request.prompt.is_some());
        found.extend(calls.map(|call| (info.stream.clone(), call.clone())));
    })
    .unwrap();
    found
}

pub(crate) fn selection(call: &Call) -> Option<&Selection> {
    call.request.prompt.as_ref().unwrap().selection.as_ref()
}

/// Checks that the log alone renders each prompt as the model received it, and that all its digests hold.
pub(crate) fn assert_rendered(log: &dyn EventReader, requests: &[InferRequest]) {
    let found = inferences(log);
    for request in requests {
        let (stream, call) = found.iter().find(|(_, call)| call.request.call_id == request.call_id).unwrap();
        let prompt = prompt_of(log, stream, &request.call_id).unwrap();
        let shown: Vec<(&str, &str)> = std::iter::once(("system", prompt.system.as_str()))
            .chain(prompt.messages.iter().map(|message| (message.role.as_str(), message.content.as_str())))
            .collect();
        let sent: Vec<(&str, &str)> = request
            .messages
            .iter()
            .map(|message| (message.role.as_str(), message.content.as_str()))
            .collect();
        assert_eq!(shown, sent);
        assert_eq!(call.request.prompt.as_ref().unwrap().messages as usize, sent.len());
        assert!(prompt_digest(log, stream, &request.call_id).unwrap().is_equal());
    }
    let verified = verify(log);
    assert!(verified.is_sound(), "{:#?}", verified.findings);
}

/// Runs turns of one session under a strategy; returns the log and the requests that the model received.
pub(crate) async fn run(
    describe: impl FnOnce(Builder) -> Builder,
    turns: usize,
    is_native: bool,
) -> (Arc<dyn EventStore>, Vec<InferRequest>) {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let model = script(turns, is_native);
    let system = describe(builder(store.clone())).infer(model.clone()).start().await.unwrap();
    for turn in 0..turns {
        let asked = format!("question {turn}: shall I take a coat?");
        let end = system.session("s").send(Part::infer(&asked)).await.unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    }
    system.shutdown().await.unwrap();
    (store.reopen().unwrap(), model.requests())
}
