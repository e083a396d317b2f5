//! `schema`: the JSON Schemas of what commands print with `--json`.

use proto_events::json;
use proto_events::json::{JsonMap, JsonText, JsonValue};

use crate::about::documents::{DOCUMENTS, Form};
use crate::about::lines::LINES;
use crate::about::lines_of_commands::COMMANDS;
use crate::about::parts::PARTS;
use crate::args::about::SchemaArgs;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::print::screen::Screen;

/// Prints one schema for each kind of line, of one command or of all.
///
/// # Errors
/// [`Problem`] if the command prints no JSON, or the reader of the output is gone.
pub(crate) fn schema(args: &SchemaArgs, screen: &mut Screen) -> Result<Answer, Problem> {
    let named: Vec<&str> = match &args.command {
        None => printed().map(|(name, ..)| name).collect(),
        Some(command) => {
            let found = COMMANDS.iter().find(|(name, _)| name == command);
            found.map(|(_, lines)| lines.to_vec()).ok_or_else(|| no_json(command))?
        }
    };
    for (name, about, form) in printed().filter(|(name, ..)| named.contains(name)) {
        screen.json_value(&JsonText::from(document(name, about, form)))?;
    }
    screen.flush()?;
    Ok(Answer::Yes)
}

/// Returns the kinds of lines and the documents.
fn printed() -> impl Iterator<Item = (&'static str, &'static str, Form)> {
    let lines = LINES.iter().map(|(name, about, fields)| (*name, *about, Form::Fields(fields)));
    lines.chain(DOCUMENTS.iter().copied())
}

fn no_json(command: &str) -> Problem {
    let all: Vec<_> = COMMANDS.iter().map(|(name, _)| *name).collect();
    Problem::new(
        EXIT_USAGE,
        format!("there is no schema for `{command}`"),
        "it is not a command that prints JSON",
        format!("use one of {}", all.join(", ")),
    )
}

fn document(name: &str, about: &str, form: Form) -> JsonValue {
    let mut schema = schema_of(name, about, form);
    if let JsonValue::Object(members) = &mut schema {
        let dialect = "https://json-schema.org/draft/2020-12/schema";
        members.insert("$schema", JsonValue::String(dialect.to_owned()));
        members.insert("title", JsonValue::String(name.to_owned()));
    }
    schema
}

/// Returns the schema of a line, a document or a part.
fn schema_of(name: &str, about: &str, form: Form) -> JsonValue {
    let mut schema = match form {
        Form::Fields(fields) => object_of(name, fields),
        Form::Of(kind) => value_of(kind),
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
        properties.insert(*field, value_of(kind));
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

/// Returns the schema of a type, see [`LINES`].
fn value_of(kind: &str) -> JsonValue {
    if let Some(kind) = kind.strip_suffix('?') {
        return json!({"anyOf": [value_of(kind), {"type": "null"}]});
    }
    let inside = |open, close| kind.strip_prefix(open).and_then(|kind| kind.strip_suffix(close));
    if let Some(item) = inside('[', ']') {
        return json!({"type": "array", "items": value_of(item)});
    }
    if let Some(value) = inside('{', '}') {
        return json!({"type": "object", "additionalProperties": value_of(value)});
    }
    if kind.contains('|') {
        return json!({"anyOf": JsonValue::Array(kind.split('|').map(value_of).collect())});
    }
    match kind {
        "text" => json!({"type": "string"}),
        "number" => json!({"type": "number"}),
        "bool" => json!({"type": "boolean"}),
        "object" => json!({"type": "object"}),
        "any" => json!({}),
        other => {
            let known = printed().chain(PARTS.iter().copied()).find(|(name, ..)| *name == other);
            known.map_or_else(|| json!(false), |(name, about, form)| schema_of(name, about, form))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_known_and_belongs_to_a_command() {
        for (command, lines) in COMMANDS {
            for line in *lines {
                assert!(printed().any(|(name, ..)| name == *line), "{command}: {line}");
            }
        }
        for (name, ..) in printed() {
            assert!(COMMANDS.iter().any(|(_, lines)| lines.contains(&name)), "{name}");
        }
    }

    #[test]
    fn each_type_of_a_field_is_one_and_each_part_is_used() {
        let mut all = String::new();
        for (name, about, form) in printed().chain(PARTS.iter().copied()) {
            let schema = schema_of(name, about, form).to_string();
            assert!(!schema.contains("false"), "{name} has a field of no type: {schema}");
            all.push_str(&schema);
        }
        for (name, about, _) in PARTS {
            let described = format!("\"description\":\"{about}\"");
            assert!(all.matches(&described).count() > 1, "{name} is a part of nothing");
        }
    }
}
