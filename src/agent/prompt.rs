//! Everything that is said to a model, and the words with which a run ends when the loop fails.
//!
//! The system prompt is our own text; the notes are Protolink's, word for word, because models and clients
//! are used to them. All of it is a pure function of its arguments, so that an auditor can render a prompt
//! again and compare digests. A change of any text here raises [`RENDERER_VERSION`].

use proto_events::json::JsonText;
use proto_events::limits::INFER_STEPS_MAX;
use serde_json::{Value, json};

use super::python::{list_repr, python_json};
use super::registry::ToolSpec;

/// A call whose outcome was unknown took effect, as a person found out.
pub fn landed(tool: &str, result: &JsonText) -> String {
    format!(
        "The call to '{tool}' whose outcome was unknown has been looked into: it took effect. Do not make it again. {}",
        tool_result(tool, result)
    )
}

/// A call whose outcome was unknown did not take effect.
pub fn did_not_happen(tool: &str) -> String {
    format!(
        "The call to '{tool}' whose outcome was unknown has been looked into: it did not happen. Make it again if it is \
         still needed."
    )
}

/// Nobody looks any further what became of a call.
pub fn abandoned(tool: &str, reason: &str) -> String {
    format!(
        "The outcome of the call to '{tool}' stays unknown ({reason}). Do not make it again, and do not rely on it."
    )
}

/// Version of the texts in this file. Recorded with every inference.
pub const RENDERER_VERSION: u16 = 1;

/// Replies in a row that may fail to be read before the run ends.
pub const PARSE_ATTEMPTS_MAX: u32 = 3;

/// What a caller who wants only the last output gets from a run that left none.
pub const NO_RESPONSE: &str = "No response generated";

const OUTCOME_UNKNOWN: &str =
    "outcome unknown: the call may or may not have had its effect; do not repeat it";

/// What a task with an `infer` part is told by an agent that has no model.
pub const NO_MODEL: &str = "Agent has no LLM but received a infer instruction";

/// Another agent, as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentLine {
    /// The name by which it is called.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Names of its skills, which are its tools.
    pub skills: Vec<String>,
}

/// What a system prompt is made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct PromptParts<'a> {
    /// This agent's tools.
    pub tools: &'a [&'a ToolSpec],
    /// The agents that may be asked; empty if delegation is off.
    pub agents: &'a [AgentLine],
    /// The embedder's own instructions.
    pub user_prompt: Option<&'a str>,
    /// What the flow says about the next step.
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

