//! The texts sent to a model, and the errors with which a run ends when the loop fails.
//!
//! The system prompt is our own text; the notes are Protolink's, word for word, because models and clients
//! expect them. Every text is a pure function of its arguments, so that an auditor can render a prompt again
//! and compare digests. A change of any text here raises [`RENDERER_VERSION`](taskreel_log::shown::RENDERER_VERSION).

use proto_events::json;
use proto_events::json::JsonText;

use crate::agent::peer::AgentLine;
use crate::tools::registry::ToolSpec;

/// The parts of a system prompt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PromptParts<'a> {
    /// The tools of this agent.
    ///
    pub tools: &'a [&'a ToolSpec],
    /// The agents that may be called; empty if delegation is off.
    pub agents: &'a [AgentLine],
    /// The embedder's own instructions.
    pub user_prompt: Option<&'a str>,
    /// The hint of the flow about the next step.
    pub flow_hint: Option<&'a str>,
}

const RULES: &str =
    "You are an agent that works in steps. In each step you reply with exactly one JSON object and \
nothing around it: no prose, no code fence.

Reply with one of these:
{\"type\":\"final\",\"content\":\"...\"}
  ends the work; content is your answer and is not empty.";

const RULE_TOOL: &str = "{\"type\":\"tool_call\",\"tool\":\"tool_name\",\"args\":{}}
  calls one of the tools below; args is an object that fits the tool's input_schema.";

const RULE_AGENT: &str =
    "{\"type\":\"agent_call\",\"agent\":\"agent_name\",\"action\":\"infer\",\"prompt\":\"...\"}
  asks one of the agents below.
{\"type\":\"agent_call\",\"agent\":\"agent_name\",\"action\":\"tool_call\",\"tool\":\"tool_name\",\"args\":{}}
  has one of those agents call one of its skills.";

const RULES_END: &str = "An object may also have \"thought\", a short text that nobody else reads. Other keys are not \
allowed. Results come back as system messages; read them before you go on, and do not repeat an action whose \
result you have.";

/// Returns the system prompt for these parts. Equal parts give equal texts.
pub(crate) fn system_prompt(parts: &PromptParts<'_>) -> String {
    let mut sections = vec![RULES.to_owned()];
    if !parts.tools.is_empty() {
        sections.push(RULE_TOOL.to_owned());
    }
    if !parts.agents.is_empty() {
        sections.push(RULE_AGENT.to_owned());
    }
    let rules = sections.join("\n");
    let mut sections = vec![rules, RULES_END.to_owned()];
    if !parts.tools.is_empty() {
        let lines: Vec<String> = parts.tools.iter().map(|tool| tool_line(tool)).collect();
        sections.push(format!("Tools, one a line:\n{}", lines.join("\n")));
    }
    if !parts.agents.is_empty() {
        let lines: Vec<String> = parts.agents.iter().map(agent_line).collect();
        sections.push(format!("Agents, one a line:\n{}", lines.join("\n")));
    }
    let given = [parts.user_prompt, parts.flow_hint];
    let given = given.into_iter().flatten().filter(|text| !text.trim().is_empty());
    sections.extend(given.map(str::to_owned));
    sections.join("\n\n")
}

/// Returns the leading system message of a part that asks for structured output. The intent names the schema
/// separately, so the text of a part without one is unchanged.
pub(crate) fn with_output_schema(system: &str, schema: &JsonText) -> String {
    format!(
        "{system}\n\nThis time the content of your final answer is JSON that fits this JSON Schema, and nothing else:\n{}",
        schema.as_str()
    )
}

fn tool_line(tool: &ToolSpec) -> String {
    json!({
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.schema().cloned().unwrap_or_else(|| json!({"type": "object"})),
    })
    .to_string()
}

fn agent_line(agent: &AgentLine) -> String {
    json!({"name": agent.name, "description": agent.description, "skills": agent.skills}).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::grammar::action::parse_action;
    use crate::run::notes::unreadable_reply;
    use crate::tools::policy::ToolPolicy;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "add".to_owned(),
            description: "Adds \"two\" numbers".to_owned(),
            input_schema: Arc::new(json!({"type": "object", "properties": {"a": {"type": "integer"}}})),
            policy: ToolPolicy::read_only(),
        }
    }

    #[test]
    fn the_prompt_names_what_is_there_and_nothing_else() {
        let bare = system_prompt(&PromptParts::default());
        assert!(
            bare.contains("\"type\":\"final\"")
                && !bare.contains("tool_call")
                && !bare.contains("agent_call")
        );
        let spec = spec();
        let agents = [AgentLine {
            name: "w".to_owned(),
            description: "weather".to_owned(),
            skills: vec!["get_weather".to_owned()],
        }];
        let parts = PromptParts {
            tools: &[&spec],
            agents: &agents,
            user_prompt: Some("Be brief."),
            flow_hint: Some("final step"),
        };
        let full = system_prompt(&parts);
        for text in [
            r#"{"name":"add","description":"Adds \"two\" numbers","input_schema":{"type":"object","properties":{"a":{"type":"integer"}}}}"#,
            r#"{"name":"w","description":"weather","skills":["get_weather"]}"#,
            "agent_call",
        ] {
            assert!(full.contains(text), "{full}");
        }
        assert!(full.ends_with("Be brief.\n\nfinal step"));
        assert_eq!(full, system_prompt(&parts));
    }

    #[test]
    fn every_example_that_a_model_is_given_is_an_action() {
        let shown = system_prompt(&PromptParts {
            tools: &[&spec()],
            agents: &[AgentLine { name: "w".to_owned(), description: String::new(), skills: Vec::new() }],
            ..PromptParts::default()
        });
        for text in [shown, unreadable_reply("x")] {
            let examples: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"type\"")).collect();
            assert_eq!(examples.len(), 4, "{text}");
            for example in examples {
                assert!(parse_action(example, &[], &[]).is_ok(), "{example}");
            }
        }
    }
}
