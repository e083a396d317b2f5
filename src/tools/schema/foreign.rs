//! The check of arguments for tools of other programs. It keeps what the model wrote wherever it can:
//!
//! 1. A value that its schema takes as it is passes unchanged. Of the alternatives of `anyOf`, `oneOf` and a list of types, one that
//!    takes the value as it is decides before any that would coerce it.
//! 2. Only a value that no alternative takes is coerced, to the first type that it can become (see
//!    [`coerce`](super::coerce)): a text of digits to a number, a text such as `yes` or the numbers 0 and 1 to a boolean, a
//!    whole float that is written as a text to a number.
//! 3. Nothing is added, removed or put in another order: the program has its own defaults.
//! 4. A schema allows unnamed fields unless it says `additionalProperties: false`. Beside `patternProperties` they pass unchecked,
//!    since patterns are not enforced here. `nullable: true` allows null.
//!
//! The program itself checks its arguments again, so what this check does not know it lets pass. A coercion depends on the schema and
//! the arguments alone; the arguments as the model wrote them stand in its reply, the ones that are sent in the intent of the
//! call.

use proto_events::json::{JsonMap, JsonValue as Value};

use crate::tools::schema::check::{Checked, Checker, unexpected};
use crate::tools::schema::coerce::wrong_type;
use crate::tools::schema::rule::ArgsRule;
use crate::tools::texts::short;

impl<'s> Checker<'s> {
    /// Whether the schema allows a null by `nullable`, the keyword of `OpenAPI` 3.0.
    pub(crate) fn takes_null(&self, schema: &JsonMap, value: &Value) -> bool {
        let is_nullable = || schema.get("nullable") == Some(&Value::Bool(true));
        self.rule == ArgsRule::Foreign && value.is_null() && is_nullable()
    }

    /// Whether an alternative takes the value without a coercion.
    pub(crate) fn is_taken_as_is(
        &mut self,
        choices: &'s [Value],
        check: impl Fn(&mut Self, &'s Value) -> Checked,
    ) -> bool {
        if self.rule == ArgsRule::Host || self.is_exact {
            return false;
        }
        self.is_exact = true;
        let is_taken = choices.iter().any(|choice| check(self, choice).is_ok());
        self.is_exact = false;
        is_taken
    }

    /// Whether a number or boolean passes as it is.
    ///
    /// # Errors
    /// The error text, if it must pass as it is and does not.
    pub(crate) fn is_passed_as_is(&self, kind: &str, value: &Value, path: &str) -> Result<bool, String> {
        if self.rule == ArgsRule::Host {
            return Ok(false);
        }
        let (is_passed, wanted) = match (kind, value) {
            ("integer", value) => (is_whole(value), "an integer"),
            ("number", value) => (matches!(value, Value::Number(_)), "a number"),
            ("boolean", value) => (matches!(value, Value::Bool(_)), "a boolean"),
            _ => return Ok(false),
        };
        if self.is_exact && !is_passed { Err(wrong_type(path, wanted, value)) } else { Ok(is_passed) }
    }

    /// Returns the object with its fields checked, in their own order.
    pub(crate) fn foreign_object(&mut self, schema: &'s JsonMap, fields: &JsonMap, path: &str) -> Checked {
        self.required(schema, fields, path)?;
        let properties = schema.get("properties").and_then(Value::as_object);
        let property_of = |name: &str| properties.and_then(|properties| properties.get(name));
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let has_patterns = patterns.is_some_and(|patterns| !patterns.is_empty());
        let rule = schema.get("additionalProperties").filter(|_| !has_patterns);
        if rule == Some(&Value::Bool(false)) {
            let mut others: Vec<&str> =
                fields.keys().map(String::as_str).filter(|name| property_of(name).is_none()).collect();
            others.sort_unstable();
            if !others.is_empty() {
                return Err(unexpected(&others, path));
            }
        }
        let mut checked = JsonMap::new();
        for (name, value) in fields {
            let value = match property_of(name).or(rule) {
                Some(schema) => self.check(schema, value, &format!("{path}.{}", short(name)))?,
                None => self.copy(value, path)?,
            };
            checked.insert(name.clone(), value);
        }
        Ok(Value::Object(checked))
    }
}

/// Whether a value is an integer as JSON Schema has it: `5.0` is one.
fn is_whole(value: &Value) -> bool {
    let Value::Number(number) = value else { return false };
    let is_whole_float = || number.as_f64().is_some_and(|float| float.is_finite() && float.fract() == 0.0);
    !number.is_float() || is_whole_float()
}

#[cfg(all(test, feature = "mcp"))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tools::schema::ArgsSchema;

    fn checked(schema: &str, args: &str) -> Result<String, String> {
        let schema: Value = serde_json::from_str(schema).expect("a schema in JSON");
        let args: Value = serde_json::from_str(args).expect("arguments in JSON");
        let checked = ArgsSchema::of_foreign(&schema).check_but(&args, |_| false);
        checked.map(|args| args.to_string()).map_err(|error| error.0)
    }

