//! `schema`: the JSON Schemas of what commands print with `--json`.

use proto_events::json;
use proto_events::json::{JsonMap, JsonText, JsonValue};

use crate::about::lines::LINES;
use crate::about::lines_of_commands::COMMANDS;
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
        None => LINES.iter().map(|(name, ..)| *name).collect(),
        Some(command) => {
            let found = COMMANDS.iter().find(|(name, _)| name == command);
            found.map(|(_, lines)| lines.to_vec()).ok_or_else(|| no_json(command))?
        }
    };
    for (name, about, fields) in LINES.iter().filter(|(name, ..)| named.contains(name)) {
        screen.json_value(&JsonText::from(document(name, about, fields)))?;
    }
    screen.flush()?;
    Ok(Answer::Yes)
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

fn document(name: &str, about: &str, fields: &[(&str, &str)]) -> JsonValue {
    let mut schema = object_of(name, about, fields);
    if let JsonValue::Object(members) = &mut schema {
        let dialect = "https://json-schema.org/draft/2020-12/schema";
        members.insert("$schema", JsonValue::String(dialect.to_owned()));
        members.insert("title", JsonValue::String(name.to_owned()));
    }
    schema
}

/// Returns the schema of an object. Fields may be added in later releases, so that further ones are allowed.
fn object_of(name: &str, about: &str, fields: &[(&str, &str)]) -> JsonValue {
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
        "description": about,
        "type": "object",
        "properties": JsonValue::Object(properties),
        "required": JsonValue::Array(required),
    })
}

fn value_of(kind: &str) -> JsonValue {
    let (kind, may_be_null) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
    if let Some(item) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
        return json!({"type": "array", "items": value_of(item)});
    }
    let name = match kind {
        "text" => "string",
        "number" => "number",
        "bool" => "boolean",
        "object" => "object",
        "any" => return json!({}),
        other => {
            let known = LINES.iter().find(|(name, ..)| *name == other);
            return known
                .map_or_else(|| json!(false), |(name, about, fields)| object_of(name, about, fields));
        }
    };
    if may_be_null { json!({"type": [name, "null"]}) } else { json!({"type": name}) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_known_and_belongs_to_a_command() {
        for (command, lines) in COMMANDS {
            for line in *lines {
                assert!(LINES.iter().any(|(name, ..)| name == line), "{command}: {line}");
            }
        }
        for (name, ..) in LINES {
            assert!(COMMANDS.iter().any(|(_, lines)| lines.contains(name)), "{name}");
        }
    }

    #[test]
    fn each_type_of_a_field_is_one() {
        for (name, _, fields) in LINES {
            for (field, kind) in *fields {
                let schema = value_of(kind.trim_end_matches('*')).to_string();
                assert!(!schema.contains("false"), "{name}: {field} has the type {kind}");
            }
        }
    }
}
