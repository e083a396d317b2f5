//! Reads what a model's reply asks for, as the log has it: the calls that a provider's own interface made of it, or the text.
//!
//! A text is read as the JSON of an action. A text in another form, which the grammar of actions repairs first, asks for
//! something that a log alone does not tell.

use proto_events::json::{JsonMap, JsonObject, JsonText, JsonValue as Value};

use crate::shown::escape_controls;

/// The function by which a model with native calls asks another agent.
pub(crate) const AGENT_CALL: &str = "agent_call";

/// A call that a reply asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wish {
    /// A call of a tool.
    Tool {
        /// The tool's name.
        tool: String,
        /// The arguments.
        args: JsonText,
    },
    /// A request to another agent: the action, without the thought beside it.
    Agent(Value),
    /// A call in a form that has to be repaired.
    Repaired,
}

/// The calls that a reply asks for.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// The calls; of a text those that its readings find, one of which is carried out.
    pub(crate) all: Vec<Wish>,
    /// Whether each of them may be carried out.
    pub(crate) is_native: bool,
}

impl Wishes {
    /// Reads a reply.
    pub(crate) fn from_reply(reply: &JsonText) -> Self {
        let fields: JsonObject = reply.read().unwrap_or_default();
        let calls: Vec<JsonObject> =
            fields.get("calls").and_then(|calls| calls.read().ok()).unwrap_or_default();
        if !calls.is_empty() {
            return Self { all: calls.iter().filter_map(Wish::of_native).collect(), is_native: true };
        }
        let text = fields.get("content").and_then(JsonText::to_str).unwrap_or_default();
        Self { all: readings(&text).filter_map(|value| Wish::from_value(&value)).collect(), is_native: false }
    }
}

impl Wish {
    fn from_value(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        match fields.get("type")?.as_str()? {
            "tool_call" => Some(Self::of_tool(fields).unwrap_or(Self::Repaired)),
            "agent_call" => Some(agent_call(fields).map_or(Self::Repaired, Self::Agent)),
            _ => None,
        }
    }

    /// Reads a native call. One of the function `agent_call` asks another agent.
    fn of_native(call: &JsonObject) -> Option<Self> {
        let tool = call.get("tool")?.to_str()?;
        let args = call.get("args").cloned().unwrap_or_default();
        let tree = args.tree();
        let asked = tree.as_object().filter(|_| tool == AGENT_CALL).map(agent_call);
        Some(match asked {
            Some(Some(wish)) => Self::Agent(wish),
            Some(None) => Self::Repaired,
            None => Self::Tool { tool, args },
        })
    }

    fn of_tool(fields: &JsonMap) -> Option<Self> {
        let tool = fields.get("tool")?.as_str()?.to_owned();
        let args = match fields.get("args") {
            None if has_only(fields, &["tool"]) => JsonText::empty_object(),
            Some(args @ Value::Object(_)) if has_only(fields, &["tool", "args"]) => args.clone().into(),
            _ => return None,
        };
        Some(Self::Tool { tool, args })
    }
}

fn has_only(fields: &JsonMap, names: &[&str]) -> bool {
    fields.keys().all(|key| matches!(key.as_str(), "type" | "thought") || names.contains(&key.as_str()))
}

/// Returns a request to another agent as its intent holds it.
fn agent_call(fields: &JsonMap) -> Option<Value> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let is_absent = |name: &str| fields.get(name).is_none_or(Value::is_null);
    if !has_only(fields, &["agent", "action", "tool", "args", "prompt"]) {
        return None;
    }
    let mut wish = JsonMap::new();
    let mut set = |name: &str, value: &str| wish.insert(name, Value::String(value.to_owned()));
    set("type", "agent_call");
    set("agent", text("agent")?);
    set("action", text("action")?);
    match text("action")? {
        "infer" if is_absent("tool") && is_absent("args") => {
            set("prompt", text("prompt")?);
        }
        "tool_call" if is_absent("prompt") => {
            set("tool", text("tool")?);
            let args = match fields.get("args") {
                None | Some(Value::Null) => Value::Object(JsonMap::new()),
                Some(args @ Value::Object(_)) => args.clone(),
                Some(_) => return None,
            };
            wish.insert("args", args);
        }
        _ => return None,
    }
    Some(Value::Object(wish))
}

/// Returns the values that a text may be read as: the whole text, what follows the model's reasoning, and of both the part
/// from the first brace to the last.
fn readings(text: &str) -> impl Iterator<Item = Value> {
    let behind = behind_reasoning(text);
    let texts = [Some(text), between_braces(text), behind, behind.and_then(between_braces)];
    texts.into_iter().flatten().filter_map(|text| Some(JsonText::parse(&escape_controls(text)).ok()?.tree()))
}

fn between_braces(text: &str) -> Option<&str> {
    let (from, to) = text.find('{').zip(text.rfind('}'))?;
    text.get(from..=to)
}

/// Returns what follows a block at the beginning such as `<think>…</think>`.
fn behind_reasoning(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let (open, close) = match text.as_bytes().first()? {
        b'<' => ('<', '>'),
        b'[' => ('[', ']'),
        _ => return None,
    };
    let (tag, rest) = text.strip_prefix(open)?.split_once(close)?;
    let (_, behind) = rest.split_once(&format!("{open}/{tag}{close}"))?;
    Some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(content: &str) -> Vec<Wish> {
        let mut reply = JsonObject::new();
        reply.set("content", JsonText::string(content));
        let mut all = Wishes::from_reply(&reply.to_text()).all;
        all.dedup();
        all
    }

    #[test]
    fn an_action_is_found_behind_reasoning_within_a_fence_and_within_words() {
        let pay = r#"{"type":"tool_call","thought":"now","tool":"pay","args":{"euros":5}}"#;
        let wanted = Wish::Tool { tool: "pay".to_owned(), args: JsonText::parse(r#"{"euros":5}"#).unwrap() };
        for text in [
            pay.to_owned(),
            format!("```json\n{pay}\n```"),
            format!("<think>{{a}} not {{b}}</think>\n```\n{pay}\n```"),
            format!("Sure: {pay} there"),
        ] {
            assert_eq!(wishes(&text), std::slice::from_ref(&wanted), "{text}");
        }
        let line_break = wishes("{\"type\":\"tool_call\",\"tool\":\"say\",\"args\":{\"text\":\"a\nb\"}}");
        assert!(matches!(line_break.as_slice(), [Wish::Tool { .. }]), "{line_break:?}");
    }

    #[test]
    fn other_forms_of_an_action_are_known_and_not_compared() {
        for text in [
            r#"{"type":"tool_call","payload":{"tool":"pay","args":{}}}"#,
            r#"{"type":"tool_call","prompt":"pay(euros=5)"}"#,
            r#"{"type":"agent_call","tool":"pay"}"#,
        ] {
            assert_eq!(wishes(text), [Wish::Repaired], "{text}");
        }
        for text in ["hello", r#"{"type":"final","content":"x"}"#, "{", "[1]", ""] {
            assert_eq!(wishes(text), [], "{text}");
        }
    }

    #[test]
    fn a_request_to_an_agent_is_compared_as_its_intent_holds_it() {
        let text = r#"{"type":"agent_call","agent":"peer","action":"tool_call","tool":"pay","args":null}"#;
        let wish = JsonText::parse(
            r#"{"type":"agent_call","agent":"peer","action":"tool_call","tool":"pay","args":{}}"#,
        );
        assert_eq!(wishes(text), [Wish::Agent(wish.unwrap().tree())]);
    }
}
