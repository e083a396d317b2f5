//! The walk over a schema before it is compiled. Work is counted on the text of a schema, so that each reference has to
//! lead to the place where the crate `jsonschema` finds it too. That holds as long as the root alone has an id or names a
//! draft: a subschema with an id is a document of its own, in which `#` means another root.

use std::collections::HashSet;

use proto_events::json::{JsonMap, JsonValue as Value};

use crate::models::output_schema::cost::{REFERENCES, places};

/// Keywords whose value is a schema or a list of schemas, in any draft.
const SCHEMAS: [&str; 16] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value maps names or patterns to schemas, in any draft. A name may be spelt like a keyword.
const SCHEMAS_BY_NAME: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// Keywords with which a schema becomes a document of its own, in some draft.
const OF_A_ROOT: [&str; 3] = ["$id", "id", "$schema"];

/// The schemas in a schema, each once.
#[derive(Debug, Default)]
pub(crate) struct ReachedSchemas<'s> {
    /// The objects that are read as schemas, the root first.
    pub(crate) schemas: Vec<&'s Value>,
    /// The targets of references.
    pub(crate) targets: Vec<&'s Value>,
}

/// Returns the schemas that a schema holds and refers to.
///
/// # Errors
/// The reason why the schema cannot be used: a reference leads outside it or nowhere, or a part of it is a document of its
/// own.
pub(crate) fn reached(root: &Value) -> Result<ReachedSchemas<'_>, String> {
    let mut reached = ReachedSchemas::default();
    let (mut seen, mut referred) = (HashSet::new(), HashSet::new());
    let mut open = vec![root];
    while let Some(schema) = open.pop() {
        let Value::Object(fields) = schema else { continue };
        if !seen.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        if !std::ptr::eq(schema, root) {
            is_no_root(fields)?;
        }
        reached.schemas.push(schema);
        for target in targets(root, fields)? {
            if referred.insert(std::ptr::from_ref(target)) {
                reached.targets.push(target);
            }
            open.push(target);
        }
        open.extend(inner(fields));
    }
    Ok(reached)
}

/// Returns the schemas directly inside a schema. Keywords that no draft knows, and those whose value is data, hold none.
pub(crate) fn inner(schema: &JsonMap) -> Vec<&Value> {
    let mut inner = Vec::new();
    for (key, value) in schema {
        if SCHEMAS.contains(&key.as_str()) {
            match value {
                Value::Array(schemas) => inner.extend(schemas.iter()),
                schema => inner.push(schema),
            }
        } else if SCHEMAS_BY_NAME.contains(&key.as_str())
            && let Value::Object(named) = value
        {
            inner.extend(named.values());
        }
    }
    inner
}

/// Returns the targets of a schema's references.
fn targets<'s>(root: &'s Value, schema: &JsonMap) -> Result<Vec<&'s Value>, String> {
    let mut targets = Vec::new();
    for key in REFERENCES {
        let Some(Value::String(reference)) = schema.get(key) else { continue };
        let Some(passed) = places(root, reference) else {
            return Err(format!("its {key} '{reference}' leads nowhere"));
        };
        if key == "$recursiveRef" && reference != "#" {
            // The crate goes to the root, whatever the reference says.
            return Err(format!("its {key} '{reference}' is not '#'"));
        }
        for fields in passed.iter().skip(1).filter_map(|place| place.as_object()) {
            is_no_root(fields)?;
        }
        targets.extend(passed.last().copied());
    }
    Ok(targets)
}

/// Checks that a part below the root is not a document of its own.
fn is_no_root(part: &JsonMap) -> Result<(), String> {
    for key in OF_A_ROOT {
        if let Some(Value::String(text)) = part.get(key) {
            return Err(format!("its {key} '{text}' is not at its root"));
        }
    }
    Ok(())
}

#[cfg(feature = "output-schema")]
#[cfg(test)]
mod tests {
    use proto_events::json;

