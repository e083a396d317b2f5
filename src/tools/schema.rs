//! JSON Schema of a tool's arguments: derived from a Rust type, or given (older tools use a flat form), and
//! the check of arguments against it.
//!
//! The check is Protolink's subset: `type` (also a list), `properties`, `required`, `additionalProperties`,
//! `items`, `enum`, `const`, `anyOf`, `oneOf`, `allOf`, `default`, and a `$ref` into the same schema. Bounds,
//! patterns and formats are shown to the model but not enforced; a typed tool refuses values that its type
//! cannot hold.
//!
//! Tools of other programs have the rule of [`foreign`]: arguments that their schema allows pass unchanged.

pub(crate) mod check;
pub(crate) mod coerce;
pub(crate) mod flat;
pub(crate) mod foreign;
pub(crate) mod rule;
pub(crate) mod type_schema;

use std::borrow::Cow;

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};

use crate::python::type_name;
use crate::tools::schema::check::{Checker, DEPTH_MAX, resolve};
use crate::tools::schema::flat::normalize;
use crate::tools::schema::rule::ArgsRule;
use crate::tools::texts::short;

/// The reason why arguments do not suit a tool. The text names the path, the expected and the actual type or
/// value, and is written for the model that has to correct them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgsError(pub String);

/// The path with which every error text begins.
const ROOT: &str = "tool args";

/// Returns the arguments as the tool gets them: coerced to the types of the schema, defaults filled in,
/// properties in the schema's order. Numbers that need no change keep their text. Without a schema any object
/// passes.
///
/// # Errors
/// `ArgsError` with Protolink's words for the first error.
pub fn check_args(schema: Option<&Value>, args: &Value) -> Result<Value, ArgsError> {
    ArgsSchema::from_schema(schema).check_but(args, |_| false).map_err(|error| ArgsError(short(&error.0)))
}

/// The schema of a tool's arguments as the check needs it, made once for all calls of the tool.
#[derive(Debug)]
pub(crate) struct ArgsSchema(Option<NormalizedSchema>);

#[derive(Debug)]
struct NormalizedSchema {
    rule: ArgsRule,
    /// The whole schema, in which references are looked up.
    schema: Value,
    /// The schema of the arguments themselves, see [`root_of`].
    root: Value,
}

impl ArgsSchema {
    /// Reads a schema. Without one any object passes.
    pub(crate) fn from_schema(schema: Option<&Value>) -> Self {
        let schema = schema.filter(|schema| !schema.is_null()).map(|schema| normalize(schema, 0));
        Self(schema.map(|schema| NormalizedSchema { rule: ArgsRule::Host, root: root_of(&schema), schema }))
    }

    /// Reads the schema of a tool of another program.
    #[cfg(feature = "mcp")]
    pub(crate) fn of_foreign(schema: &Value) -> Self {
        let root = follow(schema).clone();
        Self(Some(NormalizedSchema { rule: ArgsRule::Foreign, root, schema: schema.clone() }))
    }

    /// Returns the arguments as [`check_args`] does, without a check of those that are left out by name.
    ///
    /// # Errors
    /// `ArgsError`, as of [`check_args`], but not cut: a secret value in it can still be masked as a whole.
    pub(crate) fn check_but(
        &self,
        args: &Value,
        is_left_out: impl Fn(&str) -> bool,
    ) -> Result<Value, ArgsError> {
        let args = object_of(args)?;
        let Some(NormalizedSchema { rule, schema, root }) = &self.0 else { return Ok(args.into_owned()) };
        let properties = root.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flat_map(JsonMap::keys);
        let left_out: Vec<_> = names.filter(|name| is_left_out(name)).cloned().collect();
        let mut open = Cow::Borrowed(root);
        if !left_out.is_empty()
            && let Some(properties) = open.to_mut().get_mut("properties").and_then(Value::as_object_mut)
        {
            for name in left_out {
                properties.insert(name, Value::Bool(true));
            }
        }
        Checker::new(schema, &args, *rule).check(&open, &args, ROOT).map_err(ArgsError)
    }
}

/// Returns the arguments as an object. Absent arguments, and values that are false in Python, become an empty
/// object.
fn object_of(args: &Value) -> Result<Cow<'_, Value>, ArgsError> {
    let nothing = match args {
        Value::Object(_) => return Ok(Cow::Borrowed(args)),
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    };
    if nothing {
        Ok(Cow::Owned(json!({})))
    } else {
        Err(ArgsError(format!("{ROOT} must be an object, got {}", type_name(args))))
    }
}

/// Returns the type of arguments that are no object: no call can have such arguments.
pub(crate) fn not_an_object(schema: &Value) -> Option<String> {
    if schema.is_null() {
        return None;
    }
    let root = root_of(&normalize(schema, 0));
    let kind = root.get("type")?;
    let several = kind.as_array().map(|kinds| kinds.iter().filter_map(Value::as_str).collect());
    let kinds: Vec<&str> = several.unwrap_or_else(|| kind.as_str().into_iter().collect());
    (!kinds.contains(&"object")).then(|| kinds.join(" or "))
}

