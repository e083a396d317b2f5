//! The work of a newer release is not called damaged: events of kinds and schema versions to come, and header fields
//! that a reader must understand, have a class of error of their own.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod export_support;

use export_support::append;
use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::codec::{CodecError, Storable as _, kind};
use proto_events::id::{ExpectedVersion, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{PostedTask, TaskState};
use proto_events::task::{Task, TaskEvent};
use taskreel_log::api::{Append, AppendPart, EventStore, ReadError};
use taskreel_log::audit::{FindingKind, replay_all, replay_stream, verify};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::fold_stream;
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{draft, id};
use taskreel_log::views::stats;

/// Appends a record of one event to a new stream.
fn write(store: &dyn EventStore, name: &str, set: u64, change: impl FnOnce(&mut RecordDraft)) {
    let mut draft = draft(name, 1, b"what a later release says");
    (draft.set_id, draft.epoch) = (id(set), store.fence().epoch);
    change(&mut draft);
    let (fence, set_id, stream) = (store.fence(), draft.set_id, draft.stream.clone());
    let record = draft.encode().unwrap();
    let part = AppendPart { stream, expected: ExpectedVersion::NoStream, record };
    append(store, Append { fence, set_id, parts: vec![part] });
}

fn submitted() -> EventBody {
    let posted = PostedTask {
        id: "other".to_owned(),
        state: TaskState::Working,
        messages: Vec::new(),
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
        filled_in: Vec::new(),
        source: None,
    };
    let payload = TaskEvent::Submitted(Box::new(posted)).encode().unwrap();
    EventBody { kind: payload.kind, schema: payload.schema, salt: [3; 16], body: payload.body }
}

fn stream(name: &str) -> StreamId {
    StreamId::parse(name).unwrap()
}

#[test]
fn an_event_of_a_kind_or_version_to_come_is_newer_and_a_misplaced_or_damaged_one_is_not() {
    let store = MemoryStore::new();
    write(&store, "task-a/kind", 1, |draft| draft.events[0].kind = 999);
    write(&store, "task-a/schema", 2, |draft| draft.events[0].schema = 99);
    write(&store, "task-a/misplaced", 3, |draft| draft.events[0].kind = kind::STARTED);
    write(&store, "task-a/damaged", 4, |_| {});
    write(&store, "flow-a/b", 5, |draft| draft.events[0].kind = 999);
    for name in ["task-a/kind", "task-a/schema"] {
        match fold_stream::<Task>(&store, &stream(name), None).unwrap_err() {
            ReadError::Newer { stream: Some(of), version: Some(Version(1)), .. } => {
                assert_eq!(of.as_str(), name);
            }
            other => panic!("{name}: {other}"),
        }
    }
    for name in ["task-a/misplaced", "task-a/damaged"] {
        let error = fold_stream::<Task>(&store, &stream(name), None).unwrap_err();
        assert!(matches!(error, ReadError::Corrupt { .. }), "{name}: {error}");
    }
    let text = fold_stream::<Task>(&store, &stream("task-a/kind"), None).unwrap_err().to_string();
    assert!(text.contains("newer release") && !text.contains("restore"), "{text}");
    assert!(matches!(replay_all(&store), Err(ReadError::Corrupt { .. })));
    let kinds: Vec<_> = verify(&store).findings.into_iter().map(|found| found.kind).collect();
    let (newer, event) = (FindingKind::Newer, FindingKind::Event);
    assert_eq!(kinds, [newer, newer, event, event, newer]);
    assert!(!verify(&store).is_newer(), "something else is wrong, too");
    assert!(
        !CodecError::UnknownSchema { kind: 1, found: 0, known: 1 }.is_newer(),
        "no release writes version 0"
    );
}

#[test]
fn sums_end_at_a_damaged_event_and_go_on_behind_a_newer_one() {
    let store = MemoryStore::new();
    write(&store, "task-a/kind", 1, |draft| draft.events[0].kind = 999);
    write(&store, "task-a/other", 2, |draft| draft.events[0] = submitted());
    let sums = stats(&store).unwrap();
    assert!(matches!(&sums.newer[..], [ReadError::Newer { .. }]), "{:?}", sums.newer);
    write(&store, "task-a/damaged", 3, |_| {});
    assert!(matches!(stats(&store), Err(ReadError::Corrupt { version: Some(Version(1)), .. })));
}

#[test]
fn a_log_of_which_a_part_is_newer_is_verified_as_that_and_its_other_streams_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    write(&store, "task-a/kind", 1, |draft| draft.events[0].kind = 999);
    write(&store, "task-a/other", 2, |draft| draft.events[0] = submitted());
    store.close().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let replayed = replay_all(&store).unwrap();
    assert!(matches!(&replayed.newer[..], [ReadError::Newer { .. }]), "{:?}", replayed.newer);
    assert_eq!((replayed.tasks, replayed.events), (1, 1), "the other task is replayed");
    let newer = replay_stream(&store, &stream("task-a/kind")).unwrap_err();
    assert!(matches!(newer, ReadError::Newer { .. }), "{newer}");
    let other = fold_stream::<Task>(&store, &stream("task-a/other"), None).unwrap();
    assert_eq!(other.state.state(), TaskState::Working);
    store.close().unwrap();
    let only_newer = MemoryStore::new();
    write(&only_newer, "task-a/kind", 1, |draft| {
        // What follows from the newer event is not known: a second submission is no fault of it.
        let newer = draft.events[0].clone();
        draft.events = vec![newer, submitted(), submitted()];
        draft.events[0].kind = 999;
    });
    let found = verify(&only_newer);
    assert!(found.is_newer(), "{:?}", found.findings);
    assert!(found.unchecked.iter().any(|what| what.contains("newer release")), "{:?}", found.unchecked);
}
