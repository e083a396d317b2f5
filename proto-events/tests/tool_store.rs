//! The rules of a tool's store, as scenarios: given these events, when this command, then that.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proto_events::id::Version;
use proto_events::json::JsonText;
use proto_events::limits::{TOOL_KEYS_MAX, TOOL_STORE_BYTES_MAX, TOOL_WRITES_MAX};
use proto_events::scenario::Scenario;
use proto_events::tool_store::{ToolStore, ToolStoreCommand, ToolStoreEvent, ToolStoreRejection, ToolWrite};

fn put(key: &str, value: &str) -> ToolStoreEvent {
    let (task, call_id) = ("task-agent/t".to_owned(), "c".to_owned());
    ToolStoreEvent::KeyPut { task, call_id, key: key.to_owned(), value: JsonText::parse(value).unwrap() }
}

fn deleted(key: &str) -> ToolStoreEvent {
    let (task, call_id) = ("task-agent/t".to_owned(), "c".to_owned());
    ToolStoreEvent::KeyDeleted { task, call_id, key: key.to_owned() }
}

fn write(key: &str, expected: u64, value: Option<&str>) -> ToolWrite {
    let value = value.map(|value| JsonText::parse(value).unwrap());
    ToolWrite { key: key.to_owned(), expected: Version(expected), value }
}

fn all(writes: Vec<ToolWrite>) -> ToolStoreCommand {
    ToolStoreCommand::Write { task: "task-agent/t".to_owned(), call_id: "c".to_owned(), writes }
}

fn given(events: impl IntoIterator<Item = ToolStoreEvent>) -> Scenario<ToolStore> {
    Scenario::given(events)
}

#[test]
fn a_key_has_the_version_of_the_event_that_last_wrote_it_and_none_where_it_is_not() {
    let store = given([put("a", "1"), put("b", "2"), put("a", "3"), deleted("b")]);
    let store = store.state();
    assert_eq!((store.version_of("a"), store.version_of("b")), (Version(3), Version(0)));
    assert_eq!(store.get("a").unwrap().value.as_str(), "3");
    assert_eq!((store.len(), store.bytes(), store.version()), (1, 2, Version(4)));
}

#[test]
fn keys_are_listed_by_what_they_begin_with_in_order() {
    let store = given([put("b/2", "1"), put("b/1", "2"), put("a", "3"), put("c", "4")]);
    let keys = |prefix| store.state().list(prefix).map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
    assert_eq!(keys("b/"), ["b/1", "b/2"]);
    assert_eq!(keys(""), ["a", "b/1", "b/2", "c"]);
    assert!(keys("b/3").is_empty());
}

#[test]
fn writes_with_the_versions_that_the_keys_have_are_events() {
    let before = || given([put("a", "1"), put("b", "2")]);
    before()
        .when(all(vec![write("a", 1, Some("3")), write("c", 0, Some("4"))]))
        .then([put("a", "3"), put("c", "4")]);
    before().when(all(vec![write("b", 2, None), write("c", 0, None)])).then([deleted("b")]);
    before().when(all(Vec::new())).then([]);
}

#[test]
fn one_stale_version_refuses_all_of_a_calls_writes() {
    let before = || given([put("a", "1"), put("a", "2"), put("b", "3"), deleted("b")]);
    for (key, expected, actual) in [("a", 1, 2), ("a", 0, 2), ("b", 3, 0), ("c", 7, 0)] {
        for value in [Some("4"), None] {
            let writes = vec![write("d", 0, Some("1")), write(key, expected, value)];
            let (key, expected, actual) = (key.to_owned(), Version(expected), Version(actual));
            before().when(all(writes)).then_rejected(&ToolStoreRejection::Conflict { key, expected, actual });
        }
    }
}

#[test]
fn what_is_over_a_limit_is_refused_and_what_only_shrinks_is_not() {
    let many = (0..=TOOL_WRITES_MAX).map(|n| write(&format!("k{n}"), 0, Some("1"))).collect();
    given([]).when(all(many)).then_rejected(&ToolStoreRejection::TooManyWrites(TOOL_WRITES_MAX + 1));
    let twice = vec![write("a", 0, Some("1")), write("a", 0, None)];
    given([]).when(all(twice)).then_rejected(&ToolStoreRejection::Twice("a".to_owned()));

    let full = || given((0..TOOL_KEYS_MAX).map(|n| put(&format!("k{n}"), "1")));
    let one_more = ToolStoreRejection::TooManyKeys(TOOL_KEYS_MAX + 1);
    full().when(all(vec![write("new", 0, Some("1"))])).then_rejected(&one_more);
    let instead = vec![write("k0", 1, None), write("new", 0, Some("1"))];
    full().when(all(instead)).then([deleted("k0"), put("new", "1")]);

    let half = format!("\"{}\"", "x".repeat(TOOL_STORE_BYTES_MAX / 2));
    let large = || given([put("a", &half)]);
    let too_large = ToolStoreRejection::TooLarge(2 * (half.len() + 1));
    large().when(all(vec![write("b", 0, Some(&half))])).then_rejected(&too_large);
    large().when(all(vec![write("a", 1, Some(&half))])).then([put("a", &half)]);
}

#[test]
fn what_can_be_no_id_can_be_no_key() {
    for key in ["", "a\nb", &"x".repeat(201)] {
        let refused = given([]).state().clone();
        let decided = proto_events::decider::Decider::decide(&refused, all(vec![write(key, 0, Some("1"))]));
        assert!(matches!(decided, Err(ToolStoreRejection::Key { .. })), "{key:?}: {decided:?}");
    }
}
