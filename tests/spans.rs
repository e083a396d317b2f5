//! The spans of a run as a subscriber sees them: their names, fields and nesting.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use proto_events::call::TokenUsage;
use proto_events::json;
use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::tool::{BoxFuture, ToolError};
use taskreel::{JsonSchema, Part, System};
use taskreel_log::memory::MemoryStore;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// A span as it was when it closed.
#[derive(Debug, Clone, Default)]
struct Seen {
    name: &'static str,
    parent: Option<u64>,
    id: u64,
    fields: BTreeMap<&'static str, String>,
    closed: bool,
    follows: Option<u64>,
}

/// A collector of the spans, and of the errors recorded as events.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<(Vec<Seen>, Vec<String>)>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let before = self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
        assert_eq!(before, None, "{} is recorded twice", field.name());
    }
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut seen = Seen { name: attributes.metadata().name(), id: id.into_u64(), ..Seen::default() };
        seen.parent = cx.span(id).and_then(|span| span.parent()).map(|parent| parent.id().into_u64());
        attributes.record(&mut Fields(&mut seen.fields));
        self.0.lock().unwrap().0.push(seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut all = self.0.lock().unwrap();
        let seen = all.0.iter_mut().rev().find(|seen| seen.id == id.into_u64()).unwrap();
        values.record(&mut Fields(&mut seen.fields));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        let mut all = self.0.lock().unwrap();
        let seen = all.0.iter_mut().rev().find(|seen| seen.id == id.into_u64()).unwrap();
        seen.follows = Some(follows.into_u64());
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= tracing::Level::WARN {
            let mut fields = BTreeMap::new();
            event.record(&mut Fields(&mut fields));
            self.0.lock().unwrap().1.push(format!("{fields:?}"));
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut all = self.0.lock().unwrap();
        if let Some(seen) = all.0.iter_mut().rev().find(|seen| seen.id == id.into_u64() && !seen.closed) {
            seen.closed = true;
        }
    }
}

impl Collector {
    fn spans(&self) -> Vec<Seen> {
        self.0.lock().unwrap().0.clone()
    }

    /// Returns the names from a span up to the root.
    fn path(&self, of: &Seen) -> Vec<&'static str> {
        let (spans, mut path, mut at) = (self.spans(), vec![of.name], of.parent);
        while let Some(parent) = at {
            let seen = spans.iter().rev().find(|seen| seen.id == parent).unwrap();
            path.push(seen.name);
            at = seen.parent;
        }
        path
    }
}

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

async fn weather(ask: City) -> Result<u64, ToolError> {
    if ask.city.is_empty() { Err(ToolError::failed("no such city")) } else { Ok(20) }
}

/// A model that requests the tool once, then ends.
struct Asks;

impl InferBackend for Asks {
    fn backend(&self) -> &'static str {
        "asks"
    }

    fn model(&self) -> &'static str {
        "a-1"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let again = request.messages.iter().any(|message| message.content.contains("tool_result"));
        let content = if again {
            json!({"type": "final", "content": "mild"})
        } else {
            json!({"type": "tool_call", "tool": "weather", "args": {"city": "Oslo"}})
        };
        let usage = Some(TokenUsage { input_tokens: 11, output_tokens: 3 });
        Box::pin(async move {
            Ok(InferReply {
                content: content.to_string(),
                usage,
                model: "a-1-0611".to_owned(),
                ..InferReply::default()
            })
        })
    }
}

async fn ran(parts: impl FnOnce() -> Vec<Part>) -> Collector {
    let collector = Collector::default();
    // The actors have a thread of their own, so the subscriber is for the whole process: one test at a time.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Shared));
    *SHARED.lock().unwrap() = Some(collector.clone());
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool("weather", "Weather", weather)
        .infer(Asks)
        .start()
        .await
        .unwrap();
    for part in parts() {
        let caller = tracing::info_span!("caller");
        let task = tracing::Instrument::instrument(system.session("demo").send(part), caller).await.unwrap();
        task.finished().await.unwrap();
    }
    system.shutdown().await.unwrap();
    *SHARED.lock().unwrap() = None;
    collector
}

