//! The check of an answer against the JSON Schema that an `infer` part asks for. Unlike the check of a tool's
//! arguments it is strict: nothing is coerced or filled in, since the caller reads the answer unchanged.
//!
//! The crate `jsonschema` does the check, in [`validator`]. This file bounds its input: references stay within
//! the schema, nothing is read from files or the network, patterns stop after a number of steps, and the work of
//! compiling it and of a check is counted before it begins. `format` is not checked. Integers of 64 bits are compared
//! exactly, other numbers as floats.

pub(crate) mod compilation;
pub(crate) mod cost;
pub(crate) mod references;
#[cfg(feature = "output-schema")]
pub(crate) mod validator;

use proto_events::json::JsonValue as Value;

use crate::models::output_schema::compilation::levels_of;
use crate::models::output_schema::references::reached;
#[cfg(feature = "output-schema")]
use crate::models::output_schema::validator::CompiledSchema;
use crate::python::repr;

/// A schema for answers.
#[derive(Debug)]
pub struct OutputSchema {
    schema: Value,
    validator: Result<CompiledSchema, String>,
}

impl OutputSchema {
    /// Compiles a schema. For an invalid schema [`Self::usable`] returns the reason, and no answer fits it.
    pub fn new(schema: Value) -> Self {
        let validator = compiled(&schema);
        Self { schema, validator }
    }

    /// Checks that the schema can be used.
    ///
    /// # Errors
    /// The reason, for the author of the schema: it is not a schema, a reference leads outside it, or its work cannot be
    /// bounded.
    pub(crate) fn usable(&self) -> Result<(), String> {
        self.validator.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// Checks a value against the schema.
    ///
    /// # Errors
    /// The first mismatch with its path, worded for the model.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let validator = self.validator.as_ref().map_err(|why| format!("answer cannot be checked: {why}"))?;
        if !cost::is_bounded(&self.schema, value) {
            let why = "the schema refers to itself, or offers too many choices";
            return Err(format!("answer cannot be checked: {why}"));
        }
        validator.check(value)
    }
}

/// Compiles a schema, after its references and the work of compiling it have been checked.
fn compiled(schema: &Value) -> Result<CompiledSchema, String> {
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        return Err(format!("it is {} and not an object", repr(schema)));
    }
    let levels = levels_of(schema, &reached(schema)?)?;
    CompiledSchema::new(schema, levels)
}

/// The check in a program without the feature `output-schema`: no schema can be used, so that no model is paid
/// for an answer that nothing checks.
#[cfg(not(feature = "output-schema"))]
#[derive(Debug)]
enum CompiledSchema {}

#[cfg(not(feature = "output-schema"))]
impl CompiledSchema {
    fn new(_: &Value, _: usize) -> Result<Self, String> {
        Err("this program was built without the feature `output-schema` of taskreel".to_owned())
    }

    fn check(&self, _: &Value) -> Result<(), String> {
        match *self {}
    }
}

