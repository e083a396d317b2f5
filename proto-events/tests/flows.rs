//! The rules of a run's flow state, and of changes to a tool's state from outside its calls.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use proto_events::decider::Decider;
use proto_events::envelope::Metadata;
use proto_events::flow::{FlowCommand, FlowEvent, FlowRejection, FlowRun};
use proto_events::id::Version;
use proto_events::json::JsonText;
use proto_events::tool_store::{ToolStore, ToolStoreCommand, ToolStoreEvent, ToolStoreRejection, ToolWrite};

fn does<D: Decider>(state: &mut D, command: D::Command) -> Result<Vec<D::Event>, D::Rejection> {
    let events = state.decide(command)?;
    for event in &events {
        state.evolve(event, &Metadata::default());
    }
    Ok(events)
}

fn put(value: &str, expected: Option<u64>) -> FlowCommand {
    FlowCommand::Put { value: JsonText::parse(value).unwrap(), expected: expected.map(Version) }
}

#[test]
fn a_checkpoint_is_replaced_deleted_and_guarded_by_its_version() {
    let mut run = FlowRun::default();
    let conflict = |expected, actual| {
        Err(FlowRejection::Conflict { expected: Version(expected), actual: Version(actual) })
    };
    assert_eq!(does(&mut run, put("1", Some(3))), conflict(3, 0));
    does(&mut run, put("{\"step\": 1.50}", Some(0))).unwrap();
    assert_eq!(run.checkpoint().unwrap().value.as_str(), "{\"step\": 1.50}");
    assert_eq!(does(&mut run, put("2", Some(0))), conflict(0, 1));
    does(&mut run, put("2", None)).unwrap();
    assert_eq!(run.checkpoint_version(), Version(2));
    let delete = |expected: Option<u64>| FlowCommand::Delete { expected: expected.map(Version) };
    assert_eq!(does(&mut run, delete(Some(1))), conflict(1, 2));
    assert_eq!(does(&mut run, delete(None)), Ok(vec![FlowEvent::CheckpointDeleted { version: Version(2) }]));
    assert_eq!(
        does(&mut run, delete(None)),
        Ok(Vec::new()),
        "an absent checkpoint is deleted without an event"
    );
    does(&mut run, put("3", Some(0))).unwrap();
    assert_eq!((run.checkpoint_version(), run.version()), (Version(4), Version(4)), "no version comes again");
}

#[test]
fn a_tools_state_is_changed_from_outside_under_the_versions_of_its_keys() {
    let mut store = ToolStore::default();
    let set = |key: &str, expected: u64, value: Option<&str>| {
        let value = value.map(|value| JsonText::parse(value).unwrap());
        ToolStoreCommand::Set(ToolWrite { key: key.to_owned(), expected: Version(expected), value })
    };
    does(&mut store, set("a", 0, Some("1"))).unwrap();
    does(&mut store, set("b", 0, Some("22"))).unwrap();
    let refused = does(&mut store, set("a", 0, Some("2"))).unwrap_err();
    assert!(matches!(refused, ToolStoreRejection::Conflict { actual: Version(1), .. }));
    assert_eq!(
        does(&mut store, set("a", 1, None)),
        Ok(vec![ToolStoreEvent::KeyRemoved { key: "a".to_owned() }])
    );
    assert_eq!(does(&mut store, set("a", 0, None)), Ok(Vec::new()));
    assert_eq!((store.len(), store.bytes()), (1, 3));
    assert_eq!(does(&mut store, ToolStoreCommand::Clear), Ok(vec![ToolStoreEvent::Cleared { keys: 1 }]));
    assert_eq!(does(&mut store, ToolStoreCommand::Clear), Ok(Vec::new()));
    assert_eq!((store.len(), store.bytes(), store.version()), (0, 0, Version(4)));
}
