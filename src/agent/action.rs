//! One reply of a model, read as an action: what the infer loop does next.
//!
//! A reply is one JSON object (see [`parse_reply`]); models wrap it in prose or code fences, put raw line
//! breaks into strings, and use older shapes, and all of that is mended before it is judged.

use proto_events::id::Digest;
use proto_events::json::JsonText;
use serde_json::{Map, Value, json};

use super::decode::{cut, decode};
use super::python::{python_json_sorted, repr};
use super::repair::repair;

/// How much of a prompt tells one question to an agent from another, in characters.
const SIGNATURE_PROMPT_CHARS: usize = 50;

/// What a model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The answer. Ends the loop.
    Final {
        /// Never empty.
        content: String,
    },
    /// A tool of this agent.
    ToolCall {
        /// Its name, which may be unknown.
        tool: String,
        /// An object, not checked yet.
        args: JsonText,
    },
    /// Another agent.
    AgentCall {
        /// Its name or address.
        agent: String,
        /// What it is asked for.
        what: AgentAction,
    },
}

/// What another agent is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAction {
    /// An answer.
    Infer {
        /// Never blank.
        prompt: String,
    },
    /// One of its tools.
    ToolCall {
        /// The tool's name.
        tool: String,
        /// An object.
        args: JsonText,
    },
}

impl AgentAction {
    /// `infer` or `tool_call`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Infer { .. } => "infer",
            Self::ToolCall { .. } => "tool_call",
        }
    }
}

impl Action {
    /// `final`, `tool_call` or `agent_call`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Final { .. } => "final",
            Self::ToolCall { .. } => "tool_call",
            Self::AgentCall { .. } => "agent_call",
        }
    }
}

/// An action and what the model said it was thinking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The model's own words, if it gave any.
    pub thought: Option<String>,
    /// What it asks for.
    pub action: Action,
}

impl Reply {
    /// As the JSON object that a model should have written, absent fields left out.
    pub fn to_json(&self) -> Value {
        let mut fields = match &self.action {
            Action::Final { content } => json!({"type": "final", "content": content}),
            Action::ToolCall { tool, args } => {
                json!({"type": "tool_call", "tool": tool, "args": args.to_value()})
            }
            Action::AgentCall { agent, what } => match what {
                AgentAction::Infer { prompt } => {
                    json!({"type": "agent_call", "agent": agent, "action": "infer", "prompt": prompt})
                }
                AgentAction::ToolCall { tool, args } => json!({
                    "type": "agent_call", "agent": agent, "action": "tool_call", "tool": tool,
                    "args": args.to_value()
                }),
            },
        };
        if let (Some(thought), Some(fields)) = (&self.thought, fields.as_object_mut()) {
            fields.insert("thought".to_owned(), json!(thought));
        }
        fields
    }
}

/// Why a reply is no action. The text is what the model is told, one line for each wrong field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// There is no JSON in it.
    #[error("Invalid JSON: {reason}\nRaw response: {raw}")]
    Json {
        /// What is wrong, and where.
        reason: String,
        /// The reply, cut short if it is long.
        raw: String,
    },
    /// The JSON is no action.
    #[error("Action validation failed. Field-level errors:\n  - {}\nParsed data: {data}", .fields.join("\n  - "))]
    Fields {
        /// What is wrong, one entry for each field.
        fields: Vec<String>,
        /// The data, as Python prints it, cut short if it is long.
        data: String,
    },
}

/// Reads a model's reply. `local_tools` are this agent's tools, `agents` the others with their skills; both
/// only help to mend a reply that leaves out whom it means.
///
/// # Errors
/// [`ActionError`] with the words for the model.
pub fn parse_action(
    raw: &str,
    local_tools: &[&str],
    agents: &[(String, Vec<String>)],
) -> Result<Action, ActionError> {
    parse_reply(raw, local_tools, agents).map(|reply| reply.action)
}

/// [`parse_action`] together with the model's `thought`.
///
/// # Errors
/// [`ActionError`] with the words for the model.
pub fn parse_reply(
    raw: &str,
    local_tools: &[&str],
    agents: &[(String, Vec<String>)],
) -> Result<Reply, ActionError> {
    let mut data = decode(raw).map_err(|reason| ActionError::Json { reason, raw: cut(raw) })?;
    if let Value::Object(fields) = &mut data {
        repair(fields, local_tools, agents);
    }
    read(&data).map_err(|fields| ActionError::Fields { fields, data: cut(&repr(&data)) })
}

type FieldErrors = Vec<String>;

fn read(data: &Value) -> Result<Reply, FieldErrors> {
    let Value::Object(fields) = data else {
        return Err(vec!["The reply must be one JSON object".to_owned()]);
    };
    let tags = "'final', 'tool_call' or 'agent_call'";
    let kind = match fields.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(other) => {
            return Err(vec![format!("Field 'type': must be {tags}, not {}", cut(&repr(other)))]);
        }
        None => return Err(vec![format!("Field 'type': Field required, one of {tags}")]),
    };
    let mut form = Form::new(fields);
    let thought = form.optional_text("thought");
    let action = match kind {
        "final" => read_final(&mut form),
        "tool_call" => read_tool_call(&mut form),
        "agent_call" => read_agent_call(&mut form),
        _ => return Err(vec![format!("Field 'type': must be {tags}, not '{}'", cut(kind))]),
    };
    match action {
        Some(action) if form.errors.is_empty() => Ok(Reply { thought, action }),
        _ => Err(form.errors),
    }
}

