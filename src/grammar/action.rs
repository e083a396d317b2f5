//! The parser of a model's reply into an action, which is the next step of the infer loop.
//!
//! A reply is one JSON object (see [`parse_reply`]). Models wrap it in prose or code fences, put raw line
//! breaks into strings and use older shapes; all of that is repaired before the reply is judged.

use proto_events::id::Digest;
use proto_events::json;
use proto_events::json::{JsonMap, JsonText, JsonValue as Value};

use crate::grammar::decode::{cut, decode, decode_whole};
use crate::grammar::repair::repair;
use crate::grammar::reply_text::without_reasoning;
use crate::python::{python_json_sorted, repr};

/// The length of the prompt prefix in the signature of a question to an agent, in characters.
const SIGNATURE_PROMPT_CHARS: usize = 50;

/// Unknown fields that an error lists: what a model sent by the thousand it does not correct one by one.
const FIELD_ERRORS_MAX: usize = 20;

/// The tag of a call of another agent, and the function by which a model with native tools makes one.
pub(crate) const AGENT_CALL: &str = "agent_call";

/// The action that a model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The answer. It ends the loop.
    Final {
        /// The text of the answer, never empty.
        content: String,
    },
    /// A call of a tool of this agent.
    ToolCall {
        /// The tool's name, which may be unknown.
        tool: String,
        /// The arguments: an object, not checked yet.
        args: JsonText,
    },
    /// A call of another agent.
    AgentCall {
        /// The agent's name or address.
        agent: String,
        /// The action that the agent is asked for.
        what: AgentAction,
    },
}

/// An action that another agent is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAction {
    /// An inference.
    Infer {
        /// The prompt, never blank.
        prompt: String,
    },
    /// A call of one of the agent's tools.
    ToolCall {
        /// The tool's name.
        tool: String,
        /// The arguments, an object.
        args: JsonText,
    },
}

impl AgentAction {
    /// Returns the tag of the action in JSON: `infer` or `tool_call`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Infer { .. } => "infer",
            Self::ToolCall { .. } => "tool_call",
        }
    }
}

impl Action {
    /// Returns the tag of the action in JSON: `final`, `tool_call` or `agent_call`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Final { .. } => "final",
            Self::ToolCall { .. } => "tool_call",
            Self::AgentCall { .. } => "agent_call",
        }
    }
}

/// An action and the thought that the model gave with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The model's own words, if it gave any.
    pub thought: Option<String>,
    /// The action that the model asks for.
    pub action: Action,
}

impl Reply {
    /// Returns the reply as the JSON object that a model should have written, without absent fields.
    pub fn to_json(&self) -> Value {
        let mut fields = match &self.action {
            Action::Final { content } => json!({"type": "final", "content": content}),
            Action::ToolCall { tool, args } => {
                json!({"type": "tool_call", "tool": tool, "args": args.tree()})
            }
            Action::AgentCall { agent, what } => match what {
                AgentAction::Infer { prompt } => {
                    json!({"type": "agent_call", "agent": agent, "action": "infer", "prompt": prompt})
                }
                AgentAction::ToolCall { tool, args } => json!({
                    "type": "agent_call", "agent": agent, "action": "tool_call", "tool": tool,
                    "args": args.tree()
                }),
            },
        };
        if let (Some(thought), Some(fields)) = (&self.thought, fields.as_object_mut()) {
            fields.insert("thought".to_owned(), json!(thought));
        }
        fields
    }
}

/// The reason why a reply is not an action. Its text is sent to the model, one line for each wrong field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// The reply contains no JSON.
    #[error("Invalid JSON: {reason}\nRaw response: {raw}")]
    Json {
        /// The fault and its place in the text.
        reason: String,
        /// The reply, truncated if it is long.
        raw: String,
    },
    /// The JSON is not an action.
    #[error("Action validation failed. Field-level errors:\n  - {}\nParsed data: {data}", .fields.join("\n  - "))]
    Fields {
        /// The faults, one entry for each field.
        fields: Vec<String>,
        /// The data as Python prints it, truncated if it is long.
        data: String,
    },
}

/// Parses a model's reply. `local_tools` are this agent's tools, `agents` the other agents with their skills;
/// both are used only to repair a reply that does not name its target.
///
/// # Errors
/// `ActionError` with the text for the model.
pub fn parse_action(
    raw: &str,
    local_tools: &[&str],
    agents: &[(String, Vec<String>)],
) -> Result<Action, ActionError> {
    parse_reply(raw, local_tools, agents).map(|reply| reply.action)
}

