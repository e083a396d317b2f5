//! The schema of a tool's arguments in the form that providers of models take: `type: object` at the root, no alternatives there,
//! properties that are schemas, references into the schema itself. The server checks its arguments itself, so a schema may allow
//! more than it did.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};

/// The keywords of alternatives, which providers refuse at the root.
const ALTERNATIVES: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// The deepest nesting of a schema.
const DEPTH_MAX: usize = 100;

/// Returns a schema in the form that providers take.
///
/// # Errors
/// The reason why the schema cannot be brought into this form.
pub(crate) fn normalized(schema: Option<&serde_json::Value>) -> Result<Value, String> {
    let Some(schema) = schema.filter(|schema| !schema.is_null()) else {
        return Err("it has no input schema".to_owned());
    };
    let schema =
        Value::encode(schema).map_err(|error| format!("its input schema cannot be read: {error}"))?;
    let mut root = match &schema {
        Value::Object(fields) => fields.clone(),
        _ => return Err("its input schema is not an object".to_owned()),
    };
    root.remove("$schema");
    if let Some(target) = target_of(&schema, &root) {
        for (name, value) in target.clone() {
            root.insert_if_absent(name, value);
        }
        root.remove("$ref");
    }
    let kinds = root.get("type").map(|kind| kind.as_array().cloned().unwrap_or_else(|| vec![kind.clone()]));
    if kinds.is_some_and(|kinds| !kinds.contains(&json!("object"))) {
        return Err("its arguments are not of the type `object`".to_owned());
    }
    root.insert("type", json!("object"));
    merge_alternatives(&schema, &mut root);
    let mut made = Value::Object(root);
    mend(&schema, &mut made, 0)?;
    Ok(made)
}

/// Returns the fields of the schema that a `$ref` leads to.
fn target_of<'s>(whole: &'s Value, fields: &JsonMap) -> Option<&'s JsonMap> {
    let reference = fields.get("$ref")?.as_str()?;
    whole.pointer(reference.strip_prefix('#')?)?.as_object()
}

/// Names the properties of all alternatives at the root, where providers take no alternatives.
fn merge_alternatives(whole: &Value, root: &mut JsonMap) {
    let mut merged = JsonMap::new();
    for keyword in ALTERNATIVES {
        let Some(Value::Array(choices)) = root.remove(keyword) else { continue };
        for choice in choices.iter().filter_map(Value::as_object) {
            let choice = target_of(whole, choice).unwrap_or(choice);
            for (name, property) in choice.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                merged.insert_if_absent(name.clone(), property.clone());
            }
        }
        // What no alternative names may still be one of its fields.
        if root.get("additionalProperties") == Some(&Value::Bool(false)) {
            root.remove("additionalProperties");
        }
    }
    if merged.is_empty() {
        return;
    }
    root.insert_if_absent("properties", json!({}));
    if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in merged {
            properties.insert_if_absent(name, property);
        }
    }
}

/// Mends a schema and all within it.
fn mend(whole: &Value, schema: &mut Value, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err("its input schema nests too deep".to_owned());
    }
    let Value::Object(fields) = schema else { return Ok(()) };
    let leads_nowhere = |reference: &Value| {
        let pointer = reference.as_str().and_then(|reference| reference.strip_prefix('#'));
        pointer.is_none_or(|pointer| whole.pointer(pointer).is_none())
    };
    if fields.get("$ref").is_some_and(leads_nowhere) {
        fields.remove("$ref");
    }
    mend_properties(fields)?;
    if fields.get("type") == Some(&json!("array")) && !fields.get("items").is_some_and(is_schema) {
        fields.insert("items", json!({}));
    }
    for keyword in ["properties", "patternProperties", "$defs", "definitions"] {
        for member in
            fields.get_mut(keyword).and_then(Value::as_object_mut).into_iter().flat_map(JsonMap::values_mut)
        {
            mend(whole, member, depth + 1)?;
        }
    }
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(member) = fields.get_mut(keyword) {
            mend(whole, member, depth + 1)?;
        }
    }
    for keyword in ALTERNATIVES {
        for member in fields.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten() {
            mend(whole, member, depth + 1)?;
        }
    }
    Ok(())
}

fn is_schema(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(_))
}

