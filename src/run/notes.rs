//! Every sentence that the loop says to a model or a person besides the system prompt and the question about an approval. A change of
//! any text here raises [`RENDERER_VERSION`](taskreel_log::shown::RENDERER_VERSION).

use proto_events::envelope::Timestamp;
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::task::{AgentChange, ApprovalDecided};
use taskreel_log::context::ContextError;

use crate::agent::loop_rules::LoopRules;
use crate::python::{list_repr, python_json};
use crate::tools::texts::short;

/// Returns the note that a call of unknown outcome took effect, as a person found out. Its result follows as a note of its
/// own.
pub(crate) fn landed(tool: &str) -> String {
    format!(
        "The call to '{tool}' whose outcome was unknown has been looked into: it took effect. Do not make it again."
    )
}

/// Returns the note that a call of unknown outcome did not take effect.
pub(crate) fn did_not_happen(tool: &str) -> String {
    format!(
        "The call to '{tool}' whose outcome was unknown has been looked into: it did not happen. Make it again if it is \
         still needed."
    )
}

/// Returns the note that the outcome of a call stays unknown and is no longer investigated.
pub(crate) fn abandoned(tool: &str, reason: &str) -> String {
    format!(
        "The outcome of the call to '{tool}' stays unknown ({reason}). Do not make it again, and do not rely on it."
    )
}

/// The error of a task whose messages cannot be shown to the model.
pub(crate) fn fatal_context(error: &ContextError) -> String {
    format!("the model was not asked: {error}")
}

/// The number of unreadable replies in a row that ends the run.
pub(crate) const PARSE_ATTEMPTS_MAX: u32 = 3;

const OUTCOME_UNKNOWN: &str =
    "outcome unknown: the call may or may not have had its effect; do not repeat it";

/// The error of a task with an `infer` part whose agent has no model.
pub(crate) const NO_MODEL: &str = "Agent has no LLM but received a infer instruction";

/// Returns the note with a tool's result.
pub(crate) fn tool_result(tool: &str, result: &JsonText) -> String {
    python_json(&json!({"type": "tool_result", "tool": tool, "result": result.tree()}))
}

/// Returns the note that the model named an unknown tool.
pub(crate) fn unknown_tool(tool: &str, available: &[&str]) -> String {
    let tool = short(tool);
    format!("Unknown tool: '{tool}'. Available tools: {}", list_repr(available))
}

/// Returns the note that the arguments were refused: by the schema, by the tool's type, or by the tool
/// itself.
pub(crate) fn argument_error(tool: &str, error: &str) -> String {
    format!(
        "Tool '{tool}' call failed due to argument error: {error}. Please check the tool's input_schema and try again."
    )
}

/// Returns the note that the model repeated an action. `kind` is the action's type.
pub(crate) fn already_done(kind: &str) -> String {
    format!(
        "You have already performed this action: {kind}. The result is in your context. Please proceed with your \
         task - either produce a 'final' response or take a different action."
    )
}

/// Returns the note that the model repeated an action, as the rules that refuse it say.
pub(crate) fn repeated(rules: LoopRules, kind: &str) -> String {
    match rules {
        LoopRules::Protolink => already_done(kind),
        LoopRules::Taskreel => format!(
            "You have already asked for exactly this {kind}, and were told what came of it. It was not made again. Go on with \
             what you were told: answer, or take a different action."
        ),
    }
}

/// Returns the note that a model wrote a call as text although it can call functions.
pub(crate) fn text_call() -> &'static str {
    "Your previous response is a call written as text. Text is never carried out, so nothing was called. To call a function, \
     use the interface for function calls. If the text is your answer, say so in a sentence before it and after it."
}

/// Returns the error of a run whose model wrote its calls as text, even after the note about it.
pub(crate) fn fatal_text_call() -> &'static str {
    "the model writes its calls as text, even after it was told to call functions by the interface for them; if it has no such \
     interface, set the backend to JSON actions (`json_actions`)"
}

/// Returns the note that the reply of a model with native tools could not be used.
pub(crate) fn unusable_reply(error: &str) -> String {
    format!(
        "Your previous response could not be used. Error:\n{error}\nAnswer in words, or call a function by the interface for \
         function calls."
    )
}

/// Returns the answer to a call of another agent that stands beside other calls.
pub(crate) fn agent_call_alone() -> &'static str {
    "Agent call failed: it was not made, because it stands beside other calls. Ask an agent in a reply of its own."
}

/// Returns the note that the reply was not an action.
pub(crate) fn unreadable_reply(error: &str) -> String {
    format!(
        "Your previous response could not be parsed or validated. Error:\n{error}\n\
         Return exactly one JSON action object, for example:\n\
         {{\"type\":\"final\",\"content\":\"...\"}}\n\
         {{\"type\":\"tool_call\",\"tool\":\"tool_name\",\"args\":{{}}}}\n\
         {{\"type\":\"agent_call\",\"agent\":\"agent_name\",\"action\":\"infer\",\"prompt\":\"...\"}}\n\
         {{\"type\":\"agent_call\",\"agent\":\"agent_name\",\"action\":\"tool_call\",\"tool\":\"tool_name\",\"args\":{{}}}}"
    )
}

