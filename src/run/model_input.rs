//! The messages that a model is shown in a run.

use proto_events::call::PromptRef;
use proto_events::id::{Digest, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Part;
use proto_events::task::Task;
use taskreel_log::shown::{RENDERER_VERSION, Shown, system_of};

use crate::agent::card::Agent;
use crate::run::prompt;
use crate::run::prompt::PromptParts;
use crate::run::question::{At, Question, TurnView};
use crate::run::reading::schema_in;
use crate::tools::registry::tools_digest;

/// Returns the output schema that a part asks for; `None` where it is null.
pub(crate) fn output_schema(part: &Part) -> Option<JsonText> {
    part.as_infer().ok().map(|asked| asked.output_schema).filter(|schema| !schema.is_null())
}

/// Names what the model is shown: a digest extended by each new message, never a copy.
pub(crate) fn prompt_ref(
    question: &Question<'_>,
    at: At,
    parameters: &JsonText,
    tokens: Option<u64>,
) -> PromptRef {
    let tools = tools_digest(question.agent.tools.specs());
    let schema = schema_in(parameters);
    let shown = shown(question.agent, question.task, question.turn_view, at, schema.as_ref());
    let history = question.turn_view.map_or(Digest::default(), |turn_view| turn_view.session.digest());
    PromptRef {
        session: question.turn_view.map(|turn_view| turn_view.stream.to_string()),
        read_through: question.turn_view.map_or(Version(0), |turn_view| turn_view.version),
        messages: u32::try_from(shown.count()).unwrap_or(u32::MAX),
        tokens,
        digest: shown.digest(tools, parameters.as_str(), history),
        renderer: RENDERER_VERSION,
        tools,
    }
}

/// Renders the leading system message for this task.
pub(crate) fn system_prompt(agent: &Agent, task: &Task) -> String {
    let hint = task.flow_state().read::<JsonObject>().ok().and_then(|flow| flow.get("prompt")?.to_str());
    let (tools, agents) = (agent.tools.specs(), agent.peers.lines());
    prompt::system_prompt(&PromptParts {
        tools: &tools,
        agents: &agents,
        user_prompt: agent.system_prompt.as_deref(),
        flow_hint: hint.as_deref(),
    })
}

/// Returns what the model is shown for this part: in a conversation the history and all messages of the run's
/// turn, otherwise only the messages of the part itself.
pub(crate) fn shown<'a>(
    agent: &Agent,
    task: &'a Task,
    turn_view: Option<TurnView<'a>>,
    at: At,
    schema: Option<&JsonText>,
) -> Shown<'a> {
    let kept = turn_view.and_then(|turn_view| system_of(turn_view.session));
    let text = kept.map_or_else(|| system_prompt(agent, task), |message| message.content.clone());
    let system = schema.map_or_else(|| text.clone(), |schema| prompt::with_output_schema(&text, schema));
    match turn_view {
        Some(turn_view) => Shown::in_session(turn_view.session, system),
        None => Shown::in_task(task, at, system),
    }
}