/// Returns the schema of the arguments as a whole: with its `$ref` followed, and closed to unnamed properties
/// unless it says otherwise.
fn root_of(schema: &Value) -> Value {
    let mut root = follow(schema).clone();
    if let Some(fields) = root.as_object_mut() {
        let untyped = !fields.contains_key("type");
        let object = fields.get("type").and_then(Value::as_str) == Some("object");
        if object || (untyped && fields.contains_key("properties")) {
            fields.insert_if_absent("additionalProperties", false);
        }
    }
    root
}

/// Returns the target of a schema's own `$ref`. A schema whose reference is circular or leads nowhere is
/// returned unchanged.
fn follow(schema: &Value) -> &Value {
    let mut target = schema;
    for _ in 0..DEPTH_MAX {
        let reference = target.get("$ref").and_then(Value::as_str);
        match reference.map(|reference| resolve(schema, reference)) {
            None => return target,
            Some(None) => break,
            Some(Some(next)) => target = next,
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(schema: &str, args: &str) -> Result<String, String> {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let args: Value = serde_json::from_str(args).unwrap();
        check_args(Some(&schema), &args).map(|args| args.to_string()).map_err(|error| error.0)
    }

    #[test]
    fn numbers_that_need_no_change_keep_their_text() {
        let args = r#"{"a":1180591620717411303424,"b":[1.0,1e+16,-0.0]}"#;
        assert_eq!(
            checked(r#"{"properties":{"a":{"type":"integer"},"b":{"items":{"type":"number"}}}}"#, args)
                .unwrap(),
            args
        );
    }

    #[test]
    fn only_the_root_is_closed_to_unnamed_fields_unless_a_schema_says_so() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"object","properties":{}}}}"#;
        assert_eq!(checked(schema, r#"{"a":{"q":1}}"#).unwrap(), r#"{"a":{"q":1}}"#);
        assert_eq!(
            checked(schema, r#"{"é":1,"z":1,"Z":2}"#).unwrap_err(),
            "tool args received unexpected field(s): Z, z, é"
        );
        let schema = r#"{"properties":{"a":{"additionalProperties":false,"type":"object"}}}"#;
        assert_eq!(
            checked(schema, r#"{"a":{"z":1,"y":2}}"#).unwrap_err(),
            "tool args.a received unexpected field(s): y, z"
        );
    }

    #[test]
    fn a_type_list_tries_each_type_in_order() {
        let schema = r#"{"properties":{"a":{"type":["integer","null"]}}}"#;
        assert_eq!(checked(schema, r#"{"a":"5"}"#).unwrap(), r#"{"a":5}"#);
        assert_eq!(
            checked(schema, r#"{"a":"x"}"#).unwrap_err(),
            "tool args.a did not match any allowed type: tool args.a must be an integer, got str; tool args.a must be null"
        );
    }

    #[test]
    fn required_comes_before_types_and_types_before_unexpected_fields() {
        let schema = r#"{"properties":{"a":{"type":"integer"},"b":{"default":7}},"required":["b"]}"#;
        assert_eq!(checked(schema, r#"{"a":"x"}"#).unwrap_err(), "tool args.b is required");
        assert_eq!(
            checked(schema, r#"{"z":1,"a":"x","b":1}"#).unwrap_err(),
            "tool args.a must be an integer, got str"
        );
    }

    #[test]
    fn a_constant_is_checked_before_a_choice() {
        let schema = r#"{"properties":{"a":{"const":3,"enum":[1]}}}"#;
        assert_eq!(checked(schema, r#"{"a":2}"#).unwrap_err(), "tool args.a must equal 3");
    }

    /// The results equal Protolink 0.6.4's.
    #[test]
    fn beside_a_definition_nothing_counts_and_its_default_is_filled_in() {
        let with = |property: &str, args: &str| {
            checked(
                &format!(
                    r##"{{"properties":{{"a":{property}}},"$defs":{{"A":{{"type":"integer"}},"D":{{"default":7}},"L":{{"$ref":"#/$defs/D"}}}}}}"##
                ),
                args,
            )
        };
        assert_eq!(with(r##"{"$ref":"#/$defs/A","enum":[1]}"##, r#"{"a":"3"}"#).unwrap(), r#"{"a":3}"#);
        assert_eq!(with(r##"{"$ref":"#/$defs/A","default":4}"##, "{}").unwrap(), "{}");
        assert_eq!(with(r##"{"$ref":"#/$defs/D"}"##, "{}").unwrap(), r#"{"a":7}"#);
        assert_eq!(with(r##"{"$ref":"#/$defs/L","default":4}"##, "{}").unwrap(), r#"{"a":7}"#);
    }

    #[test]
    fn beside_any_other_reference_the_keywords_are_checked_and_the_default_is_filled_in() {
        for reference in [r##""#/$defs/None""##, r#""http://x/y""#, "5", r##""#/properties/any""##] {
            let schema = format!(
                r#"{{"properties":{{"any":{{}},"a":{{"$ref":{reference},"type":"integer","default":4}}}}}}"#
            );
            assert_eq!(checked(&schema, "{}").unwrap(), r#"{"a":4}"#, "{reference}");
            assert_eq!(
                checked(&schema, r#"{"a":"x"}"#).unwrap_err(),
                "tool args.a must be an integer, got str",
                "{reference}"
            );
        }
    }

    #[test]
    fn a_local_reference_is_followed_and_a_dead_one_says_nothing() {
        let schema = r##"{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/B"},"c":{"$ref":"#/$defs/None"}}},"B":{"type":"integer"}}}"##;
        assert_eq!(checked(schema, r#"{"b":"1","c":"x"}"#).unwrap(), r#"{"b":1,"c":"x"}"#);
        assert_eq!(checked(schema, r#"{"d":1}"#).unwrap_err(), "tool args received unexpected field(s): d");
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends_in_words() {
        for schema in [
            r##"{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/A"}}}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"oneOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/A"}]}}}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"anyOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/A"}]}}}"##,
        ] {
            let error = checked(schema, r#"{"a":1}"#).unwrap_err();
            assert!(error.contains("cannot be checked") || error.contains("matched 0"), "{error}");
            assert!(error.len() < 3_000, "{}", error.len());
        }
        assert!(checked(r##"{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}"##, "{}").is_err());
    }

    #[test]
    fn a_schema_that_copies_a_long_value_again_and_again_ends_in_words() {
        let args = json!({"s": "x".repeat(8 * 1024 * 1024)});
        let many = |keyword: &str, part: Value, times: usize| {
            let parts = vec![part; times];
            json!({"properties": {"s": {keyword: parts}}})
        };
        // Fewer than the steps that a check may have.
        for schema in [
            many("allOf", json!(true), 13_000),
            many("oneOf", json!({"type": "string"}), 13_000),
            many("anyOf", json!({"type": "integer"}), 13_000),
        ] {
            let error = check_args(Some(&schema), &args).unwrap_err().0;
            assert!(error.contains("too many choices"), "{error}");
        }
        assert_eq!(check_args(Some(&many("allOf", json!({"type": "string"}), 20)), &args).unwrap(), args);
        let small = json!({"s": "x"});
        assert_eq!(check_args(Some(&many("allOf", json!(true), 13_000)), &small).unwrap(), small);
    }

    #[test]
    fn a_recursive_schema_takes_a_tree() {
        let schema = r##"{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/T"},{"type":"null"}]}},"required":["v"]}}}"##;
        assert_eq!(
            checked(schema, r#"{"v":1,"next":{"v":"2","next":null}}"#).unwrap(),
            r#"{"v":1,"next":{"v":2,"next":null}}"#
        );
    }

    #[test]
    fn the_deepest_arguments_that_are_read_can_be_checked() {
        let args = format!(r#"{{"a":{}{}}}"#, "[".repeat(126), "]".repeat(126));
        let schema = r##"{"properties":{"a":{"$ref":"#/$defs/L"}},"$defs":{"L":{"type":"array","items":{"type":"array","items":{"$ref":"#/$defs/L"}}}}}"##;
        assert_eq!(checked(schema, &args).unwrap(), args);
    }

    #[test]
    fn flat_schemas_may_name_python_types_and_nest() {
        let schema = r#"{"a":"int","b":{"x":"str","y":{"type":"number","required":false}},"c":null,"d":[1]}"#;
        assert_eq!(
            checked(schema, r#"{"a":"1","b":{"x":"q"},"c":null,"d":"any"}"#).unwrap(),
            r#"{"a":1,"b":{"x":"q"},"c":null,"d":"any"}"#
        );
        assert_eq!(
            checked(schema, r#"{"a":"1","b":{"x":"q","w":1},"c":null,"d":1}"#).unwrap_err(),
            "tool args.b received unexpected field(s): w"
        );
        assert_eq!(
            checked(r#"{"b":{"type":"string","required":true,"default":"k"}}"#, "{}").unwrap_err(),
            "tool args.b is required"
        );
    }

    #[test]
    fn arguments_that_are_no_object_are_refused_and_nothing_is_an_empty_object() {
        assert_eq!(check_args(None, &Value::Null).unwrap(), json!({}));
        assert_eq!(check_args(None, &json!([])).unwrap(), json!({}));
        assert_eq!(check_args(None, &json!("x")).unwrap_err().0, "tool args must be an object, got str");
        assert_eq!(check_args(None, &json!({"b": 1, "a": 2})).unwrap().to_string(), r#"{"b":1,"a":2}"#);
    }
}
