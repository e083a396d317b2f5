//! The work of compiling a schema, bounded before it begins. The crate `jsonschema` descends through references while it
//! compiles, which takes stack, and for the keywords `unevaluatedProperties` and `unevaluatedItems` it unfolds all schemas
//! that apply to the same value: once for each path that leads to them, and without end where they go in a circle.

use std::collections::HashMap;

use proto_events::json::{JsonMap, JsonValue as Value};

use crate::models::output_schema::cost::{REFERENCES, target};
use crate::models::output_schema::references::{ReachedSchemas, inner};

/// The most levels of a schema, over all targets of its references: each may be compiled inside another one, and a
/// compiled schema is dropped level by level too.
const LEVELS_MAX: usize = 1_024;

/// The most schemas that are unfolded in one schema.
const UNFOLDED_MAX: u64 = 100_000;

/// The deepest path of schemas that are unfolded inside each other.
const UNFOLDED_DEPTH_MAX: usize = 128;

/// Keywords whose values the crate unfolds, because they apply to the same value.
const UNFOLDED: [&str; 6] = ["allOf", "anyOf", "oneOf", "if", "then", "else"];

/// Keywords whose values the crate compiles once more for each schema that it unfolds.
const COMPILED_AGAIN: [&str; 8] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "if",
    "oneOf",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Returns the most levels that the compilation of a schema may descend.
///
/// # Errors
/// The reason why the schema is not compiled.
pub(crate) fn levels_of(root: &Value, reached: &ReachedSchemas<'_>) -> Result<usize, String> {
    let mut known = HashMap::new();
    let mut levels = levels_in(root, &mut known);
    for target in reached.targets.iter().copied() {
        levels = levels.saturating_add(levels_in(target, &mut known));
    }
    if levels > LEVELS_MAX {
        return Err(format!("with its references it has {levels} levels; the limit is {LEVELS_MAX}"));
    }
    let mut unfolding = SchemaUnfolding { root, known: HashMap::new(), depth: 0 };
    let mut unfolded = 0_u64;
    for schema in reached.schemas.iter().copied() {
        if schema.as_object().is_some_and(has_unevaluated) {
            unfolded = unfolded.saturating_add(unfolding.unfold(SchemaWork::Unfold, schema));
        }
    }
    if unfolded > UNFOLDED_MAX {
        let why = "what its unevaluatedProperties or unevaluatedItems unfold is too much, or circular";
        return Err(why.to_owned());
    }
    Ok(levels)
}

/// Returns the levels of a schema without its references.
fn levels_in(schema: &Value, known: &mut HashMap<*const Value, usize>) -> usize {
    let Value::Object(fields) = schema else { return 1 };
    let place = std::ptr::from_ref(schema);
    if let Some(levels) = known.get(&place) {
        return *levels;
    }
    let mut deepest = 0_usize;
    for schema in inner(fields) {
        deepest = deepest.max(levels_in(schema, known));
    }
    known.insert(place, deepest + 1);
    deepest + 1
}

/// Whether the crate unfolds what applies to the same value as this schema.
fn has_unevaluated(schema: &JsonMap) -> bool {
    schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems")
}

/// The two kinds of work on one schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SchemaWork {
    Compile,
    Unfold,
}

struct SchemaUnfolding<'s> {
    root: &'s Value,
    /// Counts by the addresses of the schemas; [`u64::MAX`] during the computation, so that a circle exceeds the limit.
    known: HashMap<(*const Value, SchemaWork), u64>,
    depth: usize,
}

impl<'s> SchemaUnfolding<'s> {
    fn unfold(&mut self, work: SchemaWork, schema: &'s Value) -> u64 {
        let Value::Object(fields) = schema else { return 1 };
        let key = (std::ptr::from_ref(schema), work);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.depth >= UNFOLDED_DEPTH_MAX {
            return u64::MAX;
        }
        self.known.insert(key, u64::MAX);
        self.depth += 1;
        let count = match work {
            SchemaWork::Compile => self.compiled(schema, fields),
            SchemaWork::Unfold => self.unfolded(fields),
        };
        self.depth -= 1;
        self.known.insert(key, count.saturating_add(1));
        count.saturating_add(1)
    }

    /// Returns the count for a schema that is compiled at a new place. The targets of its references are compiled already.
    fn compiled(&mut self, schema: &'s Value, fields: &'s JsonMap) -> u64 {
        let mut count = if has_unevaluated(fields) { self.unfold(SchemaWork::Unfold, schema) } else { 0 };
        for schema in inner(fields) {
            count = count.saturating_add(self.unfold(SchemaWork::Compile, schema));
        }
        count
    }

