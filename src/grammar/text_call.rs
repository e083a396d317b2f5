//! Calls that a model writes as text although it is to ask by its provider's own interface.

use proto_events::json::JsonValue as Value;

use crate::grammar::decode::decode_whole;

/// The marks that models write before and behind a call in text, where their server does not take it for one.
const MARKS_BEFORE: [&str; 10] = [
    "<tool_call",
    "<toolcall",
    "<function",
    "<invoke",
    "<|tool",
    "<|python_tag|>",
    "<｜tool",
    "[TOOL_CALL",
    "[function",
    "<|channel|>commentary to=",
];
const MARKS_BEHIND: [&str; 7] = [
    "</tool_call>",
    "</tool_calls>",
    "</function>",
    "</function_calls>",
    "</invoke>",
    "[/TOOL_CALLS]",
    "<｜tool▁calls▁end｜>",
];

/// The members under which a call in text holds its arguments.
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "args", "input", "params"];

/// Whether a whole reply looks like a call of one of these tools. One that quotes a call among other words does not.
pub(crate) fn is_text_call(said: &str, tools: &[&str]) -> bool {
    let text = said.trim();
    if MARKS_BEFORE.iter().any(|mark| text.starts_with(mark))
        || MARKS_BEHIND.iter().any(|mark| text.ends_with(mark))
    {
        return true;
    }
    match decode_whole(text) {
        Ok(Value::Array(calls)) => !calls.is_empty() && calls.iter().all(|call| is_call(call, tools)),
        Ok(value) => is_call(&value, tools),
        Err(_) => false,
    }
}

fn is_call(value: &Value, tools: &[&str]) -> bool {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    if matches!(text(value, "type").as_deref(), Some("tool_call" | "agent_call")) {
        return true;
    }
    let inner = value.get("function").or_else(|| value.get("tool_call")).filter(|inner| inner.is_object());
    let call = inner.unwrap_or(value);
    let named = ["name", "tool", "tool_name", "function"].iter().find_map(|key| text(call, key));
    let is_known = |name: &str| tools.contains(&name) || tools.iter().any(|tool| ends_in(name, tool));
    named.is_some_and(|name| is_known(&name)) && ARGUMENTS.iter().any(|key| call.get(key).is_some())
}

/// Whether a name is a tool's behind a namespace: `functions.weather`.
fn ends_in(name: &str, tool: &str) -> bool {
    name.strip_suffix(tool).is_some_and(|before| before.ends_with(['.', '/', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_reply_in_one_of_the_known_forms_looks_like_a_call() {
        for said in [
            r#"{"name": "weather", "arguments": {"city": "Oslo"}}"#,
            r#"{"name": "functions.weather", "parameters": {"city": "Oslo"}}"#,
            r#"{"function": {"name": "weather", "arguments": "{}"}}"#,
            r#"{"function": "weather", "args": {}}"#,
            r#"[{"name": "weather", "arguments": {}}, {"tool": "weather", "args": {}}]"#,
            "```json\n{\"name\": \"weather\", \"arguments\": {}}\n```",
            r#"{"type":"tool_call","tool":"other","args":{}}"#,
            "<tool_call>\n{\"name\": \"weather\"}\n</tool_call>",
            "<function=weather>\n<parameter=city>Oslo</parameter>\n</function>",
            "I look it up. <tool_call>{\"name\": \"weather\"}</tool_call>",
            "[TOOL_CALLS] [{\"name\": \"weather\"}]",
        ] {
            assert!(is_text_call(said, &["weather"]), "{said}");
        }
    }

    #[test]
    fn an_answer_does_not_look_like_a_call() {
        for said in [
            "Take a coat.",
            "One would write {\"name\": \"weather\", \"arguments\": {}} for that.",
            "The tag <tool_call> begins a call.",
            r#"{"name": "Ann", "arguments": ["for", "against"]}"#,
            r#"{"name": "weather"}"#,
            r#"{"celsius": 3}"#,
            "[]",
            "3",
            "",
        ] {
            assert!(!is_text_call(said, &["weather"]), "{said}");
        }
    }
}
