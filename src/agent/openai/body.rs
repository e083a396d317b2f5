//! The body of a request: messages, tools under names that the API takes, parameters, the schema of the answer.

use proto_events::model::LlmRole;
use serde_json::{Map, Value, json};

use super::{NativeTools, Settings, SystemNotes};
use crate::agent::infer::{ChatMessage, InferRequest};
use crate::agent::registry::ToolSpec;

/// Longest name of a tool or speaker that the API takes, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// A request, and what is needed to read its answer.
#[derive(Debug)]
pub(super) struct Body {
    /// The JSON to send.
    pub(super) json: Value,
    /// The tools as they are offered.
    pub(super) names: Names,
}

impl Body {
    pub(super) fn of(settings: &Settings, request: &InferRequest) -> Self {
        let names = match settings.native_tools {
            NativeTools::Offered => Names::of(&request.tools),
            NativeTools::Never => Names::default(),
        };
        let mut fields = Map::new();
        fields.insert("model".to_owned(), json!(settings.model));
        fields.insert("messages".to_owned(), messages(settings.system_notes, &request.messages));
        for (name, value) in settings.parameters.iter() {
            fields.insert(name.to_owned(), value.to_value());
        }
        if !names.0.is_empty() {
            fields.insert("tools".to_owned(), tools(&names, &request.tools));
            fields.insert("parallel_tool_calls".to_owned(), json!(false));
        }
        if let Some(format) = response_format(request, &names) {
            fields.insert("response_format".to_owned(), format);
        }
        fields.insert("stream".to_owned(), json!(settings.streams));
        if settings.streams {
            fields.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        Self { json: Value::Object(fields), names }
    }
}

/// Fields that are ours to fill in.
pub(super) const OWN_FIELDS: [&str; 8] =
    ["model", "messages", "tools", "parallel_tool_calls", "response_format", "stream", "stream_options", "n"];

/// The schema can be sent where the answer is nothing else than the JSON that it describes: tools that are not
/// offered natively are called by JSON actions, which the schema would forbid.
fn response_format(request: &InferRequest, names: &Names) -> Option<Value> {
    let schema = request.output_schema.as_ref()?.to_value();
    let free = request.tools.is_empty() || !names.0.is_empty();
    // The API takes objects only; `true` and `false` are schemas as well, and are checked here.
    (free && schema.is_object())
        .then(|| json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}))
}

fn messages(notes: SystemNotes, messages: &[ChatMessage]) -> Value {
    let mut leading = true;
    let shown = messages.iter().map(|message| {
        leading &= message.role == LlmRole::System;
        let role = match message.role {
            LlmRole::System | LlmRole::Tool if !leading && notes == SystemNotes::AsUser => "user",
            // The API wants the id of a native call with this role; results are notes of the system here.
            LlmRole::Tool => "system",
            role => role.as_str(),
        };
        let mut shown = json!({"role": role, "content": message.content});
        if let (Some(name), Some(shown)) = (message.name.as_deref(), shown.as_object_mut())
            && is_plain(name)
        {
            shown.insert("name".to_owned(), json!(name));
        }
        shown
    });
    shown.collect()
}

fn tools(names: &Names, specs: &[ToolSpec]) -> Value {
    let shown = names.0.iter().zip(specs).map(|((alias, _), spec)| {
        let schema = spec.schema().cloned().unwrap_or_else(|| json!({"type": "object"}));
        json!({"type": "function", "function": {
            "name": alias, "description": spec.description, "parameters": schema,
        }})
    });
    shown.collect()
}

/// The names under which tools are offered, beside their own, in the order of the tools.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    fn of(tools: &[ToolSpec]) -> Self {
        let mut names = Self::default();
        // Plain names go first: no made-up one takes theirs.
        let mut taken: Vec<String> =
            tools.iter().map(|tool| tool.name.clone()).filter(|name| is_plain(name)).collect();
        for tool in tools {
            let alias = if is_plain(&tool.name) { tool.name.clone() } else { alias(&tool.name, &taken) };
            taken.push(alias.clone());
            names.0.push((alias, tool.name.clone()));
        }
        names
    }

    /// The tool that is meant by a name in an answer; a name that was not offered is left as it is.
    pub(super) fn tool<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.iter().find(|(alias, _)| alias == name).map_or(name, |(_, tool)| tool)
    }
}

fn is_plain(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain_byte)
}

fn is_plain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The name with other characters as `_`, and a number behind it if that is taken.
fn alias(name: &str, taken: &[String]) -> String {
    let plain: String = name
        .chars()
        .map(|char| if u8::try_from(char).is_ok_and(is_plain_byte) { char } else { '_' })
        .take(NAME_BYTES_MAX)
        .collect();
    let plain = if plain.is_empty() { "tool".to_owned() } else { plain };
    let numbered = (2_usize..).map(|number| {
        let end = format!("_{number}");
        let start: String = plain.chars().take(NAME_BYTES_MAX - end.len()).collect();
        start + &end
    });
    std::iter::once(plain.clone()).chain(numbered).find(|alias| !taken.contains(alias)).unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::agent::policy::ToolPolicy;

    fn tool(name: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: Arc::new(Value::Null),
            policy: ToolPolicy::read_only(),
        }
    }

    #[test]
    fn names_that_the_api_refuses_are_exchanged_and_found_again() {
        let long = "x".repeat(70);
        let tools: Vec<_> = ["a.b", "a_b", "a b", "", &long, &(long.clone() + "y")].map(tool).into();
        let names = Names::of(&tools);
        let offered: Vec<_> = names.0.iter().map(|(alias, _)| alias.as_str()).collect();
        assert_eq!(offered.get(..4).unwrap(), ["a_b_2", "a_b", "a_b_3", "tool"]);
        for (alias, own) in &names.0 {
            assert!(is_plain(alias), "{alias}");
            assert_eq!(names.tool(alias), own);
        }
        assert_eq!(names.tool("other"), "other");
    }

    #[test]
    fn notes_can_be_said_in_the_name_of_the_user_for_servers_that_take_one_system_message() {
        let said = [
            (LlmRole::System, "s"),
            (LlmRole::User, "u"),
            (LlmRole::Assistant, "a"),
            (LlmRole::System, "note"),
            (LlmRole::Tool, "result"),
        ]
        .map(|(role, text)| ChatMessage::new(role, text));
        let roles = |notes| -> Vec<String> {
            let shown = messages(notes, &said);
            let shown = shown.as_array().unwrap();
            shown.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(roles(SystemNotes::AsSystem), ["system", "user", "assistant", "system", "system"]);
        assert_eq!(roles(SystemNotes::AsUser), ["system", "user", "assistant", "user", "user"]);
    }

    #[test]
    fn a_speaker_is_named_where_the_api_takes_the_name() {
        let named = |name: &str| {
            let message = ChatMessage { name: Some(name.to_owned()), ..ChatMessage::new(LlmRole::User, "x") };
            messages(SystemNotes::AsSystem, &[message])[0].get("name").cloned()
        };
        assert_eq!(named("alice"), Some(json!("alice")));
        assert_eq!(named("alice b"), None);
    }
}