fn read_final(form: &mut Form<'_>) -> Option<Action> {
    form.only(&["content"]);
    let content = form.text("content");
    Some(Action::Final { content: content? })
}

fn read_tool_call(form: &mut Form<'_>) -> Option<Action> {
    form.only(&["tool", "args"]);
    let tool = form.text("tool");
    let args =
        if form.fields.contains_key("args") { form.object("args") } else { Some(JsonText::empty_object()) };
    Some(Action::ToolCall { tool: tool?, args: args? })
}

fn read_agent_call(form: &mut Form<'_>) -> Option<Action> {
    form.only(&["agent", "action", "tool", "args", "prompt"]);
    let agent = form.text("agent");
    let action = form.text("action");
    let what = match action.as_deref() {
        Some("infer") => read_agent_infer(form),
        Some("tool_call") => read_agent_tool_call(form),
        Some(_) => {
            form.error("action", "must be 'tool_call' or 'infer'");
            None
        }
        None => None,
    };
    Some(Action::AgentCall { agent: agent?, what: what? })
}

fn read_agent_infer(form: &mut Form<'_>) -> Option<AgentAction> {
    form.forbid(&["tool", "args"], "infer");
    let prompt = form.optional_text("prompt").filter(|prompt| !prompt.trim().is_empty());
    if prompt.is_none() {
        form.error("prompt", "is required when action is 'infer'");
    }
    Some(AgentAction::Infer { prompt: prompt? })
}

fn read_agent_tool_call(form: &mut Form<'_>) -> Option<AgentAction> {
    form.forbid(&["prompt"], "tool_call");
    let tool = form.optional_text("tool").filter(|tool| !tool.is_empty());
    if tool.is_none() {
        form.error("tool", "is required when action is 'tool_call'");
    }
    let args = match form.fields.get("args") {
        None | Some(Value::Null) => Some(JsonText::empty_object()),
        Some(_) => form.object("args"),
    };
    Some(AgentAction::ToolCall { tool: tool?, args: args? })
}

/// A JSON object being read, with all that is wrong with it so far.
struct Form<'a> {
    fields: &'a Map<String, Value>,
    errors: FieldErrors,
}

impl<'a> Form<'a> {
    fn new(fields: &'a Map<String, Value>) -> Self {
        let errors = Vec::new();
        Self { fields, errors }
    }

    fn error(&mut self, field: &str, what: &str) {
        self.errors.push(format!("Field '{field}': {what}"));
    }

    fn only(&mut self, known: &[&str]) {
        let extra =
            |key: &&String| !matches!(key.as_str(), "type" | "thought") && !known.contains(&key.as_str());
        for key in self.fields.keys().filter(extra) {
            self.errors.push(format!("Field '{}': Extra inputs are not permitted", cut(key)));
        }
    }

    fn forbid(&mut self, names: &[&str], action: &str) {
        for name in names {
            if self.fields.get(*name).is_some_and(|value| !value.is_null()) {
                self.error(name, &format!("is not allowed when action is '{action}'"));
            }
        }
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.fields.get(name) {
            Some(Value::String(text)) if text.is_empty() => {
                self.error(name, "must have at least 1 character");
            }
            Some(Value::String(text)) => return Some(text.clone()),
            Some(_) => self.error(name, "must be a string"),
            None => self.error(name, "Field required"),
        }
        None
    }

    fn optional_text(&mut self, name: &str) -> Option<String> {
        match self.fields.get(name) {
            Some(Value::String(text)) => return Some(text.clone()),
            None | Some(Value::Null) => {}
            Some(_) => self.error(name, "must be a string"),
        }
        None
    }

    fn object(&mut self, name: &str) -> Option<JsonText> {
        if let Some(value @ Value::Object(_)) = self.fields.get(name) {
            return Some(JsonText::from(value.clone()));
        }
        self.error(name, "must be an object");
        None
    }
}

/// What makes two actions the same to the duplicate guard, which compares with the newest
/// [`SIGNATURES_KEPT`] signatures.
pub fn signature(action: &Action) -> String {
    match action {
        Action::Final { content } => {
            let digest = Digest::of(content.as_bytes());
            format!("final:{digest}")
        }
        Action::ToolCall { tool, args } => format!("tool_call:{tool}:{}", canonical(args)),
        Action::AgentCall { agent, what } => match what {
            AgentAction::Infer { prompt } => {
                let start: String = prompt.chars().take(SIGNATURE_PROMPT_CHARS).collect();
                format!("agent_call:{agent}:infer:{start}")
            }
            AgentAction::ToolCall { tool, args } => {
                format!("agent_call:{agent}:tool_call:{tool}:{}", canonical(args))
            }
        },
    }
}

/// How many signatures the duplicate guard remembers, newest last.
pub const SIGNATURES_KEPT: usize = 5;

fn canonical(args: &JsonText) -> String {
    python_json_sorted(&args.to_value())
}