/// Returns the note that the answer does not fit the requested schema.
pub fn output_refused(error: &str, schema: &JsonText) -> String {
    format!(
        "Your previous response does not fit the output schema. Error:\n{error}\n\
         Answer once more, with content that is JSON and fits this JSON Schema:\n{}",
        schema.as_str()
    )
}

/// Returns the error of a run whose answer did not fit the schema, even after the note about it.
pub fn fatal_output(error: &str) -> String {
    format!("The final answer does not fit the output schema, after it was asked for once more: {error}")
}

/// Returns the error of a run whose output schema is unusable; the model is not asked.
pub(crate) fn fatal_schema(error: &str) -> String {
    format!("The output schema cannot be used: {}", short(error))
}

/// Returns the note that the model called another agent although delegation is off.
pub(crate) fn delegation_off() -> &'static str {
    "agent_call is not available in this context. Please use 'tool_call' for local tools or produce a 'final' response."
}

/// Returns the note with another agent's answer. `action` is what it was asked for: `infer` or `tool_call`.
pub(crate) fn agent_result(agent: &str, action: &str, result: &JsonText) -> String {
    let result = result.tree();
    python_json(&json!({"type": "agent_result", "agent": agent, "action": action, "result": result}))
}

/// Returns the note that a call of another agent failed; the model may try another action.
pub(crate) fn agent_failed(error: &str) -> String {
    format!("Agent call failed: {error}")
}

/// Returns the note that the model called an unknown agent.
pub(crate) fn agent_not_found(agent: &str) -> String {
    format!("Agent '{}' not found in registry.", short(agent))
}

/// Returns the note that the model called its own agent.
pub(crate) fn self_delegation(own: &str) -> String {
    format!("Self-delegation is not allowed. You are '{own}' and cannot delegate tasks to yourself.")
}

/// Returns the note that the model called an agent whose own run waits for this one. Our own text: Protolink
/// would wait forever.
pub(crate) fn circular_delegation(agent: &str, chain: &[String]) -> String {
    let chain = chain.join(" > ");
    format!("Agent '{agent}' waits for this run itself ({chain}) and cannot be asked within it.")
}

/// Returns the conversation's entry for an agent call of unknown outcome, until a person decides.
pub(crate) fn agent_outcome_unknown(agent: &str, action: &str) -> String {
    let result = json!({"type": "agent_result", "agent": agent, "action": action, "result": Value::Null,
        "error": OUTCOME_UNKNOWN});
    python_json(&result)
}

/// Returns the conversation's entry for a tool call of unknown outcome, until a person decides.
pub(crate) fn outcome_unknown(tool: &str) -> String {
    let error = OUTCOME_UNKNOWN;
    python_json(&json!({"type": "tool_result", "tool": tool, "result": Value::Null, "error": error}))
}

/// Returns the note at the end of a turn that did not come to its answer although it had made calls.
pub(crate) fn turn_ended(why: &str) -> String {
    format!(
        "This turn ended here, without an answer: {why}. The calls above stand as their answers say. Do not make a call that \
         succeeded again unless you are asked to, and tell the user what was done if it matters."
    )
}

/// Returns the answer to a call that succeeded with a result that is not repeated at the end of its turn.
pub(crate) fn result_left_out(tool: &str, bytes: usize) -> String {
    format!("The call to '{tool}' succeeded. Its result has {bytes} bytes and stands in the log of its task.")
}

/// Returns the answer to a call whose turn ended before it was made.
pub(crate) fn never_made() -> &'static str {
    "not made: the turn ended before"
}

/// Returns the answer to a call whose task is no longer there to say what came of it.
pub(crate) fn outcome_elsewhere() -> &'static str {
    "the turn ended before this answer; whether the call had its effect stands in the log of its task"
}

/// Returns the error of a run in which a tool failed inside the loop.
pub(crate) fn fatal_tool(tool: &str, error: &str) -> String {
    format!("Tool '{tool}' execution failed: {error}")
}

/// Returns the error of a run in which another agent failed or could not be reached.
pub(crate) fn fatal_agent(agent: &str, error: &str) -> String {
    format!("Agent call to '{agent}' failed: {error}")
}

/// Returns the error of a run in which the model failed. Steps count from 1.
pub(crate) fn fatal_model(step: u32, error: &str) -> String {
    format!("LLM call failed at step {step}: {error}")
}

