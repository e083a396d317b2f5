//! The tasks that wait for a person's message are found whatever set their state: their posting, in a body of any size, or a
//! change.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod export_support;

use export_support::append;
use proto_events::codec::Storable as _;
use proto_events::codec::record::EventBody;
use proto_events::envelope::Timestamp;
use proto_events::id::{ExpectedVersion, StreamId};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::task::TaskEvent;
use taskreel_log::api::{Append, AppendPart, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::testing::conformance::{draft, id};
use taskreel_log::views::{Attention, LogUse, attention, find};

fn body(event: &TaskEvent) -> EventBody {
    let payload = event.encode().unwrap();
    EventBody { kind: payload.kind, schema: payload.schema, salt: [3; 16], body: payload.body }
}

fn posted(state: TaskState, said: &str) -> EventBody {
    body(&TaskEvent::Submitted(Box::new(PostedTask {
        id: "posted".to_owned(),
        state,
        messages: vec![Message::new("agent", vec![Part::text(said)], &mut Ports::default())],
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
        filled_in: Vec::new(),
        source: None,
    })))
}

/// Appends a task with these events.
fn add(store: &MemoryStore, name: &str, number: u64, events: Vec<EventBody>) {
    let mut draft = draft(name, 1, b"");
    (draft.set_id, draft.epoch, draft.events) = (id(number), store.fence().epoch, events);
    let (fence, set_id, stream) = (store.fence(), draft.set_id, draft.stream.clone());
    let part = AppendPart {
        stream,
        expected: ExpectedVersion::NoStream,
        record: draft.encode_within(57_344).unwrap(),
    };
    append(store, Append { fence, set_id, parts: vec![part] });
}

/// Appends a task with these events, and returns whether it needs a person's message.
fn waits(number: u64, events: Vec<EventBody>) -> Option<String> {
    let store = MemoryStore::new();
    let name = format!("task-agent/waits-{number}");
    add(&store, &name, number, events);
    let found = attention(&store, LogUse::Exported, Timestamp(0)).unwrap();
    let mut rows = found.rows.into_iter();
    let row = rows.next()?;
    assert!(rows.next().is_none() && row.kind == Attention::Input, "{row:?}");
    assert_eq!(row.commands, [format!("cancel {name} --reason WHY")]);
    Some(row.what)
}

#[test]
fn the_last_state_decides_whether_a_task_waits_for_a_message() {
    let large = "x".repeat(200_000);
    let mut number = 0;
    for said in ["Which account?", large.as_str()] {
        for from in TaskState::ALL {
            number += 1;
            let expected = from == TaskState::InputRequired;
            let what = waits(number, vec![posted(from, said)]);
            assert_eq!(what.is_some(), expected, "posted as {from}");
            assert!(what.is_none_or(|what| what.contains(said)));
            for to in TaskState::ALL.into_iter().filter(|to| from.can_become(*to)) {
                number += 1;
                let changed = body(&TaskEvent::state_changed(from, to));
                let what = waits(number, vec![posted(from, said), changed]);
                assert_eq!(what.is_some(), to == TaskState::InputRequired, "{from} to {to}");
            }
        }
    }
}

#[test]
fn the_command_of_a_task_that_waits_names_no_other_one_whatever_the_ids_are() {
    let store = MemoryStore::new();
    let tasks = [
        ("one", "order-17"),
        ("two", "order-17"),
        ("one", "@last"),
        ("one", "--help"),
        ("one", "task-two/order-17"),
        ("two", "it's"),
    ];
    for (number, (agent, id)) in (1..).zip(tasks) {
        let stream = StreamId::task(agent, id).unwrap();
        add(&store, stream.as_str(), number, vec![posted(TaskState::InputRequired, "Which account?")]);
    }
    let rows = attention(&store, LogUse::Exported, Timestamp(0)).unwrap().rows;
    assert_eq!(rows.len(), tasks.len());
    for row in rows {
        let named = row.commands[0].split(' ').nth(1).unwrap();
        assert!(!named.starts_with('-'), "{named}");
        assert_eq!(Some(find(&store, named).unwrap()), row.task, "{named}");
        let advice = row.advice.as_ref().unwrap();
        assert!(advice.contains(&format!("`state {named} --json`")), "{advice}");
    }
}