static SHARED: Mutex<Option<Collector>> = Mutex::new(None);
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A layer that forwards to the current collector.
struct Shared;

fn collector() -> Option<Collector> {
    SHARED.lock().unwrap().clone()
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Shared {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        if let Some(to) = collector() {
            to.on_new_span(attributes, id, cx);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        if let Some(to) = collector() {
            Layer::<S>::on_record(&to, id, values, cx);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, cx: Context<'_, S>) {
        if let Some(to) = collector() {
            Layer::<S>::on_follows_from(&to, id, follows, cx);
        }
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        if let Some(to) = collector() {
            Layer::<S>::on_event(&to, event, cx);
        }
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        if let Some(to) = collector() {
            Layer::<S>::on_close(&to, id, cx);
        }
    }
}

#[tokio::test]
async fn every_call_of_a_run_stands_in_its_route_in_its_task_and_its_append_stands_in_it() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let collector = ran(|| vec![Part::infer("Coat in Oslo?")]).await;
    let spans = collector.spans();
    let named = |name| spans.iter().filter(move |seen: &&Seen| seen.name == name).collect::<Vec<_>>();
    let [task] = named("task")[..] else { panic!("one run, one span: {spans:#?}") };
    assert_eq!(task.parent, None);
    assert_eq!(
        task.follows,
        Some(named("caller")[0].id),
        "the span that started it is linked, not its parent"
    );
    assert_eq!((task.fields["session"].as_str(), task.fields["state"].as_str()), ("demo", "completed"));
    assert_eq!(task.fields["agent"], "agent");
    assert_eq!((named("infer").len(), named("tool.call").len(), named("route").len()), (2, 1, 3));
    for call in named("infer").into_iter().chain(named("tool.call")) {
        assert_eq!(collector.path(call)[1..], ["route", "task"]);
        let appends = named("log.append").into_iter().filter(|append| append.parent == Some(call.id)).count();
        assert!(appends >= 1, "its outcome is written within it");
    }
    for append in named("log.append") {
        assert!(append.fields["position"].parse::<u64>().unwrap() >= 1);
        assert!(append.fields["bytes"].parse::<u64>().unwrap() > 100);
        assert!(collector.path(append).contains(&"task"), "{:?}", collector.path(append));
    }
    let tool = named("tool.call")[0];
    assert_eq!(tool.fields["tool"], "weather");
    assert!(tool.fields["call_id"].starts_with("call_"));
    let infer = named("infer")[0];
    for (field, said) in [
        ("backend", "asks"),
        ("model", "a-1"),
        ("response_model", "a-1-0611"),
        ("input_tokens", "11"),
        ("output_tokens", "3"),
        ("session", "demo"),
        ("attempt", "1"),
    ] {
        assert_eq!(infer.fields[field], said, "{field}");
    }
    assert!(spans.iter().all(|seen| seen.closed), "nothing is left open: {spans:#?}");
}

#[tokio::test]
async fn an_error_is_recorded_once_on_the_call_that_had_it() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let collector = ran(|| vec![Part::tool_call("weather", json!({"city": ""})).unwrap()]).await;
    let spans = collector.spans();
    let with_error: Vec<_> = spans.iter().filter(|seen| seen.fields.contains_key("error")).collect();
    let [failed] = with_error[..] else { panic!("once: {spans:#?}") };
    assert_eq!((failed.name, failed.fields["error"].as_str()), ("tool.call", "no such city"));
    assert_eq!(failed.fields["error_type"], "ToolError");
    let task = spans.iter().find(|seen| seen.name == "task").unwrap();
    assert_eq!(task.fields["state"], "failed");
    assert_eq!(collector.0.lock().unwrap().1, [] as [String; 0], "and told as no event beside it");
}

#[tokio::test]
async fn each_run_has_a_span_of_its_own_and_a_look_has_none() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let call = || Part::tool_call("weather", json!({"city": "Oslo"})).unwrap();
    let collector = ran(|| vec![call(), call()]).await;
    let tasks = collector.spans().into_iter().filter(|seen| seen.name == "task").count();
    assert_eq!(tasks, 2);
}
