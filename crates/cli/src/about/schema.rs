//! `schema`: the JSON Schemas of what commands print with `--json`.

use proto_events::json::{JsonText, JsonValue};
use taskreel_log::documents::{Form, described, schema_of};

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
        None => described().map(|(name, ..)| name).collect(),
        Some(command) => {
            let found = COMMANDS.iter().find(|(name, _)| name == command);
            found.map(|(_, lines)| lines.to_vec()).ok_or_else(|| no_json(command))?
        }
    };
    for (name, about, form) in described().filter(|(name, ..)| named.contains(name)) {
        screen.json_value(&JsonText::from(document(name, about, form)))?;
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

fn document(name: &str, about: &str, form: Form) -> JsonValue {
    let mut schema = schema_of(name, about, form);
    if let JsonValue::Object(members) = &mut schema {
        let dialect = "https://json-schema.org/draft/2020-12/schema";
        members.insert("$schema", JsonValue::String(dialect.to_owned()));
        members.insert("title", JsonValue::String(name.to_owned()));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_known_and_belongs_to_a_command() {
        for (command, lines) in COMMANDS {
            for line in *lines {
                assert!(described().any(|(name, ..)| name == *line), "{command}: {line}");
            }
        }
        for (name, ..) in described() {
            assert!(COMMANDS.iter().any(|(_, lines)| lines.contains(&name)), "{name}");
        }
    }
}