/// The system prompt for these parts. Equal parts give equal texts.
pub fn system_prompt(parts: &PromptParts<'_>) -> String {
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

/// The leading system message of a part that asks for structured output. Stands in the intent by its schema, so that
/// the text of a part without one is what it was.
pub fn with_output_schema(system: &str, schema: &JsonText) -> String {
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

/// A tool's result.
pub fn tool_result(tool: &str, result: &JsonText) -> String {
    python_json(&json!({"type": "tool_result", "tool": tool, "result": result.to_value()}))
}

/// The model named a tool that is not there.
pub fn unknown_tool(tool: &str, available: &[&str]) -> String {
    format!("Unknown tool: '{tool}'. Available tools: {}", list_repr(available))
}

/// The arguments did not suit: refused by the schema, by the tool's type, or by the tool itself.
pub fn argument_error(tool: &str, error: &str) -> String {
    format!(
        "Tool '{tool}' call failed due to argument error: {error}. Please check the tool's input_schema and try again."
    )
}

/// The model asked for what it has already done. `kind` is the action's type.
pub fn already_done(kind: &str) -> String {
    format!(
        "You have already performed this action: {kind}. The result is in your context. Please proceed with your \
         task - either produce a 'final' response or take a different action."
    )
}

/// The reply was no action.
pub fn unreadable_reply(error: &str) -> String {
    format!(
        "Your previous response could not be parsed or validated. Error:\n{error}\n\
         Return exactly one JSON action object, for example:\n\
         {{\"type\":\"final\",\"content\":\"...\"}}\n\
         {{\"type\":\"tool_call\",\"tool\":\"tool_name\",\"args\":{{}}}}\n\
         {{\"type\":\"agent_call\",\"agent\":\"agent_name\",\"action\":\"infer\",\"prompt\":\"...\"}}\n\
         {{\"type\":\"agent_call\",\"agent\":\"agent_name\",\"action\":\"tool_call\",\"tool\":\"tool_name\",\"args\":{{}}}}"
    )
}

/// The answer does not fit the schema that was asked for.
pub fn output_refused(error: &str, schema: &JsonText) -> String {
    format!(
        "Your previous response does not fit the output schema. Error:\n{error}\n\
         Answer once more, with content that is JSON and fits this JSON Schema:\n{}",
        schema.as_str()
    )
}

/// Ends the run: the answer did not fit, the model was told, and the next one did not fit either.
pub fn fatal_output(error: &str) -> String {
    format!("The final answer does not fit the output schema, after it was asked for once more: {error}")
}

/// Ends the run before the model is asked: the part's schema is of no use.
pub fn fatal_schema(error: &str) -> String {
    format!("The output schema cannot be used: {error}")
}

/// The model asked another agent though delegation is off.
pub fn delegation_off() -> &'static str {
    "agent_call is not available in this context. Please use 'tool_call' for local tools or produce a 'final' response."
}

/// Another agent's answer. `action` is what it was asked for: `infer` or `tool_call`.
pub fn agent_result(agent: &str, action: &str, result: &JsonText) -> String {
    let result = result.to_value();
    python_json(&json!({"type": "agent_result", "agent": agent, "action": action, "result": result}))
}

/// Another agent could not be asked, and the model may try something else.
pub fn agent_failed(error: &str) -> String {
    format!("Agent call failed: {error}")
}

/// The model asked an agent that is not there.
pub fn agent_not_found(agent: &str) -> String {
    format!("Agent '{agent}' not found in registry.")
}

/// The model asked its own agent.
pub fn self_delegation(own: &str) -> String {
    format!("Self-delegation is not allowed. You are '{own}' and cannot delegate tasks to yourself.")
}

/// The model asked an agent whose own run waits for this one. Our own text: Protolink would wait for ever.
pub fn circular_delegation(agent: &str, chain: &[String]) -> String {
    let chain = chain.join(" > ");
    format!("Agent '{agent}' waits for this run itself ({chain}) and cannot be asked within it.")
}

/// What stands in a conversation for the answer of an agent that nobody knows, until somebody decides.
pub fn agent_outcome_unknown(agent: &str, action: &str) -> String {
    let result = json!({"type": "agent_result", "agent": agent, "action": action, "result": Value::Null,
        "error": OUTCOME_UNKNOWN});
    python_json(&result)
}

/// What stands in a conversation for a call whose outcome is not known, until somebody decides.
pub fn outcome_unknown(tool: &str) -> String {
    let error = OUTCOME_UNKNOWN;
    python_json(&json!({"type": "tool_result", "tool": tool, "result": Value::Null, "error": error}))
}

/// Ends the run: a tool inside the loop failed.
pub fn fatal_tool(tool: &str, error: &str) -> String {
    format!("Tool '{tool}' execution failed: {error}")
}

/// Ends the run: another agent was asked and broke, or could not be reached.
pub fn fatal_agent(agent: &str, error: &str) -> String {
    format!("Agent call to '{agent}' failed: {error}")
}

/// Ends the run: the model could not be asked. Steps count from 1.
pub fn fatal_model(step: u32, error: &str) -> String {
    format!("LLM call failed at step {step}: {error}")
}

/// Ends the run: [`PARSE_ATTEMPTS_MAX`] replies in a row were no actions.
pub fn fatal_unreadable(last_error: &str) -> String {
    format!(
        "Failed to parse LLM output after {PARSE_ATTEMPTS_MAX} consecutive attempts. Last error: {last_error}"
    )
}

/// Ends the run: no answer within the step limit.
pub fn fatal_steps() -> String {
    format!(
        "Maximum inference steps ({INFER_STEPS_MAX}) exceeded without producing final response. The LLM may be \
         stuck in a loop. Consider simplifying the task or checking prompts."
    )
}

/// The error of an explicit `tool_call` part whose tool is not there.
pub fn tool_not_found(tool: &str) -> String {
    format!("Tool '{tool}' not found")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::agent::action::{Action, parse_action};
    use crate::agent::policy::ToolPolicy;

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

    #[test]
    fn a_result_is_json_as_python_writes_it_with_its_numbers_as_they_were() {
        let result =
            JsonText::parse(r#"{"city":"Zürich","temp":20.50,"big":1180591620717411303424}"#).unwrap();
        assert_eq!(
            tool_result("lookup", &result),
            r#"{"type": "tool_result", "tool": "lookup", "result": {"city": "Z\u00fcrich", "temp": 20.50, "big": 1180591620717411303424}}"#
        );
    }

    #[test]
    fn the_notes_say_what_protolink_says() {
        assert_eq!(unknown_tool("nope", &["add"]), "Unknown tool: 'nope'. Available tools: ['add']");
        assert_eq!(
            argument_error("typefail", "bad arg"),
            "Tool 'typefail' call failed due to argument error: bad arg. Please check the tool's input_schema and try again."
        );
        let action = Action::Final { content: "x".to_owned() };
        assert_eq!(
            already_done(action.kind()),
            "You have already performed this action: final. The result is in your context. Please proceed with your task - either produce a 'final' response or take a different action."
        );
        assert_eq!(
            unreadable_reply("odd"),
            "Your previous response could not be parsed or validated. Error:\nodd\nReturn exactly one JSON action object, for example:\n{\"type\":\"final\",\"content\":\"...\"}\n{\"type\":\"tool_call\",\"tool\":\"tool_name\",\"args\":{}}\n{\"type\":\"agent_call\",\"agent\":\"agent_name\",\"action\":\"infer\",\"prompt\":\"...\"}\n{\"type\":\"agent_call\",\"agent\":\"agent_name\",\"action\":\"tool_call\",\"tool\":\"tool_name\",\"args\":{}}"
        );
        assert_eq!(fatal_model(1, "model down"), "LLM call failed at step 1: model down");
        assert_eq!(
            fatal_unreadable("e"),
            "Failed to parse LLM output after 3 consecutive attempts. Last error: e"
        );
        assert_eq!(
            fatal_steps(),
            "Maximum inference steps (10) exceeded without producing final response. The LLM may be stuck in a loop. Consider simplifying the task or checking prompts."
        );
    }
}
