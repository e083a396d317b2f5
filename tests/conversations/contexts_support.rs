//! An agent that is asked about the weather, with its scripted model.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

use std::convert::Infallible;
use std::sync::Arc;

use proto_events::json;
use taskreel::infer::{Entry, InferRequest, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, JsonSchema, Part, System, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::memory::MemoryStore;

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