    use super::*;
    use crate::models::output_schema::OutputSchema;
    use crate::models::output_schema::cost::target;

    fn usable(schema: &str) -> Result<(), String> {
        OutputSchema::new(serde_json::from_str(schema).unwrap()).usable()
    }

    /// Returns forty definitions, each of which refers to the next one twice.
    fn doubling() -> JsonMap {
        (0..40)
            .map(|at| {
                let next = json!({"$ref": format!("#/$defs/s{}", at + 1)});
                (format!("s{at}"), json!({"anyOf": [next, next]}))
            })
            .chain([("s40".to_owned(), Value::Bool(false))])
            .collect()
    }

    #[test]
    fn a_document_inside_a_schema_is_refused_whatever_its_name_is() {
        for keyword in SCHEMAS_BY_NAME {
            for name in ["const", "default", "enum", "examples", "$id", "a"] {
                // In the document the references double; at the root, where work is counted, they do not.
                let hidden = json!({"$id": "http://x.test/y", "$ref": "#/$defs/s0", "$defs": doubling()});
                let mut schema = json!({"$ref": format!("#/{keyword}/{name}"), "$defs": {"s0": true}});
                schema[keyword][name] = hidden;
                let error = OutputSchema::new(schema).usable().unwrap_err();
                assert!(error.contains("http://x.test/y"), "{keyword} {name}: {error}");
            }
        }
    }