fn is_list_of_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(|name| name.as_str().is_some()))
}

/// Mends `properties` and `required`: an empty list is PHP's empty object, and a list `required` among the properties belongs beside
/// them.
fn mend_properties(fields: &mut JsonMap) -> Result<(), String> {
    let Some(properties) = fields.get_mut("properties") else {
        fields.retain(|name, value| name != "required" || is_list_of_names(value));
        return Ok(());
    };
    if properties.is_null() || properties.as_array().is_some_and(Vec::is_empty) {
        *properties = json!({});
    }
    let Value::Object(members) = properties else {
        return Err("the `properties` of its input schema are not an object".to_owned());
    };
    let misplaced = match members.get("required") {
        Some(list) if is_list_of_names(list) => members.remove("required"),
        _ => None,
    };
    if let Some((name, _)) = members.iter().find(|(_, member)| !is_schema(member)) {
        return Err(format!("the property `{name}` of its input schema is not a schema"));
    }
    for member in members.values_mut() {
        if *member == Value::Bool(true) {
            *member = json!({});
        }
    }
    if let Some(required) = misplaced {
        fields.insert_if_absent("required", required);
    }
    fields.retain(|name, value| name != "required" || is_list_of_names(value));
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(schema: &str) -> Result<String, String> {
        normalized(Some(&serde_json::from_str(schema).unwrap())).map(|schema| schema.to_string())
    }

    #[test]
    fn schemas_are_brought_into_the_form_that_providers_take() {
        for (schema, made) in [
            (r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#, r#"{"type":"object"}"#),
            (r#"{"type":["object","null"],"required":true}"#, r#"{"type":"object"}"#),
            (r#"{"type":"object","properties":[]}"#, r#"{"type":"object","properties":{}}"#),
            (
                r#"{"type":"object","properties":{"a":{"type":"array"},"required":["a"]}}"#,
                r#"{"type":"object","properties":{"a":{"type":"array","items":{}}},"required":["a"]}"#,
            ),
            (
                r#"{"anyOf":[{"properties":{"a":{"const":1}}},{"properties":{"b":true}}]}"#,
                r#"{"type":"object","properties":{"a":{"const":1},"b":{}}}"#,
            ),
            (
                r#"{"properties":{"a":{"$ref":"https://example.invalid/a.json"}},"type":"object"}"#,
                r#"{"properties":{"a":{}},"type":"object"}"#,
            ),
        ] {
            // The order of members is that of `serde_json`, which a program may choose.
            let tree = |json: &str| serde_json::from_str::<Value>(json).unwrap();
            assert_eq!(tree(&of(schema).unwrap()), tree(made));
        }
        for (schema, why) in [
            ("null", "no input schema"),
            ("[]", "not an object"),
            (r#"{"type":"string"}"#, "not of the type"),
            (r#"{"properties":{"a":[1]}}"#, "`a`"),
            (r#"{"properties":[1]}"#, "not an object"),
        ] {
            assert!(of(schema).unwrap_err().contains(why), "{schema}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(|number| json!(number)),
            prop::sample::select(vec!["object", "array", "string", "#", "#/properties/a", "x"])
                .prop_map(|text| json!(text)),
        ];
        let names = prop::sample::select(vec![
            "type",
            "properties",
            "required",
            "items",
            "anyOf",
            "oneOf",
            "allOf",
            "$ref",
            "$defs",
            "a",
            "additionalProperties",
        ]);
        leaf.prop_recursive(5, 60, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((names.clone(), inner), 0..5)
                    .prop_map(|members| { Value::Object(members.into_iter().collect()) }),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_schema_is_refused_in_words_or_takes_the_form_of_providers(schema in any_json()) {
            if let Ok(made) = of(&schema.to_string()) {
                let made: Value = serde_json::from_str(&made).unwrap();
                prop_assert_eq!(&made["type"], &json!("object"));
                prop_assert!(ALTERNATIVES.iter().all(|keyword| made.get(keyword).is_none()));
                if let Some(properties) = made.get("properties") {
                    prop_assert!(properties.as_object().unwrap().values().all(is_schema));
                }
                prop_assert!(made.get("required").is_none_or(is_list_of_names));
            }
        }
    }
}
