//! `audit::patch`: for any two values, the patch turns the first into the second. It is applied by an
//! implementation of RFC 6902 written independently for this test.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

use proptest::prelude::*;
use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel_log::audit::patch;

/// Applies a patch according to RFC 6902; panics on anything that the RFC forbids.
fn apply(mut document: Value, patch: &Value) -> Value {
    for operation in patch.as_array().unwrap() {
        let place = operation["path"].as_str().unwrap();
        let value = operation.get("value").cloned();
        if place.is_empty() {
            assert_eq!(operation["op"], "replace");
            document = value.unwrap();
            continue;
        }
        let (parent, key) = place.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("{place} is nowhere"));
        match (operation["op"].as_str().unwrap(), parent) {
            ("add", Value::Object(object)) => assert_eq!(object.insert(key, value.unwrap()), None),
            ("replace", Value::Object(object)) => *object.get_mut(&key).unwrap() = value.unwrap(),
            ("remove", Value::Object(object)) => drop(object.remove(&key).unwrap()),
            ("add", Value::Array(items)) => items.insert(key.parse().unwrap(), value.unwrap()),
            ("replace", Value::Array(items)) => {
                let at: usize = key.parse().unwrap();
                *items.get_mut(at).unwrap() = value.unwrap();
            }
            ("remove", Value::Array(items)) => drop(items.remove(key.parse().unwrap())),
            other => panic!("{other:?}"),
        }
    }
    document
}

/// Generates values from small alphabets, so that two values often share keys and items.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4_i64).prop_map(Value::from),
        prop_oneof![Just("1e400"), Just("1.0"), Just("-0"), Just("12345678901234567890123")]
            .prop_map(|number| serde_json::from_str(number).unwrap()),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[a~/0]{0,2}", inner), 0..5)
                .prop_map(|entries| Value::from(entries.into_iter().collect::<JsonMap>())),
        ]
    })
}

proptest! {
    #[test]
    fn a_patch_makes_the_second_out_of_the_first((before, after) in (any_json(), any_json())) {
        let patch = patch(&before, &after);
        prop_assert_eq!(apply(before.clone(), &patch), after.clone(), "{}", patch);
        prop_assert_eq!(patch == json!([]), before == after);
    }

    #[test]
    fn lists_of_items_that_move_grow_and_shrink_are_patched(
        (before, after) in (prop::collection::vec(0..4_u8, 0..9), prop::collection::vec(0..4_u8, 0..9))
    ) {
        let patch = patch(&json!({"l": before.clone()}), &json!({"l": after.clone()}));
        prop_assert_eq!(apply(json!({"l": before}), &patch), json!({"l": after}), "{}", patch);
    }
}

#[test]
fn what_nests_deep_is_patched_at_its_place() {
    let deep = |end: Value| (0..500).fold(end, |inner, _| json!({"k": [inner]}));
    let patch = patch(&deep(json!(1)), &deep(json!(2)));
    assert_eq!(patch.as_array().unwrap().len(), 1);
    assert_eq!(patch[0]["path"], "/k/0".repeat(500));
}
