//! A revision of the agent's definition, as it is in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto_events::definition::{AgentHistory, Aspect};
use proto_events::id::Digest;
use proto_events::json::{JsonText, JsonValue};

/// The secret arguments of tools, by the tools' names.
pub(crate) type SecretArgs = BTreeMap<String, Vec<String>>;

/// A revision of the agent's definition that tasks are decided with, and what a model is shown of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revision {
    /// The number of the revision, from 1; 0 before the agent's start is recorded.
    pub number: u32,
    /// The leaf hash of the record that holds the revision.
    pub record: Digest,
    /// The system prompt, without what a task adds.
    pub system: Arc<str>,
    /// The secret arguments that this definition or an earlier one declared: a model and a caller may still ask for a
    /// tool that the agent no longer has.
    pub secret_args: Arc<SecretArgs>,
}

/// Returns the secret arguments that any of the definitions declared.
pub(crate) fn declared_secret_args(history: &AgentHistory) -> SecretArgs {
    let mut declared = SecretArgs::new();
    let mut before = "";
    for definition in (1..=history.number()).filter_map(|number| history.revision(number)) {
        let text = definition.text(Aspect::Tools);
        // Revisions that leave the tools as they were share their text.
        if std::ptr::eq(text, before) {
            continue;
        }
        before = text;
        let tools = JsonText::parse(text).map(|tools| tools.tree()).unwrap_or_default();
        for tool in tools.as_array().into_iter().flatten() {
            declare(&mut declared, tool);
        }
    }
    declared
}

fn declare(declared: &mut SecretArgs, tool: &JsonValue) {
    let args = tool.get("policy").and_then(|policy| policy.get("secret_args")).and_then(JsonValue::as_array);
    let (Some(name), Some(args)) = (tool.get("name").and_then(JsonValue::as_str), args) else { return };
    for argument in args.iter().filter_map(JsonValue::as_str) {
        let known = declared.entry(name.to_owned()).or_default();
        if !known.iter().any(|known| known == argument) {
            known.push(argument.to_owned());
        }
    }
}
