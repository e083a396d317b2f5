//! Repairs of the shapes that models write instead of the requested ones. A repair happens before the fields
//! are judged and never fails: fields that cannot be repaired are left unchanged.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};

use crate::grammar::shorthand::{Shorthand, parse_call};

/// The fields that are taken out of the `payload` of the older nested form. A `thought` in it is dropped.
const PAYLOAD_FIELDS: [&str; 6] = ["content", "tool", "args", "agent", "action", "prompt"];

/// Repairs the fields of a reply.
pub(crate) fn repair(fields: &mut JsonMap, local_tools: &[&str], agents: &[(String, Vec<String>)]) {
    flatten_payload(fields);
    match fields.get("type").and_then(Value::as_str) {
        Some("tool_call") => repair_tool_call(fields),
        Some("agent_call") => repair_agent_call(fields, local_tools, agents),
        _ => {}
    }
}

/// Flattens `{"type", "payload": {..}}` into one object; outer fields win.
fn flatten_payload(fields: &mut JsonMap) {
    if !fields.get("payload").is_some_and(Value::is_object) {
        return;
    }
    let Some(Value::Object(mut payload)) = fields.remove("payload") else {
        return;
    };
    for name in PAYLOAD_FIELDS {
        if let Some(value) = payload.remove(name) {
            fields.insert_if_absent(name, value);
        }
    }
}

fn prompt_call(fields: &JsonMap) -> Option<Shorthand> {
    parse_call(fields.get("prompt")?.as_str()?)
}

/// Replaces `prompt: "add(a=1)"` by tool and arguments.
fn repair_tool_call(fields: &mut JsonMap) {
    if fields.contains_key("args") {
        return;
    }
    if let Some(call) = prompt_call(fields) {
        fields.remove("prompt");
        fields.insert_if_absent("tool", Value::String(call.tool));
        fields.insert("args".to_owned(), Value::Object(call.args));
    }
}

fn repair_agent_call(fields: &mut JsonMap, local_tools: &[&str], agents: &[(String, Vec<String>)]) {
    // The prompt of an infer is never a call, whatever its form; the intent of any other action is unknown.
    let calls_tool = |action: &Value| action.is_null() || action.as_str() == Some("tool_call");
    if !fields.get("action").is_none_or(calls_tool) {
        return;
    }
    if let Some(call) = prompt_call(fields) {
        fields.remove("prompt");
        if let Some(agent) = call.agent {
            fields.insert_if_absent("agent", Value::String(agent));
        }
        fields.insert_if_absent("action", json!("tool_call"));
        fields.insert_if_absent("tool", Value::String(call.tool));
        fields.insert_if_absent("args", Value::Object(call.args));
    }
    if !fields.contains_key("agent") {
        name_the_agent(fields, local_tools, agents);
    }
}

/// Adds the agent: the only one with that skill. If none or several have it, a local tool of that name is
/// called.
fn name_the_agent(fields: &mut JsonMap, local_tools: &[&str], agents: &[(String, Vec<String>)]) {
    let Some(tool) = fields.get("tool").and_then(Value::as_str).map(str::to_owned) else {
        return;
    };
    let mut able = agents.iter().filter(|(_, skills)| skills.contains(&tool));
    match (able.next(), able.next()) {
        (Some((agent, _)), None) => {
            fields.insert("agent".to_owned(), Value::String(agent.clone()));
        }
        _ if local_tools.contains(&tool.as_str()) => {
            let args = fields.get("args").filter(|args| !args.is_null()).cloned();
            *fields = JsonMap::new();
            fields.insert("type".to_owned(), json!("tool_call"));
            fields.insert("tool".to_owned(), Value::String(tool));
            fields.insert("args".to_owned(), args.unwrap_or_else(|| json!({})));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thought_in_a_payload_is_dropped_and_one_beside_it_stays() {
        let repaired = |text: &str| {
            let Ok(Value::Object(mut fields)) = Value::parse(text) else { panic!("an object") };
            repair(&mut fields, &[], &[]);
            Value::Object(fields).to_string()
        };
        assert_eq!(
            repaired(r#"{"type":"final","payload":{"content":"x","thought":"in"}}"#),
            r#"{"type":"final","content":"x"}"#
        );
        assert_eq!(
            repaired(r#"{"type":"final","thought":"out","payload":{"content":"x","thought":"in"}}"#),
            r#"{"type":"final","thought":"out","content":"x"}"#
        );
    }
}
