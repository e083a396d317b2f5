//! The six tools on a builder. Each call is a recorded call: those that read are repeated after a crash, and a message that was
//! sent is looked for before anything is sent again.

use std::time::Duration;

use proto_events::json::{JsonText, JsonValue as Value};
use sha2::{Digest as _, Sha256};
use taskreel::Builder;
use taskreel::tool::{DynTool, ToolContext, ToolError, ToolPolicy, Verdict};

use crate::a2a::model::Task;
use crate::a2a::toolkit::arguments::Arguments;
use crate::a2a::toolkit::definitions::{A2A_TOOLS, ToolDefinition};
use crate::a2a::toolkit::error::SessionError;
use crate::a2a::toolkit::session::SessionAnswer;
use crate::a2a::toolkit::tools::{A2aTools, RecordedCall, SharedTools};
use crate::a2a::toolkit::way::KnownAgent;

/// The time of a call that is left for its answer, once a task is waited for no longer.
const FOR_THE_ANSWER: Duration = Duration::from_secs(15);

/// The wait for a task that a lost call had sent.
const PROBE_WAIT: Duration = Duration::from_secs(30);

/// The times that the task of a call is looked for that is given up, and the pause between two of them.
const RECALL_LOOKS: u32 = 10;
const RECALL_PAUSE: Duration = Duration::from_millis(500);

/// The toolkit's tools for the builder of a system or of an agent.
pub trait A2aBuilder {
    /// Adds the six tools with which the agent's model asks agents over A2A: `get_agents`, `get_agent`, `send_message`,
    /// `get_task`, `view_text_artifact` and `view_data_artifact`. They take agents, a session, or [`A2aTools`] with settings.
    ///
    /// The last two replace the tools of the same names of [`Builder::artifact_tools`]: their `agent_id` names an agent
    /// elsewhere, and results of this system's own calls are no longer minimized in prompts.
    ///
    /// A message is sent once: its id and its conversation follow from the call. After a crash the call looks for the task of
    /// its message, in the session's task store and then at the agent, and takes it up; to an agent of ours the message is sent
    /// again under the same key. Where nobody can tell whether the message was taken, the call's outcome is unknown. Where the
    /// call is given up, because its own task is canceled, the agent is asked to cancel the task of its message.
    ///
    /// ```
    /// use taskreel::System;
    /// use taskreel_http::a2a::{A2aAgents, A2aBuilder as _};
    ///
    /// let agents = A2aAgents::new().agent("weather", "http://127.0.0.1:8000");
    /// let builder = System::builder("./log").a2a_tools(agents);
    /// ```
    #[must_use]
    fn a2a_tools(self, tools: impl Into<A2aTools>) -> Self;
}

impl<Of> A2aBuilder for Builder<Of> {
    fn a2a_tools(self, tools: impl Into<A2aTools>) -> Self {
        let tools = SharedTools::new(tools.into());
        A2A_TOOLS.iter().fold(self.other_artifact_tools(), |builder, tool| {
            let (called, case) = (SharedTools::clone(&tools), tools.case());
            let code = DynTool::new(tool.schema(case), move |cx, args| {
                called_as(SharedTools::clone(&called), tool.name, cx, args)
            });
            builder.tool_with(tool.name, tool.description, code, policy(tool, &tools))
        })
    }
}

fn policy(tool: &ToolDefinition, tools: &SharedTools) -> ToolPolicy {
    let policy = match tool.name {
        "send_message" => {
            let tools = SharedTools::clone(tools);
            let asked = SharedTools::clone(&tools);
            ToolPolicy::reconcile(move |cx, args: Value| probe(SharedTools::clone(&asked), cx, args))
                .recalled_by(move |cx, args: Value| recall(SharedTools::clone(&tools), cx, args))
        }
        "get_task" => ToolPolicy::read_only().repeatable(),
        _ => ToolPolicy::read_only().parallel().repeatable(),
    };
    let policy = policy.declared_by("a2a toolkit");
    match tools.call_timeout {
        Some(timeout) => policy.timeout(timeout),
        None => policy,
    }
}

/// Returns what a call knows besides its arguments.
fn sending(cx: &ToolContext) -> RecordedCall {
    let key = cx.idempotency_key();
    let id = |of: &str| (!key.is_empty()).then(|| uuid_of(of, key));
    let at_most = cx.remaining().map(|remaining| match remaining.checked_sub(FOR_THE_ANSWER) {
        Some(left) => left.max(remaining / 2),
        None => remaining / 2,
    });
    RecordedCall { message_id: id("message"), context_id: id("context"), at_most }
}

async fn called_as(
    tools: SharedTools,
    name: &'static str,
    cx: ToolContext,
    args: JsonText,
) -> Result<JsonText, ToolError> {
    Ok(tools.call_as(name, &args.tree(), &sending(&cx)).await.to_text())
}

