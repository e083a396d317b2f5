//! A replayed log: the same tasks, on a new log, leave the same events, and requests that were not recorded
//! are refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;

use proto_events::codec::AnyEvent;
use proto_events::id::Position;
use proto_events::json;
use serde::Deserialize;
use taskreel::fidelity::python_json;
use taskreel::infer::{Entry, InferBackend, Recorded, RecordedError, Scripted};
use taskreel::{Builder, JsonSchema, Part, System, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::memory::MemoryStore;

#[derive(Deserialize, JsonSchema)]
struct Two {
    a: i64,
    b: i64,
}

async fn add(two: Two) -> Result<i64, std::io::Error> {
    Ok(two.a + two.b)
}

type Log = Arc<dyn EventStore>;

fn builder(log: &Log) -> Builder {
    System::builder("in memory").store(Arc::clone(log)).tool("add", "Adds", add)
}

fn fresh() -> Log {
    Arc::new(MemoryStore::new())
}

fn script() -> Scripted {
    let call = Entry::json(&json!({"type": "tool_call", "tool": "add", "args": {"a": 1, "b": 2}}));
    let last = |content: &str| Entry::json(&json!({"type": "final", "content": content}));
    let raise =
        |kind: &str, message: &str| Entry::Raise { type_name: kind.to_owned(), message: message.to_owned() };
    Scripted::new([
        call,
        Entry::Text("no JSON".to_owned()),
        raise("TimeoutError", "slow"),
        last("three"),
        raise("ValueError", "odd"),
        last("again"),
        raise("RuntimeError", "model down"),
        last("{\"n\":1}"),
    ])
}

/// Runs two turns of a conversation, one that fails, and one with a schema.
async fn work(system: &System) -> Vec<TaskState> {
    let schema = json!({"prompt": "n?", "output_schema": {"type": "object", "required": ["n"]}});
    let parts = [
        Part::infer("1 + 2?"),
        Part::infer("once more?"),
        Part::infer("and now?"),
        Part::new("infer", schema.into()),
    ];
    let mut states = Vec::new();
    for part in parts {
        let end = system.session("s").send(part).await.unwrap().finished().await.unwrap();
        states.push(end.state());
    }
    states
}

/// Returns the log's events in words, with ids and times masked by their order of appearance.
fn events(log: &dyn EventReader) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    let mut shown = Vec::new();
    for stored in log.read_all(Position(1), 10_000).unwrap() {
        let category = stored.record.stream.category();
        for event in &stored.record.events {
            let event = AnyEvent::decode(category, event.kind, event.schema, event.body().unwrap()).unwrap();
            shown.push(mask(&format!("{} {event:?}", stored.record.stream), &mut known));
        }
    }
    shown
}

/// Masks ids, which are long runs of hexadecimal digits, also in groups, and times, which begin with a year.
fn mask(text: &str, known: &mut Vec<String>) -> String {
    let is_word = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | ':' | '+' | '.');
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        let digits = word.chars().filter(char::is_ascii_digit).count();
        if digits >= 8 {
            let at = known.iter().position(|other| other == word).unwrap_or_else(|| {
                known.push(word.to_owned());
                known.len() - 1
            });
            out.extend(["<", &at.to_string(), ">"]);
        } else {
            out.push_str(word);
        }
        let next = tail.chars().next().map_or(0, char::len_utf8);
        out.push_str(&tail[..next]);
        rest = &tail[next..];
    }
    out
}

#[tokio::test]
async fn the_same_tasks_on_a_new_log_leave_the_same_events() {
    let (first, second) = (fresh(), fresh());
    let system = builder(&first).infer(script()).start().await.unwrap();
    let states = work(&system).await;
    assert_eq!(states, [TaskState::Completed, TaskState::Completed, TaskState::Failed, TaskState::Completed]);
    system.shutdown().await.unwrap();

    let first = first.reopen().unwrap();
    let model = Recorded::read(&*first).unwrap();
    assert_eq!((model.backend(), model.model(), model.remaining()), ("scripted", "scripted", 7));
    let system = builder(&second).infer(model.clone()).start().await.unwrap();
    assert_eq!(work(&system).await, states);
    system.shutdown().await.unwrap();
    assert_eq!(model.remaining(), 0);
    let (recorded, played) = (events(&*first), events(&*second.reopen().unwrap()));
    assert!(recorded.len() > 40, "{}", recorded.len());
    assert_eq!(played, recorded);
}

#[tokio::test]
async fn what_was_never_asked_is_refused_in_words_that_say_what_differs() {
    let log = fresh();
    let system = builder(&log).infer(script()).start().await.unwrap();
    system.session("s").send(Part::infer("1 + 2?")).await.unwrap().finished().await.unwrap();
    system.shutdown().await.unwrap();
    let log = log.reopen().unwrap();

    let failed = |builder: Builder, prompt: &'static str, times: usize| {
        let model = Recorded::read(&*log).unwrap();
        async move {
            let system = builder.infer(model).start().await.unwrap();
            let mut error = String::new();
            for session in 0..times {
                let sent = system.session(&session.to_string()).send(Part::infer(prompt)).await.unwrap();
                error = sent.finished().await.unwrap().task().error().unwrap_or_default();
            }
            system.shutdown().await.unwrap();
            error
        }
    };
    let plain = || builder(&fresh());
    let other = failed(plain(), "2 + 2?", 1).await;
    assert!(other.contains("not recorded: scripted/scripted, request of 2 messages"), "{other}");
    assert!(other.contains("3 inferences, 1 of them with the same number of messages"), "{other}");
    let tools = failed(plain().tool("more", "More", add), "1 + 2?", 1).await;
    assert!(tools.contains("tools offered to the model differ"), "{tools}");
    assert_eq!(failed(plain(), "1 + 2?", 1).await, "");
    let twice = failed(plain(), "1 + 2?", 2).await;
    assert!(twice.contains("holds 1 inferences of this prompt, and one more is requested"), "{twice}");
}

#[tokio::test]
async fn a_log_of_two_models_wants_one_named_and_an_empty_one_has_none() {
    let mut log = fresh();
    assert!(matches!(Recorded::read(&*log), Err(RecordedError::NoAnswers { .. })));
    for name in ["a", "b"] {
        let said = python_json(&json!({"type": "final", "content": name}));
        let model = Scripted::new([Entry::Text(said)]).named(name);
        let system = builder(&log).infer(model).start().await.unwrap();
        system.session(name).send(Part::infer("who?")).await.unwrap().finished().await.unwrap();
        system.shutdown().await.unwrap();
        log = log.reopen().unwrap();
    }
    let several = Recorded::read(&*log).unwrap_err().to_string();
    assert!(several.contains("scripted/a, scripted/b"), "{several}");
    let none = Recorded::read_model(&*log, "scripted/c").unwrap_err().to_string();
    assert!(none.contains("scripted/c") && none.contains("scripted/a, scripted/b"), "{none}");
    assert_eq!(Recorded::read_model(&*log, "scripted/b").unwrap().model(), "b");
}