    /// Returns the count for a schema that is unfolded.
    fn unfolded(&mut self, fields: &'s JsonMap) -> u64 {
        let mut count = 0_u64;
        for key in REFERENCES {
            let reference = fields.get(key).and_then(Value::as_str);
            if let Some(target) = reference.and_then(|reference| target(self.root, reference)) {
                count = count.saturating_add(self.unfold(SchemaWork::Unfold, target));
            }
        }
        for value in COMPILED_AGAIN.into_iter().filter_map(|key| fields.get(key)) {
            count = count.saturating_add(self.of_each(SchemaWork::Compile, value));
        }
        for value in UNFOLDED.into_iter().filter_map(|key| fields.get(key)) {
            count = count.saturating_add(self.of_each(SchemaWork::Unfold, value));
        }
        for (key, work) in
            [("patternProperties", SchemaWork::Compile), ("dependentSchemas", SchemaWork::Unfold)]
        {
            for schema in fields.get(key).and_then(Value::as_object).into_iter().flat_map(JsonMap::values) {
                count = count.saturating_add(self.unfold(work, schema));
            }
        }
        count
    }

    /// Returns the count of a schema, or of all schemas of a list.
    fn of_each(&mut self, work: SchemaWork, value: &'s Value) -> u64 {
        match value {
            Value::Array(schemas) => {
                schemas.iter().fold(0_u64, |count, schema| count.saturating_add(self.unfold(work, schema)))
            }
            schema => self.unfold(work, schema),
        }
    }
}

#[cfg(feature = "output-schema")]
#[cfg(test)]
mod tests {
    use proto_events::json;

    use super::*;
    use crate::models::output_schema::OutputSchema;

    fn usable(schema: Value) -> Result<(), String> {
        OutputSchema::new(schema).usable()
    }

    #[test]
    fn what_would_be_unfolded_without_end_is_refused() {
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            let steps: JsonMap = (0..40)
                .map(|at| {
                    let next = json!({"$ref": format!("#/$defs/s{}", at + 1)});
                    (format!("s{at}"), json!({"anyOf": [next, next]}))
                })
                .chain([("s40".to_owned(), Value::Bool(true))])
                .collect();
            let doubling = json!({"$defs": steps, "$ref": "#/$defs/s0", keyword: false});
            let circular = json!({"$ref": "#", keyword: false});
            let inside = json!({
                "$defs": {"n": {keyword: false, "contains": {"$ref": "#/$defs/n", keyword: false}}},
                "$ref": "#/$defs/n",
            });
            for schema in [doubling, circular, inside] {
                let error = usable(schema).unwrap_err();
                assert!(error.contains("too much, or circular"), "{error}");
            }
        }
    }

    #[test]
    fn a_strict_schema_that_refers_to_itself_inside_its_value_is_usable() {
        let base = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
        let node = json!({
            "allOf": [{"$ref": "#/$defs/base"}],
            "properties": {"child": {"$ref": "#/$defs/node"}, "all": {"items": {"$ref": "#/$defs/node"}}},
            "unevaluatedProperties": false,
        });
        let schema = json!({"$defs": {"base": base, "node": node}, "$ref": "#/$defs/node"});
        let schema = OutputSchema::new(schema);
        assert_eq!(schema.usable(), Ok(()));
        assert_eq!(schema.check(&json!({"id": "a", "child": {"id": "b"}, "all": [{"id": "c"}]})), Ok(()));
        schema.check(&json!({"id": "a", "child": {"id": "b", "more": 1}})).unwrap_err();
    }

    #[test]
    fn references_that_lead_through_many_levels_take_no_stack_of_the_caller() {
        let chain = |length: usize| {
            let steps: JsonMap = (0..length)
                .map(|at| {
                    let next = json!({"$ref": format!("#/$defs/s{}", at + 1)});
                    (format!("s{at}"), json!({"properties": {"a": next}}))
                })
                .chain([(format!("s{length}"), Value::Bool(true))])
                .collect();
            json!({"$defs": steps, "$ref": "#/$defs/s0"})
        };
        assert_eq!(usable(chain(200)), Ok(()));
        let error = usable(chain(20_000)).unwrap_err();
        assert!(error.contains("levels"), "{error}");
    }
}
