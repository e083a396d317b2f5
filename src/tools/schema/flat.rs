//! The flat form of a schema, which older tools use: names of arguments with their types. It is read as the JSON Schema that it
//! stands for.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};

/// The keys that mark an object as a JSON Schema and not a flat list of properties, whatever their values.
const KEYWORDS: [&str; 17] = [
    "$ref",
    "$defs",
    "$schema",
    "title",
    "description",
    "default",
    "required",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "const",
    "enum",
    "items",
    "format",
    "examples",
    "properties",
];

const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

fn looks_like_schema(fields: &JsonMap) -> bool {
    let typed = match fields.get("type") {
        Some(Value::String(name)) => TYPES.contains(&name.as_str()),
        Some(Value::Array(_)) => true,
        _ => false,
    };
    typed || KEYWORDS.iter().any(|word| fields.contains_key(word))
}

/// The deepest nesting of a flat schema. Flat schemas are written by hand, so deeper ones are not flat
/// schemas.
const FLAT_DEPTH_MAX: usize = 32;

/// Returns a schema in JSON Schema's own form.
pub(crate) fn normalize(schema: &Value, depth: usize) -> Value {
    match schema {
        Value::String(name) => alias(name),
        Value::Null => json!({"type": "null"}),
        Value::Object(fields) if depth < FLAT_DEPTH_MAX && !looks_like_schema(fields) => flat(fields, depth),
        Value::Object(_) => schema.clone(),
        _ => Value::Bool(true),
    }
}

/// Converts `{"city": {"type": "string"}, "n": "int"}` into an object schema. A property is required unless
/// it says otherwise or has a default.
fn flat(fields: &JsonMap, depth: usize) -> Value {
    let required: Vec<&String> =
        fields.iter().filter(|(_, property)| is_required(property)).map(|(name, _)| name).collect();
    let properties: JsonMap = fields
        .iter()
        .map(|(name, property)| (name.clone(), normalize(&without_flag(property), depth + 1)))
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn is_required(property: &Value) -> bool {
    match property.get("required") {
        Some(Value::Bool(flag)) => *flag,
        _ => property.get("default").is_none(),
    }
}

/// Removes a boolean `required`, which belongs to the flat form; in a JSON Schema it would be a list.
fn without_flag(property: &Value) -> Value {
    let mut property = property.clone();
    if let Some(fields) = property.as_object_mut()
        && matches!(fields.get("required"), Some(Value::Bool(_)))
    {
        fields.remove("required");
    }
    property
}

/// Returns the schema for one of Python's or JSON's names of a type.
fn alias(name: &str) -> Value {
    let name = match name.trim().to_lowercase().as_str() {
        "str" | "string" => "string",
        "int" | "integer" => "integer",
        "float" | "number" => "number",
        "bool" | "boolean" => "boolean",
        "list" | "array" => "array",
        "dict" | "object" => "object",
        "none" | "null" => "null",
        _ => return Value::Bool(true),
    };
    json!({ "type": name })
}