/// Returns the error of a run in which [`PARSE_ATTEMPTS_MAX`] replies in a row were not actions.
pub(crate) fn fatal_unreadable(last_error: &str) -> String {
    format!(
        "Failed to parse LLM output after {PARSE_ATTEMPTS_MAX} consecutive attempts. Last error: {last_error}"
    )
}

/// Returns the error of a task that was not over at its deadline.
pub(crate) fn fatal_deadline(deadline: Timestamp) -> String {
    format!("the task's deadline {deadline} has passed")
}

/// Returns the error of a run without an answer within the step limit.
pub(crate) fn fatal_steps(steps: u32) -> String {
    format!(
        "Maximum inference steps ({steps}) exceeded without producing final response. The LLM may be \
         stuck in a loop. Consider simplifying the task or checking prompts."
    )
}

/// Returns the error of an explicit `tool_call` part whose tool is unknown.
///
pub(crate) fn tool_not_found(tool: &str) -> String {
    format!("Tool '{}' not found", short(tool))
}

/// Returns Protolink's text for a denied action.
pub(crate) fn denied(action: &str, reason: &str) -> String {
    format!("Action '{action}' denied: {reason}")
}

/// Whether an error of a task says that an action was denied, or that nobody could be asked for its approval.
pub(crate) fn is_denial(error: &str) -> bool {
    let rest = error.strip_prefix("Action '");
    rest.is_some_and(|rest| rest.contains("' denied: ") || rest.ends_with("' requires approval"))
}

/// Returns the error of a task that a person ended because its agent had changed.
pub(crate) fn not_continued(change: AgentChange, decided: &ApprovalDecided) -> String {
    let why = decided.reason.as_deref().filter(|reason| !reason.is_empty());
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("{}, and {} decided that it does not go on{why}", change.in_words(), decided.decided_by)
}

/// Returns Protolink's text for an action that requires approval where no one can be asked.
pub(crate) fn approval_missing(action: &str) -> String {
    format!("Action '{action}' requires approval")
}

/// Returns the conversation's entry for a call that waits for a person.
pub(crate) fn waiting(tool: &str) -> String {
    let error = "waiting for approval: the call has not been made; it will be made if it is approved";
    python_json(&json!({"type": "tool_result", "tool": tool, "result": Value::Null, "error": error}))
}

/// Returns the conversation's entry for a call that was not made, since another call of the same reply ended the run.
pub(crate) fn not_made(tool: &str) -> String {
    let error =
        "not made: another call of the same reply waits for a person; ask for it again if it is still needed";
    python_json(&json!({"type": "tool_result", "tool": tool, "result": Value::Null, "error": error}))
}

/// Returns the message that a call of the model was approved and made. Its result follows as a note of its own.
pub(crate) fn note_made(tool: &str) -> String {
    format!("The call to '{tool}' that waited for approval was approved and made. Do not make it again.")
}

/// Returns the conversation's entry for a call that waits for a person's answer.
pub(crate) fn waiting_for_answer(tool: &str) -> String {
    let error =
        "waiting for a person's answer: the call goes on when it is there, and you will be told the result";
    python_json(&json!({"type": "tool_result", "tool": tool, "result": Value::Null, "error": error}))
}

/// Returns the conversation's entry for a request to another agent whose task waits for a person.
pub(crate) fn waiting_for_agent(agent: &str, action: &str) -> String {
    let error = "waiting for a person: the agent goes on when the person has decided, and you will be told the result";
    python_json(&json!({
        "type": "agent_result",
        "agent": agent,
        "action": action,
        "result": Value::Null,
        "error": error,
    }))
}

/// Returns the message that a request to another agent that waited for a person has ended. Its result follows as a note of
/// its own.
pub(crate) fn note_agent_ended(agent: &str) -> String {
    format!("The request to the agent '{agent}' that waited for a person has ended. Do not make it again.")
}

/// Returns the message that a call that waited for a person's answer has ended. Its result follows as a note of its own.
pub(crate) fn note_answered(tool: &str) -> String {
    format!("The call to '{tool}' that waited for a person's answer has ended. Do not make it again.")
}

/// Returns the message that a call of another agent was approved and may be made now.
pub(crate) fn note_approved(agent: &str) -> String {
    format!(
        "The call to agent '{agent}' that waited for approval was approved. It was not made yet: make it again now, \
         exactly as before."
    )
}

/// Returns the message that a call of the model was denied.
pub(crate) fn note_denied(tool: &str, reason: &str) -> String {
    format!(
        "The call to '{tool}' that waited for approval was denied ({reason}). It was not made. Do not ask for it again; \
         go on without it."
    )
}

#[cfg(test)]
mod tests {
    use proto_events::json::JsonText;

    use super::*;
    use crate::grammar::action::Action;

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
            fatal_steps(10),
            "Maximum inference steps (10) exceeded without producing final response. The LLM may be stuck in a loop. Consider simplifying the task or checking prompts."
        );
    }
}
