//! Whether an answer fits the JSON Schema that an `infer` part asks for. Strict, unlike the check of a tool's
//! arguments: nothing is coerced and nothing filled in, since whoever asked reads the answer as it is.
//!
//! Checked are `type`, `enum`, `const`, `$ref` into the same schema, `allOf`, `anyOf`, `oneOf`, `not`,
//! `if`/`then`/`else`; of objects `properties`, `required`, `additionalProperties`, `propertyNames`,
//! `minProperties`, `maxProperties`, `dependentRequired`; of arrays `items`, `prefixItems`, `contains` with its bounds,
//! `minItems`, `maxItems`, `uniqueItems`; of strings `minLength`, `maxLength`; of numbers `minimum`, `maximum`,
//! `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`. Not checked are `pattern`, `patternProperties` (beside it,
//! `additionalProperties` is not checked either), `format`, `unevaluated…` and `$dynamicRef`.

mod numbers;
mod walk;

use serde_json::Value;

use self::walk::{Walk, target};
use super::python::repr;

/// Whether a schema can be used.
///
/// # Errors
/// What is wrong, for whoever wrote it: it is no schema, or refers to what is not in it.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        return Err(format!("it is {} and not an object", repr(schema)));
    }
    let mut open = vec![schema];
    while let Some(piece) = open.pop() {
        match piece {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref")
                    && target(schema, reference).is_none()
                {
                    return Err(format!("its $ref '{reference}' leads nowhere"));
                }
                // What stands there is data, whatever it looks like.
                let is_schema = |key: &str| !["const", "default", "enum", "examples"].contains(&key);
                open.extend(fields.iter().filter(|(key, _)| is_schema(key)).map(|(_, value)| value));
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a value fits a schema.
///
/// # Errors
/// The first thing that does not, in words for the model, with its place.
pub fn check_output(schema: &Value, value: &Value) -> Result<(), String> {
    Walk::new(schema, value).check(schema, value, "answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, value: &str) -> Result<(), String> {
        let schema: Value = serde_json::from_str(schema).unwrap();
        check_schema(&schema).unwrap();
        check_output(&schema, &serde_json::from_str(value).unwrap())
    }

    /// A schema, values that fit it, values that do not.
    const CASES: &[(&str, &[&str], &[&str])] = &[
        ("true", &["1", "null"], &[]),
        ("{}", &["1", "[]"], &[]),
        ("false", &[], &["1", "null"]),
        (
            r#"{"type":"integer"}"#,
            &["1", "1.0", "1e3", "1180591620717411303424"],
            &["1.5", "\"1\"", "true", "null"],
        ),
        (r#"{"type":"number"}"#, &["1", "1.5"], &["\"1\"", "false"]),
        (r#"{"type":["string","null"]}"#, &["\"\"", "null"], &["0", "[]"]),
        (r#"{"type":"boolean"}"#, &["true"], &["1", "\"true\""]),
        (r#"{"enum":[1,"a",[1.0]]}"#, &["1", "1.0", "\"a\"", "[1]"], &["true", "2", "\"b\"", "[2]"]),
        (r#"{"const":{"a":1,"b":2}}"#, &[r#"{"b":2,"a":1.0}"#], &[r#"{"a":1}"#, r#"{"a":true,"b":2}"#]),
        (
            r#"{"properties":{"a":{"type":"string"}},"required":["b"]}"#,
            &[r#"{"b":1}"#, r#"{"a":"","b":1}"#, "5"],
            &["{}", r#"{"a":1,"b":1}"#],
        ),
        (r#"{"properties":{"a":{}},"additionalProperties":false}"#, &["{}", r#"{"a":1}"#], &[r#"{"b":1}"#]),
        (
            r#"{"properties":{"a":{}},"additionalProperties":{"type":"integer"}}"#,
            &[r#"{"a":"x","b":1}"#],
            &[r#"{"b":"x"}"#],
        ),
        (r#"{"patternProperties":{"^b":{}},"additionalProperties":false}"#, &[r#"{"b":1}"#], &[]),
        (
            r#"{"propertyNames":{"maxLength":1},"minProperties":1,"maxProperties":2}"#,
            &[r#"{"a":1}"#],
            &["{}", r#"{"ab":1}"#, r#"{"a":1,"b":1,"c":1}"#],
        ),
        (r#"{"dependentRequired":{"a":["b"]}}"#, &["{}", r#"{"a":1,"b":1}"#], &[r#"{"a":1}"#]),
        (
            r#"{"items":{"type":"integer"},"minItems":1,"maxItems":2}"#,
            &["[1]", "\"x\""],
            &["[]", "[\"x\"]", "[1,2,3]"],
        ),
        (r#"{"prefixItems":[{"type":"string"}],"items":false}"#, &["[]", "[\"a\"]"], &["[1]", "[\"a\",1]"]),
        (r#"{"uniqueItems":true}"#, &["[1,true,\"1\"]"], &["[1,1.0]", r#"[{"a":1,"b":2},{"b":2,"a":1}]"#]),
        (r#"{"contains":{"type":"string"},"maxContains":1}"#, &["[1,\"a\"]"], &["[1]", "[\"a\",\"b\"]"]),
        (r#"{"contains":{"type":"string"},"minContains":0}"#, &["[1]"], &[]),
        (r#"{"minLength":2,"maxLength":3}"#, &["\"é😀\"", "1"], &["\"😀\"", "\"abcd\""]),
        (r#"{"minimum":1,"exclusiveMaximum":2.5}"#, &["1", "2.4"], &["0.9", "2.5"]),
        (
            r#"{"exclusiveMinimum":0,"maximum":9007199254740992}"#,
            &["9007199254740992"],
            &["0", "9007199254740993"],
        ),
        (r#"{"multipleOf":0.1}"#, &["0.3", "1"], &["0.35"]),
        (r#"{"multipleOf":3}"#, &["9", "0"], &["10", "1.5"]),
        (r#"{"allOf":[{"minimum":1},{"maximum":2}],"type":"integer"}"#, &["1"], &["3", "1.5"]),
        (r#"{"anyOf":[{"type":"string"},{"minimum":5}]}"#, &["\"a\"", "6"], &["1"]),
        (r#"{"oneOf":[{"minimum":1},{"maximum":5}]}"#, &["0", "9"], &["3"]),
        (r#"{"not":{"type":"string"}}"#, &["1"], &["\"a\""]),
        (
            r#"{"if":{"type":"string"},"then":{"minLength":1},"else":{"minimum":0}}"#,
            &["\"a\"", "1"],
            &["\"\"", "-1"],
        ),
        (
            r##"{"$defs":{"t":{"type":"object","properties":{"next":{"$ref":"#/$defs/t"},"v":{"type":"integer"}},"required":["v"]}},"$ref":"#/$defs/t"}"##,
            &[r#"{"v":1,"next":{"v":2}}"#],
            &[r#"{"v":1,"next":{}}"#, "[]"],
        ),
        (
            r##"{"properties":{"child":{"$ref":"#"}},"additionalProperties":false}"##,
            &[r#"{"child":{"child":{}}}"#],
            &[r#"{"child":{"x":1}}"#],
        ),
        (r##"{"$defs":{"a":{"maximum":5}},"$ref":"#/$defs/a","minimum":1}"##, &["3"], &["0", "6"]),
    ];

    #[test]
    fn every_checked_keyword_takes_what_fits_and_refuses_what_does_not() {
        for (schema, fitting, others) in CASES {
            for value in *fitting {
                assert_eq!(check(schema, value), Ok(()), "{schema} of {value}");
            }
            for value in *others {
                let error = check(schema, value).expect_err(&format!("{schema} of {value}"));
                assert!(error.starts_with("answer"), "{error}");
            }
        }
    }

    #[test]
    fn an_error_names_the_place_what_was_wanted_and_what_came() {
        let schema = r#"{"properties":{"list":{"items":{"type":"integer"}}},"required":["n"],"additionalProperties":false}"#;
        assert_eq!(check(schema, r#"{"list":[]}"#).unwrap_err(), "answer.n is required");
        assert_eq!(check(schema, r#"{"n":1,"list":[1,"x"]}"#).unwrap_err(), "answer.n is not expected");
        let schema = r#"{"properties":{"list":{"items":{"type":"integer"}}}}"#;
        assert_eq!(
            check(schema, r#"{"list":[1,"x"]}"#).unwrap_err(),
            "answer.list[1] must be of type integer, got str"
        );
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_told_from_one_that_can() {
        let why = |schema: &str| check_schema(&serde_json::from_str(schema).unwrap());
        assert!(why("\"object\"").unwrap_err().contains("not an object"));
        assert!(why("[1]").is_err());
        assert!(why(r##"{"items":[{"$ref":"#/$defs/none"}]}"##).unwrap_err().contains("#/$defs/none"));
        assert!(why(r#"{"$ref":"https://example.org/schema"}"#).is_err());
        assert_eq!(why(r##"{"const":{"$ref":"#/none"},"enum":[{"$ref":"x"}]}"##), Ok(()));
    }

    #[test]
    fn a_schema_that_refers_to_itself_without_end_is_given_up_in_words() {
        for schema in [
            r##"{"$ref":"#"}"##,
            r##"{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}"##,
            r##"{"$defs":{"a":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
        ] {
            let error = check(schema, "1").unwrap_err();
            assert!(error.contains("cannot be checked"), "{error}");
            assert!(error.len() < 3_000);
        }
    }
}
