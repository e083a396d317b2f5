//! The JSON Schema that a Rust type gives.

use proto_events::json::JsonValue as Value;
use schemars::JsonSchema;

/// Returns the JSON Schema (draft 2020-12) of a Rust type.
pub(crate) fn schema_of<A: JsonSchema>() -> Value {
    let schema = Value::encode(&schemars::SchemaGenerator::default().into_root_schema_for::<A>());
    // A schema that nests deeper than any arguments may allows none.
    let mut schema = schema.unwrap_or(Value::Bool(false));
    required_first(&mut schema);
    if let Some(fields) = schema.as_object_mut() {
        // The dialect's URL is useless to a model and costs tokens in every prompt.
        fields.remove("$schema");
    }
    schema
}

/// Puts the required properties of each object first, in the order of the type's fields. The generator sorts
/// properties by name, and a model reads the important ones first.
fn required_first(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(required_first),
        Value::Object(fields) => {
            fields.values_mut().for_each(required_first);
            let required = fields.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                let mut rest = std::mem::take(properties);
                for name in required.iter().filter_map(Value::as_str) {
                    if let Some(property) = rest.remove(name) {
                        properties.insert(name, property);
                    }
                }
                properties.extend(rest);
            }
        }
        _ => {}
    }
}