/// Finds out whether the message of a lost call was taken, and returns the answer if it was.
async fn probe(tools: SharedTools, cx: ToolContext, args: Value) -> Result<Verdict, ToolError> {
    let sending = RecordedCall { at_most: Some(PROBE_WAIT), ..sending(&cx) };
    let unknown = |why: String| Ok(Verdict::Inconclusive(why));
    let args = Arguments(&args);
    let (Ok(agent_id), Some(message_id)) = (args.needed("agent_id"), &sending.message_id) else {
        return unknown("the call names no agent".to_owned());
    };
    let session = tools.session();
    let sent = session.sent(message_id).await.map_err(|error| ToolError::failed(error.to_string()))?;
    if let Some(sent) = sent.filter(|sent| sent.agent == agent_id) {
        return landed(&tools, agent_id, &sent.task_id).await;
    }
    let Ok(agent) = session.agent(agent_id).await else {
        return unknown("the agent's card cannot be read".to_owned());
    };
    if agent.takes_keys() {
        // The same message under the same key: the agent gives the first answer again if it had taken it.
        return Ok(Verdict::DidNotHappen);
    }
    match listed(&tools, &agent, &args, &sending).await {
        Some(task_id) => landed(&tools, agent_id, &task_id).await,
        // What was sent may still be on its way.
        None => unknown("the agent cannot tell whether it has taken the message".to_owned()),
    }
}

/// Returns the task at an agent whose history has the message of a call.
async fn listed(
    tools: &SharedTools,
    agent: &KnownAgent,
    args: &Arguments<'_>,
    sending: &RecordedCall,
) -> Option<String> {
    let context = args.text("context_id").ok().flatten().map(str::to_owned);
    let (context, message_id) =
        (context.or_else(|| sending.context_id.clone())?, sending.message_id.as_ref()?);
    let tasks = tools.session().agents().transport().of_context(agent, &context, PROBE_WAIT).await.ok()?;
    let has_message = |task: &Task| task.history.iter().any(|message| message.id == *message_id);
    tasks.into_iter().find(has_message).map(|task| task.id)
}

/// Has the agent stop its work on the task of a call that is given up.
async fn recall(tools: SharedTools, cx: ToolContext, args: Value) -> Result<(), ToolError> {
    let (sending, args) = (sending(&cx), Arguments(&args));
    let (Ok(agent_id), Some(message_id)) = (args.needed("agent_id"), &sending.message_id) else {
        return Ok(());
    };
    let session = tools.session();
    let failed = |error: SessionError| ToolError::failed(error.to_string());
    for look in 1..=RECALL_LOOKS {
        let sent = session.sent(message_id).await.map_err(failed)?.filter(|sent| sent.agent == agent_id);
        let task_id = match sent {
            Some(sent) => Some(sent.task_id),
            None => listed(&tools, &*session.agent(agent_id).await.map_err(failed)?, &args, &sending).await,
        };
        if let Some(task_id) = task_id {
            return session.cancel(agent_id, &task_id).await.map_err(failed);
        }
        if look < RECALL_LOOKS {
            // The message may still be on its way.
            tokio::time::sleep(RECALL_PAUSE).await;
        }
    }
    Err(ToolError::failed("the agent has no task of this call, as far as it tells"))
}

async fn landed(tools: &SharedTools, agent_id: &str, task_id: &str) -> Result<Verdict, ToolError> {
    let told = tools.session().get(agent_id, task_id, Some(PROBE_WAIT), None).await;
    let told = told.map_err(|error| ToolError::failed(error.to_string()))?;
    Ok(Verdict::Landed(tools.shown(SessionAnswer::Task(Box::new(told))).await.to_text()))
}

/// Returns an id in the form of a UUID (version 8) that follows from a key.
fn uuid_of(what: &str, key: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(b"taskreel a2a toolkit\0");
    digest.update(what.as_bytes());
    digest.update(b"\0");
    digest.update(key.as_bytes());
    let mut bytes = [0_u8; 16];
    for (byte, of_digest) in bytes.iter_mut().zip(digest.finalize()) {
        *byte = of_digest;
    }
    let number = u128::from_be_bytes(bytes);
    let number = (number & !(0xf << 76) & !(0x3 << 62)) | (0x8 << 76) | (0x2 << 62);
    let digits = format!("{number:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_follows_from_its_key_and_has_the_form_of_a_uuid() {
        let id = uuid_of("message", "k");
        assert_eq!(id, uuid_of("message", "k"));
        assert!(id != uuid_of("context", "k") && id != uuid_of("message", "l"));
        let form: String = id.chars().map(|digit| if digit == '-' { '-' } else { 'x' }).collect();
        assert_eq!(form, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
        assert!(id.get(14..15) == Some("8") && id.get(19..20).is_some_and(|digit| "89ab".contains(digit)));
    }
}