    #[test]
    fn what_the_schema_takes_as_it_is_passes_unchanged() {
        for (property, value) in [
            (r#"{"anyOf":[{"type":"integer"},{"type":"string"}]}"#, r#""007""#),
            (r#"{"type":["boolean","string"]}"#, r#""no""#),
            (r#"{"type":["number","string"]}"#, r#""1.50""#),
            (r#"{"oneOf":[{"type":"number"},{"type":"string"}]}"#, r#""5""#),
            (r#"{"oneOf":[{"type":"integer"},{"type":"number"}]}"#, "5"),
            (r#"{"type":"integer"}"#, "5.0"),
            (r#"{"type":"string","nullable":true}"#, "null"),
            (r#"{"nullable":true,"anyOf":[{"type":"integer"}]}"#, "null"),
            (r#"{"type":"object"}"#, r#"{"z":1,"a":"2"}"#),
            (
                r#"{"type":"object","patternProperties":{"^x":{}},"additionalProperties":false}"#,
                r#"{"xy":"1"}"#,
            ),
            (
                r#"{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"type":"string"}}]}"#,
                r#"["1","2"]"#,
            ),
        ] {
            let schema =
                format!(r#"{{"type":"object","properties":{{"b":{property},"a":{{"default":3}}}}}}"#);
            for args in [format!(r#"{{"b":{value}}}"#), format!(r#"{{"z":1,"a":2,"b":{value}}}"#)] {
                assert_eq!(checked(&schema, &args).unwrap(), args, "{property}");
            }
        }
    }

    #[test]
    fn only_what_no_alternative_takes_is_coerced() {
        for (property, value, coerced) in [
            (r#"{"type":"integer"}"#, r#""007""#, "7"),
            (r#"{"type":["integer","null"]}"#, r#""5""#, "5"),
            (r#"{"anyOf":[{"type":"boolean"},{"type":"null"}]}"#, r#""no""#, "false"),
            (
                r#"{"anyOf":[{"type":"array","items":{"type":["integer","null"]}}]}"#,
                r#"["1",null]"#,
                "[1,null]",
            ),
        ] {
            let schema = format!(r#"{{"properties":{{"a":{property}}}}}"#);
            let args = format!(r#"{{"z":"1","a":{value}}}"#);
            assert_eq!(
                checked(&schema, &args).unwrap(),
                format!(r#"{{"z":"1","a":{coerced}}}"#),
                "{property}"
            );
        }
    }

    #[test]
    fn what_no_alternative_can_take_is_an_error_in_words() {
        let one = r#"{"properties":{"a":{"oneOf":[{"type":"integer"},{"type":"null"}]}},"required":["a"]}"#;
        assert_eq!(checked(one, "{}").unwrap_err(), "tool args.a is required");
        assert!(checked(one, r#"{"a":"x"}"#).unwrap_err().contains("matched 0"));
        let closed = r#"{"properties":{"a":{}},"additionalProperties":false}"#;
        assert_eq!(
            checked(closed, r#"{"é":1,"z":1}"#).unwrap_err(),
            "tool args received unexpected field(s): z, é"
        );
    }

    /// Returns schemas of one value, and a value that the schema takes as it is.
    fn schema_and_value() -> impl Strategy<Value = (Value, Value)> {
        use proto_events::json;
        let text = prop_oneof![
            Just("007".to_owned()),
            Just("no".to_owned()),
            Just("1".to_owned()),
            Just(String::new()),
            "[a-z0-9 ]{0,6}"
        ];
        let leaf = prop_oneof![
            text.prop_map(|text| (json!({"type": "string", "default": 5}), json!(text))),
            any::<i64>().prop_map(|number| (json!({"type": "integer"}), json!(number))),
            (0_u8..100).prop_map(|number| (json!({"type": "number"}), json!(f64::from(number) / 4.0))),
            any::<bool>().prop_map(|flag| (json!({"type": "boolean", "default": null}), json!(flag))),
            Just((json!({"type": "string", "nullable": true}), Value::Null)),
            Just((json!({}), json!({"any": ["1", 1, null]}))),
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            let other = prop_oneof![
                Just(json!({"type": "integer"})),
                Just(json!({"type": "boolean"})),
                Just(json!({"type": "number"})),
                Just(json!({"type": "null"})),
                Just(json!({"type": "object", "required": ["no such"]})),
            ];
            prop_oneof![
                (inner.clone(), other, any::<bool>(), any::<bool>()).prop_map(
                    |((schema, value), other, is_first, is_any)| {
                        let choices = if is_first { [schema, other] } else { [other, schema] };
                        (json!({(if is_any { "anyOf" } else { "oneOf" }): choices}), value)
                    }
                ),
                inner.clone().prop_map(|(schema, value)| {
                    (json!({"type": "array", "items": schema}), json!([value.clone(), value]))
                }),
                prop::collection::vec((inner, any::<bool>()), 0..4).prop_map(|members| {
                    let (mut properties, mut value) = (JsonMap::new(), JsonMap::new());
                    for (at, ((schema, member), is_given)) in members.into_iter().enumerate() {
                        properties.insert(format!("m{at}"), schema);
                        if is_given {
                            let first = value.clone();
                            value = JsonMap::new();
                            value.insert(format!("m{at}"), member);
                            value.extend(first);
                        }
                    }
                    let named = value.keys().cloned().collect::<Vec<_>>();
                    (json!({"type": "object", "properties": properties, "required": named}), json!(value))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_schema_changes_a_value_that_it_takes_as_it_is((schema, value) in schema_and_value()) {
            let schema = proto_events::json!({"type": "object", "properties": {"a": schema}});
            let args = proto_events::json!({"more": "1", "a": value});
            let checked = ArgsSchema::of_foreign(&schema).check_but(&args, |_| false);
            prop_assert_eq!(checked.map(|args| args.to_string()), Ok(args.to_string()), "{}", schema);
        }
    }
}