/// Parses a model's reply, as [`parse_action`] does, and keeps the model's `thought`.
///
/// # Errors
/// `ActionError` with the text for the model.
pub fn parse_reply(
    raw: &str,
    local_tools: &[&str],
    agents: &[(String, Vec<String>)],
) -> Result<Reply, ActionError> {
    judge(decode(raw), raw, local_tools, agents)
}

/// Parses a reply that is one JSON object as a whole. Reasoning at its beginning and a code fence around all of the rest are
/// taken off; an action among other words is not one that the model asks for.
///
/// # Errors
/// `ActionError` with the text for the model.
pub(crate) fn parse_whole_reply(
    raw: &str,
    local_tools: &[&str],
    agents: &[(String, Vec<String>)],
) -> Result<Reply, ActionError> {
    let said = without_reasoning(raw);
    judge(decode_whole(said), said, local_tools, agents)
}

/// Parses the arguments of a native call of [`AGENT_CALL`].
///
/// # Errors
/// `ActionError` with the text for the model.
pub(crate) fn parse_agent_call(
    args: &JsonText,
    agents: &[(String, Vec<String>)],
) -> Result<Reply, ActionError> {
    let mut data = args.tree();
    if let Value::Object(fields) = &mut data {
        fields.insert("type".to_owned(), json!(AGENT_CALL));
    }
    judge(Ok(data), args.as_str(), &[], agents)
}

fn judge(
    decoded: Result<Value, String>,
    raw: &str,
    local_tools: &[&str],
    agents: &[(String, Vec<String>)],
) -> Result<Reply, ActionError> {
    let mut data = decoded.map_err(|reason| ActionError::Json { reason, raw: cut(raw) })?;
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
    let mut form = ActionForm::new(fields);
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

fn read_final(form: &mut ActionForm<'_>) -> Option<Action> {
    form.only(&["content"]);
    let content = form.text("content");
    Some(Action::Final { content: content? })
}

fn read_tool_call(form: &mut ActionForm<'_>) -> Option<Action> {
    form.only(&["tool", "args"]);
    let tool = form.text("tool");
    let args =
        if form.fields.contains_key("args") { form.object("args") } else { Some(JsonText::empty_object()) };
    Some(Action::ToolCall { tool: tool?, args: args? })
}

fn read_agent_call(form: &mut ActionForm<'_>) -> Option<Action> {
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

fn read_agent_infer(form: &mut ActionForm<'_>) -> Option<AgentAction> {
    form.forbid(&["tool", "args"], "infer");
    let prompt = form.optional_text("prompt").filter(|prompt| !prompt.trim().is_empty());
    if prompt.is_none() {
        form.error("prompt", "is required when action is 'infer'");
    }
    Some(AgentAction::Infer { prompt: prompt? })
}

fn read_agent_tool_call(form: &mut ActionForm<'_>) -> Option<AgentAction> {
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

/// A JSON object being read, with the errors found so far.
struct ActionForm<'a> {
    fields: &'a JsonMap,
    errors: FieldErrors,
}

impl<'a> ActionForm<'a> {
    fn new(fields: &'a JsonMap) -> Self {
        let errors = Vec::new();
        Self { fields, errors }
    }

    fn error(&mut self, field: &str, what: &str) {
        self.errors.push(format!("Field '{field}': {what}"));
    }

    fn only(&mut self, known: &[&str]) {
        let extra =
            |key: &&String| !matches!(key.as_str(), "type" | "thought") && !known.contains(&key.as_str());
        let mut extra = self.fields.keys().filter(extra);
        for key in extra.by_ref().take(FIELD_ERRORS_MAX) {
            self.errors.push(format!("Field '{}': Extra inputs are not permitted", cut(key)));
        }
        let more = extra.count();
        if more > 0 {
            self.errors.push(format!("… and {more} more fields"));
        }
    }

    fn forbid(&mut self, names: &[&str], action: &str) {
        for name in names {
            if self.fields.get(name).is_some_and(|value| !value.is_null()) {
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

/// Returns the text by which the duplicate guard compares actions: equal actions have equal signatures.
pub fn signature(action: &Action) -> String {
    match action {
        Action::Final { content } => {
            let digest = Digest::compute(content.as_bytes());
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

fn canonical(args: &JsonText) -> String {
    python_json_sorted(&args.tree())
}
