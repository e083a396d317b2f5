//! The JSON Schemas of documents, made from the tables of their fields.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue};
use proto_events::limits::ID_BYTES_MAX;

use crate::documents::a2a;
use crate::documents::answers::ANSWERS;
use crate::documents::forms::{DOCUMENTS, Form};
use crate::documents::lines::LINES;
use crate::documents::parts::PARTS;
use crate::documents::rows::Fields;

/// The form of an id, which has no control characters.
const ID_FORM: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";

/// The most that a count of a request may be, that of a signed number of 64 bits.
const COUNT_MAX: i64 = i64::MAX;

/// A document, a line or a part: its name, its meaning, and its form.
pub type Described = (&'static str, &'static str, Form);

/// Returns the kinds of lines and the documents that commands print with `--json`.
pub fn described() -> impl Iterator<Item = Described> {
    let of_a2a = lines(a2a::LINES).chain(a2a::DOCUMENTS.iter().copied());
    lines(LINES).chain(DOCUMENTS.iter().copied()).chain(of_a2a)
}

/// Returns every document, with what only the live API answers with, and every part of one.
pub fn known() -> impl Iterator<Item = Described> {
    let parts = PARTS.iter().chain(a2a::PARTS).copied();
    described().chain(lines(ANSWERS)).chain(parts)
}

fn lines(table: &'static [(&'static str, &'static str, Fields)]) -> impl Iterator<Item = Described> {
    table.iter().map(|(name, about, fields)| (*name, *about, Form::Fields(fields)))
}

/// Returns the schema of a line, a document or a part.
pub fn schema_of(name: &str, about: &str, form: Form) -> JsonValue {
    let mut schema = match form {
        Form::Fields(fields) => object_of(name, fields),
        Form::Of(kind) => value_schema(kind),
    };
    if let JsonValue::Object(members) = &mut schema {
        members.insert("description", JsonValue::String(about.to_owned()));
    }
    schema
}

/// Returns the schema of an object. Fields may be added in later releases, so that further ones are allowed.
fn object_of(name: &str, fields: &[(&str, &str)]) -> JsonValue {
    let (mut properties, mut required) = (JsonMap::new(), Vec::new());
    if name.contains('/') {
        properties.insert("schema", json!({"const": name}));
        required.push(JsonValue::String("schema".to_owned()));
    }
    for (field, kind) in fields {
        let (kind, is_required) = kind.strip_suffix('*').map_or((*kind, true), |kind| (kind, false));
        properties.insert(*field, value_schema(kind));
        if is_required {
            required.push(JsonValue::String((*field).to_owned()));
        }
    }
    json!({
        "type": "object",
        "properties": JsonValue::Object(properties),
        "required": JsonValue::Array(required),
    })
}

/// Returns the schema of a type as the tables name it: `text`, `name` for a text that is not empty, `id`, `number`, `count` for a whole
/// number from 0, `bool`, `object` or `any`, `'TEXT'` for this text, the name of a document or a part, `[TYPE]` for a list, `{TYPE}`
/// for an object with any names, several with `|` between them, `?` at the end for a value that may be null. A name that is not known
/// has the schema that nothing fits.
pub fn value_schema(kind: &str) -> JsonValue {
    if let Some(kind) = kind.strip_suffix('?') {
        return json!({"anyOf": [value_schema(kind), {"type": "null"}]});
    }
    let inside = |open, close| kind.strip_prefix(open).and_then(|kind| kind.strip_suffix(close));
    if let Some(item) = inside('[', ']') {
        return json!({"type": "array", "items": value_schema(item)});
    }
    if let Some(value) = inside('{', '}') {
        return json!({"type": "object", "additionalProperties": value_schema(value)});
    }
    if let Some(text) = inside('\'', '\'').filter(|text| !text.contains('\'')) {
        return json!({"const": text});
    }
    if kind.contains('|') {
        return json!({"anyOf": JsonValue::Array(kind.split('|').map(value_schema).collect())});
    }
    match kind {
        "text" => json!({"type": "string"}),
        "id" => json!({"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX, "pattern": ID_FORM}),
        "name" => json!({"type": "string", "minLength": 1}),
        "number" => json!({"type": "number"}),
        "count" => json!({"type": "integer", "minimum": 0, "maximum": COUNT_MAX}),
        "bool" => json!({"type": "boolean"}),
        "object" => json!({"type": "object"}),
        "any" => json!({}),
        other => {
            let known = known().find(|(name, ..)| *name == other);
            known.map_or_else(|| json!(false), |(name, about, form)| schema_of(name, about, form))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_of_a_field_is_one_and_each_part_is_used() {
        let mut all = String::new();
        for (name, about, form) in known() {
            let schema = schema_of(name, about, form).to_string();
            assert!(!schema.contains("false"), "{name} has a field of no type: {schema}");
            all.push_str(&schema);
        }
        for (name, about, _) in PARTS {
            let described = format!("\"description\":\"{about}\"");
            assert!(all.matches(&described).count() > 1, "{name} is a part of nothing");
        }
    }

    #[test]
    fn no_two_documents_have_the_same_name() {
        let mut names: Vec<&str> = known().map(|(name, ..)| name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
