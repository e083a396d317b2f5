//! The offer of an agent's definition to a model: its instructions, its tools, and the agents that it may ask.

use proto_events::definition::{Aspect, Definition};
use proto_events::json::{JsonText, JsonValue};
use proto_events::model::{AgentCard, AgentSkill};

/// A tool as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfferedTool {
    /// The tool's name.
    pub name: String,
    /// The description of the tool.
    pub description: String,
    /// The JSON Schema of the arguments; null if any object will do.
    pub input_schema: JsonValue,
}

/// Another agent as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfferedAgent {
    /// The name by which the agent is called.
    pub name: String,
    /// The description of the agent.
    pub description: String,
    /// The names of the agent's skills, which are its tools.
    pub skills: Vec<String>,
    /// The agent as its card shows it to a model, where the definition holds its skills with their schemas.
    pub card: Option<String>,
}

/// The offer of a definition to a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// The embedder's own instructions; empty without any.
    pub instructions: String,
    /// The tools, in the order of the definition.
    pub tools: Vec<OfferedTool>,
    /// The other agents, in the order of the definition.
    pub agents: Vec<OfferedAgent>,
    /// Whether the model asks by its provider's function calls alone, so that its text is its answer.
    pub is_native: bool,
}

/// The member of a definition's parameters that says how the model asks for calls; without it, by JSON in its text.
pub const CALLS: &str = "calls";

/// The value of [`CALLS`] for a model that asks by function calls.
pub const NATIVE: &str = "native";

/// A text of a definition that is not what its aspect says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its {} is not a list of what a model can be shown", aspect.as_str())]
#[non_exhaustive]
pub struct UnreadableOffer {
    /// The aspect of the definition.
    pub aspect: Aspect,
}

impl Offer {
    /// Reads what a definition offers.
    ///
    /// # Errors
    /// [`UnreadableOffer`] if the text of tools or agents is not the JSON that a definition holds.
    pub fn from_definition(definition: &Definition) -> Result<Self, UnreadableOffer> {
        Ok(Self {
            instructions: definition.text(Aspect::SystemPrompt).to_owned(),
            tools: list(definition, Aspect::Tools, OfferedTool::from_tool)?,
            agents: list(definition, Aspect::Agents, OfferedAgent::from_agent)?,
            is_native: is_native(definition),
        })
    }
}

fn is_native(definition: &Definition) -> bool {
    let parameters = JsonText::parse(definition.text(Aspect::Parameters)).ok().map(|text| text.tree());
    parameters.is_some_and(|parameters| text(&parameters, CALLS).as_deref() == Some(NATIVE))
}

impl OfferedTool {
    fn from_tool(tool: &JsonValue) -> Option<Self> {
        let input_schema = tool.get("input_schema")?.clone();
        Some(Self { name: text(tool, "name")?, description: text(tool, "description")?, input_schema })
    }
}

impl OfferedAgent {
    fn from_agent(agent: &JsonValue) -> Option<Self> {
        let listed = agent.get("skills")?.as_array()?;
        let (name, description) = (text(agent, "name")?, text(agent, "description")?);
        // Names alone, or whole skills as they stand in a card.
        if listed.iter().any(JsonValue::is_object) {
            let skill = |skill: &JsonValue| AgentSkill::from_json(&skill.clone().into()).ok();
            let skills = listed.iter().map(skill).collect::<Option<Vec<_>>>()?;
            let names = skills.iter().map(|skill| skill.id.clone()).collect();
            let card = AgentCard { skills, ..AgentCard::new(&name, &description, "") };
            return Some(Self { name, description, skills: names, card: Some(card.get_prompt_format()) });
        }
        let skills = listed.iter().map(|skill| skill.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        Some(Self { name, description, skills, card: None })
    }
}

fn text(object: &JsonValue, key: &str) -> Option<String> {
    object.get(key).and_then(JsonValue::as_str).map(str::to_owned)
}

fn list<T>(
    definition: &Definition,
    aspect: Aspect,
    read: impl Fn(&JsonValue) -> Option<T>,
) -> Result<Vec<T>, UnreadableOffer> {
    let unreadable = || UnreadableOffer { aspect };
    let all = JsonText::parse(definition.text(aspect)).map_err(|_| unreadable())?.tree();
    let all = all.as_array().ok_or_else(unreadable)?;
    all.iter().map(|item| read(item).ok_or_else(unreadable)).collect()
}
