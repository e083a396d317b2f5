//! The texts by which a model is shown the card of another agent.

use std::fmt::Write as _;

use crate::json::{JsonMap, JsonValue};
use crate::model::card::agent_card::AgentCard;
use crate::model::card::skill::AgentSkill;
use crate::model::python;
use crate::model::python_json::{Style, written};

impl AgentCard {
    /// Returns the card as Protolink 0.6.4 shows it to a model: name and description, then each skill with its
    /// schemas as Python prints them.
    pub fn get_prompt_format(&self) -> String {
        let (name, description) = (&self.name, &self.description);
        let mut text =
            format!("\n            name: {name},\n            description: {description},\n        ");
        if !self.skills.is_empty() {
            text.push_str("\ntools:\n");
        }
        for skill in &self.skills {
            // Writing to a `String` cannot fail.
            let _ = write!(
                text,
                "\n                    \"name\": {},\n                    \"description\": {},\
                 \n                    \"input_schema\": {}\n                    \"output_schema\": {}\
                 \n                    \"examples\": {}\n                    \n\n                ",
                skill.id,
                skill.description,
                python::repr_of(&skill.input_schema),
                python::repr_of(&skill.output_schema),
                python::repr(&JsonValue::Array(examples(skill))),
            );
        }
        text
    }

    /// Returns the card as Protolink shows it to a model from 0.6.8 on: indented JSON with sorted keys, the skills
    /// sorted by their names.
    pub fn get_prompt_json(&self) -> String {
        let mut skills: Vec<&AgentSkill> = self.skills.iter().collect();
        skills.sort_by(|left, right| left.id.cmp(&right.id));
        let text = |text: &str| JsonValue::String(text.to_owned());
        let tool = |skill: &AgentSkill| {
            let members = [
                ("name", text(&skill.id)),
                ("description", text(&skill.description)),
                ("input_schema", skill.input_schema.tree()),
                ("output_schema", skill.output_schema.tree()),
                ("examples", JsonValue::Array(examples(skill))),
            ];
            JsonValue::Object(JsonMap::from_iter(members))
        };
        let members = [
            ("name", text(&self.name)),
            ("description", text(&self.description)),
            ("capabilities", self.capabilities.to_json().tree()),
            ("tools", JsonValue::Array(skills.into_iter().map(tool).collect())),
        ];
        let style = Style { unicode: true, indented: true, sorted: true };
        written(&JsonValue::Object(JsonMap::from_iter(members)), style)
    }
}

fn examples(skill: &AgentSkill) -> Vec<JsonValue> {
    skill.examples.iter().map(crate::json::JsonText::tree).collect()
}