#[cfg(feature = "output-schema")]
#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, value: &str) -> Result<(), String> {
        let schema = OutputSchema::new(serde_json::from_str(schema).unwrap());
        schema.usable().unwrap();
        schema.check(&serde_json::from_str(value).unwrap())
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
        (r#"{"patternProperties":{"^b":{}},"additionalProperties":false}"#, &[r#"{"b":1}"#], &[r#"{"a":1}"#]),
        (r#"{"pattern":"^(?=.*[0-9])[a-z0-9]+$"}"#, &["\"a1\"", "1"], &["\"a\"", "\"A1\""]),
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
        let error = check(schema, r#"{"list":[]}"#).unwrap_err();
        assert_eq!(error, r#"answer: "n" is a required property"#);
        let error = check(schema, r#"{"n":1,"list":[1,"x"]}"#).unwrap_err();
        assert!(error.starts_with("answer"), "{error}");
        let schema = r#"{"properties":{"list":{"items":{"type":"integer"}}}}"#;
        let error = check(schema, r#"{"list":[1,"x"]}"#).unwrap_err();
        assert_eq!(error, r#"answer.list[1]: "x" is not of type "integer""#);
    }

    #[test]
    fn numbers_are_judged_by_their_value_however_they_are_written() {
        let all = ["1180591620717411303424", "1.0", "1e16", "-0.0"];
        for number in all {
            for schema in
                [r#"{"type":"integer"}"#, r#"{"type":"number"}"#, r#"{"minimum":-1,"maximum":1e30}"#]
            {
                assert_eq!(check(schema, number), Ok(()), "{schema} of {number}");
            }
            let same = [format!(r#"{{"const":{number}}}"#), format!(r#"{{"enum":["x",{number}]}}"#)];
            for schema in &same {
                assert_eq!(check(schema, number), Ok(()), "{schema} of {number}");
            }
            let others = [r#"{"type":"string"}"#, r#"{"minimum":1e31}"#, r#"{"const":3}"#];
            for schema in others {
                assert!(check(schema, number).is_err(), "{schema} of {number}");
            }
        }
        for (schema, fits, misfit) in [
            (r#"{"const":1}"#, "1.0", "1.5"),
            (r#"{"const":0}"#, "-0.0", "1e-320"),
            (r#"{"const":10000000000000000}"#, "1e16", "1e17"),
            // Numbers beyond 64 bits are compared as floats.
            (r#"{"const":1180591620717411303424}"#, "1180591620717411303424", "1180591620717411603424"),
            (r#"{"maximum":18446744073709551615}"#, "18446744073709551615", "18446744073709561616"),
            (r#"{"const":18446744073709551615}"#, "18446744073709551615", "18446744073709551614"),
            (r#"{"uniqueItems":true}"#, "[18446744073709551615,18446744073709551614]", "[1,1.0]"),
            (r#"{"minimum":9007199254740993}"#, "9007199254740993", "9007199254740992"),
        ] {
            assert_eq!(check(schema, fits), Ok(()), "{schema} of {fits}");
            assert!(check(schema, misfit).is_err(), "{schema} of {misfit}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_told_from_one_that_can() {
        let why = |schema: &str| OutputSchema::new(serde_json::from_str(schema).unwrap()).usable();
        assert!(why("\"object\"").unwrap_err().contains("not an object"));
        assert!(why("[1]").is_err());
        assert!(why(r##"{"items":[{"$ref":"#/$defs/none"}]}"##).unwrap_err().contains("#/$defs/none"));
        assert_eq!(why(r##"{"const":{"$ref":"#/none"},"enum":[{"$ref":"x"}]}"##), Ok(()));
        assert!(why(r#"{"type":"text"}"#).unwrap_err().contains("/type"));
        assert!(why(r#"{"properties":{"a":{"pattern":"("}}}"#).is_err());
        assert!(why(r#"{"properties":{"a":{"$id":"x"}}}"#).unwrap_err().contains("root"));
        assert_eq!(why(r#"{"$id":"urn:x","properties":{"id":{"type":"string"}}}"#), Ok(()));
        assert_eq!(why(r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":[true]}"#), Ok(()));
    }

    #[test]
    fn a_reference_to_elsewhere_is_refused_and_nothing_is_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("schema.json");
        std::fs::write(&file, "true").unwrap();
        let remote = format!("http://{}/schema", listener.local_addr().unwrap());
        let file = format!("file://{}", file.display());
        for address in [remote, file] {
            for key in ["$ref", "$dynamicRef", "$schema"] {
                let schema = OutputSchema::new(proto_events::json!({key: address}));
                let error = schema.usable().unwrap_err();
                assert!(error.contains(&address), "{error}");
                assert!(schema.check(&Value::Null).is_err());
            }
        }
        let error = listener.accept().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "nobody came");
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

    #[test]
    fn what_would_take_for_ever_is_given_up_soon() {
        let began = std::time::Instant::now();
        // Two alternatives at each of forty steps.
        let steps: proto_events::json::JsonMap = (0..40)
            .map(|at| {
                let next = proto_events::json!({"$ref": format!("#/$defs/s{}", at + 1)});
                (format!("s{at}"), proto_events::json!({"anyOf": [next, next]}))
            })
            .chain([("s40".to_owned(), Value::Bool(false))])
            .collect();
        let in_place = proto_events::json!({"$defs": steps, "$ref": "#/$defs/s0"});
        assert!(OutputSchema::new(in_place).check(&Value::Null).unwrap_err().contains("too many choices"));
        // Two alternatives at each level of the answer.
        let both = proto_events::json!({"properties": {"a": {"$ref": "#"}}});
        let by_level = OutputSchema::new(proto_events::json!({"allOf": [both, both]}));
        let deep = (0..100).fold(Value::Null, |inner, _| proto_events::json!({"a": inner}));
        assert!(by_level.check(&deep).unwrap_err().contains("too many choices"));
        // Patterns that backtrack, on long texts.
        for pattern in ["^(a+)+$", "^(a|aa)+$", "^(?=(a+)+b)a*$", "(.*)*\\1x", "(?:(?:a{1,100}){1,100})"] {
            let schema = OutputSchema::new(proto_events::json!({"pattern": pattern}));
            let _ = schema.usable().is_ok() && schema.check(&Value::from("a".repeat(50_000) + "!")).is_ok();
        }
        for pattern in
            ["(".repeat(100_000), "(a{1000}){1000}".to_owned(), "(?:".repeat(5_000) + &")".repeat(5_000)]
        {
            assert!(OutputSchema::new(proto_events::json!({"pattern": pattern})).usable().is_err());
        }
        // Numbers of a billion digits.
        for number in ["1e1000000000", "1e-1000000000"] {
            for schema in [
                "type\":\"integer\"",
                "multipleOf\":0.1",
                "multipleOf\":1e-1000000000",
                "maximum\":1",
                "const\":1e999999999",
            ] {
                if let Ok(schema) = serde_json::from_str(&format!("{{\"{schema}}}")) {
                    let _ = OutputSchema::new(schema).check(&serde_json::from_str(number).unwrap());
                }
            }
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