    #[test]
    fn only_the_root_has_an_id_or_names_a_draft() {
        for schema in [
            r#"{"$defs":{"a":{"$schema":"http://json-schema.org/draft-04/schema#","id":"urn:x"}}}"#,
            r#"{"properties":{"a":{"id":"urn:x"}}}"#,
            r#"{"properties":{"default":{"$id":"urn:x"}}}"#,
            r#"{"allOf":[{"not":{"$id":"urn:x"}}]}"#,
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"$id":"urn:x"}]}"#,
            r##"{"$ref":"#/default","default":{"$id":"urn:x"}}"##,
            r##"{"$ref":"#/examples/0","examples":[{"$id":"urn:x"}]}"##,
            r##"{"$ref":"#/default/$defs/a","default":{"$id":"urn:x","$defs":{"a":true}}}"##,
            r##"{"$ref":"#/x/y","x":{"y":{"anyOf":[{"$id":"urn:x"}]}}}"##,
        ] {
            let error = usable(schema).unwrap_err();
            assert!(error.ends_with("is not at its root"), "{schema}: {error}");
        }
        let error = usable(r##"{"$ref":"#/default","default":{"$ref":"#/none"}}"##).unwrap_err();
        assert!(error.contains("#/none"), "{error}");
    }

    #[test]
    fn a_reference_is_followed_as_the_validator_follows_it() {
        let schema = json!({
            "$defs": {"s%30": 1, "s0": 2, "~/": 3, "~~1": 4, "a/b": 5, "~1": 6, "é": 7, "": 8},
            "allOf": [9, 10],
        });
        for (reference, found) in [
            ("#/$defs/s%30", Some(2)),
            ("#/$defs/s%2530", Some(1)),
            ("#/$defs/~~1", None),
            ("#/$defs/~", None),
            ("#/$defs/a~1b", Some(5)),
            ("#/$defs/a%7E1b", Some(5)),
            ("#/$defs/~01", Some(6)),
            ("#/$defs/%C3%A9", Some(7)),
            ("#/$defs/", Some(8)),
            ("#%2Fnone", None),
            ("#/$defs/%C3", None),
            ("#/$defs/%+1", None),
            ("#/$defs/%3", None),
            ("#/allOf/1", Some(10)),
            ("#/allOf/01", None),
            ("#/allOf/+1", None),
            ("#/allOf/2", None),
            ("#s0", None),
            ("", None),
        ] {
            assert_eq!(target(&schema, reference), found.map(Value::from).as_ref(), "{reference}");
        }
        assert_eq!(target(&schema, "#"), Some(&schema));
        let schema = json!({"$ref": "#/$defs/s%30", "$defs": {"s%30": true, "s0": {"type": "null"}}});
        let schema = OutputSchema::new(schema);
        assert_eq!(schema.check(&Value::Null), Ok(()));
        schema.check(&json!(1)).unwrap_err();
        let draft = "https://json-schema.org/draft/2019-09/schema";
        let elsewhere = json!({"$schema": draft, "$recursiveRef": "#/$defs/t", "$defs": {"t": true}});
        let error = OutputSchema::new(elsewhere).usable().unwrap_err();
        assert!(error.contains("'#/$defs/t' is not '#'"), "{error}");
        let inside =
            json!({"$schema": draft, "properties": {"a": {"$recursiveRef": "#"}}, "required": ["b"]});
        let inside = OutputSchema::new(inside);
        assert_eq!(inside.check(&json!({"b": 1, "a": {"b": 2}})), Ok(()));
        inside.check(&json!({"b": 1, "a": {}})).unwrap_err();
    }

    #[test]
    fn a_schema_of_good_will_is_usable() {
        let named = r#"{"type":"object","properties":{"default":{"type":"string"},"id":{"type":"string"},
            "enum":{"type":"integer"},"$id":{"type":"string"},"$schema":{"type":"string"},"$ref":{"type":"string"},
            "const":{},"examples":true},"required":["id"],"default":{"id":"a","$id":"b","$schema":"c"},
            "examples":[{"$ref":"none","id":"a"}],"x-form":{"id":"name","$ref":"none"}}"#;
        assert_eq!(usable(named), Ok(()));
        let named = OutputSchema::new(serde_json::from_str(named).unwrap());
        assert_eq!(named.check(&json!({"id": "a", "$id": "b", "$ref": "#/none", "enum": 1})), Ok(()));
        assert!(named.check(&json!({"id": 1})).unwrap_err().starts_with("answer.id"));
        // As the crate `schemars` writes it.
        let derived = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"Order","type":"object",
            "properties":{"id":{"type":"string"},"kind":{"$ref":"#/$defs/Kind","default":"a"},
            "next":{"anyOf":[{"$ref":"#"},{"type":"null"}]},"names":{"type":"object",
            "additionalProperties":{"$ref":"#/$defs/Pair_of_u8"}}},"required":["id"],
            "$defs":{"Kind":{"type":"string","enum":["a","b"]},"Pair_of_u8":{"type":"array",
            "prefixItems":[{"$ref":"#/properties/id"},{"type":"integer"}]}}}"##;
        assert_eq!(usable(derived), Ok(()));
        let derived = OutputSchema::new(serde_json::from_str(derived).unwrap());
        let order =
            json!({"id": "1", "next": {"id": "2", "kind": "b", "next": null}, "names": {"x": ["y", 1]}});
        assert_eq!(derived.check(&order), Ok(()));
        derived.check(&json!({"id": "1", "next": {"id": "2", "kind": "c"}})).unwrap_err();
        for schema in [
            r##"{"$ref":"#/components/schemas/A","components":{"schemas":{"A":{"type":"string"}}}}"##,
            r##"{"$id":"http://x.test/y","$ref":"#/$defs/a","$defs":{"a":{"$anchor":"a","type":"null"}}}"##,
            r##"{"id":"http://x.test/y#","$schema":"http://json-schema.org/draft-04/schema#",
                "not":{"$ref":"#/definitions/a"},"definitions":{"a":{"type":"null"}}}"##,
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"$ref":"#/definitions/default"}],
                "definitions":{"default":{"type":"string"}},"dependencies":{"a":["b"],"b":{"required":["c"]}}}"##,
        ] {
            assert_eq!(usable(schema), Ok(()), "{schema}");
        }
    }
}
