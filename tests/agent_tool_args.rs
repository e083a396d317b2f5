//! The argument check compared with Protolink's recorded results, and tested with arbitrary input.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proptest::prelude::*;
use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel::fidelity::check_args;

/// Returns our check's result for one case's input: the fixture's `expected`, or its error text.
fn answer(input: &Value) -> Result<Value, String> {
    check_args(input.get("schema"), &input["args"])
        .map(|args| json!({ "args": args }))
        .map_err(|error| error.to_string())
}

#[test]
fn arguments_are_checked_as_protolink_checks_them() {
    let folder = std::env::var("TASKREEL_FIXTURES")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures").to_owned());
    let text = std::fs::read_to_string(format!("{folder}/protolink/tool_args.json")).unwrap();
    let area: Value = serde_json::from_str(&text).unwrap();
    let cases = area["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let expected = match case.get("expected") {
            Some(expected) => Ok(expected.clone()),
            None => Err(case["error"]["message"].as_str().unwrap().to_owned()),
        };
        assert_eq!(answer(&case["input"]), expected, "{}", case["name"]);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("type"),
        Just("properties"),
        Just("required"),
        Just("items"),
        Just("anyOf"),
        Just("oneOf"),
        Just("allOf"),
        Just("enum"),
        Just("const"),
        Just("default"),
        Just("$ref"),
        Just("$defs"),
        Just("additionalProperties"),
        Just("object"),
        Just("array"),
        Just("integer"),
        Just("number"),
        Just("string"),
        Just("boolean"),
        Just("null"),
        Just("a"),
        Just("#/$defs/a"),
        Just("#/properties/a"),
        Just("1e400"),
        Just("-"),
        Just("é'\""),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        word.clone().prop_map(|text| json!(text)),
        ".{0,6}".prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((word.clone(), inner), 0..5).prop_map(|pairs| pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<JsonMap>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn no_schema_and_no_arguments_make_the_check_panic(schema in any_json(), args in any_json()) {
        if let Err(error) = check_args(Some(&schema), &args) {
            prop_assert!(error.to_string().starts_with("tool args"), "{}", error);
        }
    }

    #[test]
    fn checked_arguments_pass_unchanged_a_second_time(args in prop::collection::hash_map("[a-c]", any_json(), 0..3)) {
        let schema = json!({
            "properties": {"a": {"type": ["integer", "boolean", "null"]}, "b": {"type": "number"}, "c": {}},
            "additionalProperties": false,
        });
        let args = Value::Object(args.into_iter().collect());
        if let Ok(once) = check_args(Some(&schema), &args) {
            let twice = check_args(Some(&schema), &once).unwrap();
            prop_assert_eq!(once.to_string(), twice.to_string());
        }
    }
}
