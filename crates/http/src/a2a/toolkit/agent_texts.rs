//! Agents as a model is shown them: by four degrees of detail, never an address or a header, and never more than a bound.

use proto_events::json::{JsonMap, JsonText, JsonValue as Value};

use crate::a2a::client::card::Card;
use crate::a2a::toolkit::words::{beginning, quoted};

/// The most characters of a description where there is room.
const DESCRIPTION_MAX: usize = 5_000;

/// The characters of a description that are always shown.
const DESCRIPTION_LEAST: usize = 200;

/// The characters of all descriptions of a list, and of all skills of an agent.
const ALL_MAX: usize = 50_000;

/// The degree of detail in which a model is shown an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AgentDetail {
    /// The name.
    Name,
    /// The name and the description.
    #[default]
    Basic,
    /// Name, description and the names of the skills.
    Skills,
    /// Name, description and the skills with theirs.
    Full,
}

impl AgentDetail {
    /// Returns the degree of this name; of any other name the fullest, as in a2a-utils.
    pub fn of_name(name: &str) -> Self {
        match name {
            "name" => Self::Name,
            "basic" => Self::Basic,
            "skills" => Self::Skills,
            _ => Self::Full,
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    let shown = beginning(text, most);
    if shown.len() == text.len() {
        return text.to_owned();
    }
    format!("{shown}... [{} more chars]", text.chars().count().saturating_sub(most))
}

/// Returns an agent as a model is shown it, one of so many.
pub(crate) fn agent(card: &Card, detail: AgentDetail, of: usize) -> Value {
    let most = (ALL_MAX / of.max(1)).clamp(DESCRIPTION_LEAST, DESCRIPTION_MAX);
    let mut shown = JsonMap::new();
    shown.insert("name", quoted(&card.name).into());
    if detail != AgentDetail::Name {
        shown.insert("description", cut(&card.description, most).into());
    }
    if matches!(detail, AgentDetail::Skills | AgentDetail::Full) {
        let (skills, left_out) = skills(card, detail, most);
        shown.insert("skills", skills.into());
        if left_out > 0 {
            shown.insert("_skills_left_out", left_out.into());
        }
    }
    shown.into()
}

/// Returns the skills for which there is room, and the number of the others. A skill without a name does not count.
fn skills(card: &Card, detail: AgentDetail, most: usize) -> (Vec<Value>, usize) {
    let fields: proto_events::json::JsonObject = card.json.read().unwrap_or_default();
    let all: Vec<JsonText> = fields.get("skills").and_then(|skills| skills.read().ok()).unwrap_or_default();
    let (mut shown, mut left_out, mut characters) = (Vec::new(), 0_usize, 0_usize);
    for skill in &all {
        let skill: proto_events::json::JsonObject = skill.read().unwrap_or_default();
        let text = |name: &str| skill.get(name).and_then(JsonText::to_str);
        let Some(name) = text("name") else { continue };
        let (name, description) = (quoted(&name), cut(&text("description").unwrap_or_default(), most));
        characters += name.chars().count() + 30;
        if detail == AgentDetail::Full {
            characters += description.chars().count();
        }
        if characters > ALL_MAX {
            left_out += 1;
        } else if detail == AgentDetail::Full {
            shown.push(
                JsonMap::from_iter([("name", name.into()), ("description", Value::from(description))]).into(),
            );
        } else {
            shown.push(name.into());
        }
    }
    (shown, left_out)
}
