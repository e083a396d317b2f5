//! Requests of a call to other agents: what they are asked for, and their answers.

use std::fmt;
use std::sync::Arc;

use proto_events::json::JsonText;
use proto_events::model::{TaskState, python};

use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::tool_questions::ToolQuestions;

/// The work that a tool or a handler gives to another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentWork {
    /// A text for the agent's model or handler.
    Prompt(String),
    /// A call of one of the agent's tools.
    ToolCall {
        /// The name of the tool.
        tool: String,
        /// The arguments, an object.
        args: JsonText,
    },
}

impl AgentWork {
    /// Creates a request to call one of the agent's tools.
    pub fn tool_call(tool: impl Into<String>, args: impl Into<JsonText>) -> Self {
        Self::ToolCall { tool: tool.into(), args: args.into() }
    }

    /// Returns the work as it is sent: arguments that are false in Python are the empty object, as in a part of a
    /// message.
    ///
    /// # Errors
    /// An error of type `InvalidArguments` if the arguments are no object.
    pub(crate) fn checked(self) -> Result<Self, ToolError> {
        let Self::ToolCall { tool, args } = self else { return Ok(self) };
        let args = if python::truthy(&args) { args } else { JsonText::empty_object() };
        let found = python::kind(&args);
        if found != "an object" {
            let text = format!(
                "the arguments of the tool `{tool}` must be an object, not {found}; nothing was sent"
            );
            return Err(ToolError::not_sent(text).with_type("InvalidArguments").final_());
        }
        Ok(Self::ToolCall { tool, args })
    }
}

impl From<&str> for AgentWork {
    fn from(prompt: &str) -> Self {
        Self::Prompt(prompt.to_owned())
    }
}

impl From<String> for AgentWork {
    fn from(prompt: String) -> Self {
        Self::Prompt(prompt)
    }
}

/// The answer of another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentAnswer {
    /// The state in which the agent's task stopped: `completed`, or `input-required` where the result is the agent's own
    /// question. A task that failed with an output has its error in the result.
    pub state: TaskState,
    /// The content of the task's last part.
    pub result: JsonText,
}

impl AgentAnswer {
    /// Creates an answer. For tests of tools.
    pub fn new(state: TaskState, result: JsonText) -> Self {
        Self { state, result }
    }
}

/// A replacement for other agents, for tests of tools: it is given the agent's name and the work.
pub type AgentSink =
    Arc<dyn Fn(&str, AgentWork) -> BoxFuture<'static, Result<AgentAnswer, ToolError>> + Send + Sync>;

/// The way of an attempt to other agents.
pub(crate) trait AgentDispatch: Send + Sync {
    /// Makes the call, once over all attempts, and waits for its answer.
    fn delegate(
        self: Arc<Self>,
        agent: String,
        work: AgentWork,
        asking: Arc<ToolQuestions>,
    ) -> BoxFuture<'static, Result<AgentAnswer, ToolError>>;
}

/// The dispatch of a context without a system behind it.
pub(crate) struct ClosedSink(pub(crate) Option<AgentSink>);

impl AgentDispatch for ClosedSink {
    fn delegate(
        self: Arc<Self>,
        agent: String,
        work: AgentWork,
        _: Arc<ToolQuestions>,
    ) -> BoxFuture<'static, Result<AgentAnswer, ToolError>> {
        if let Some(sink) = &self.0 {
            return sink(&agent, work);
        }
        let text = format!("there is no way to the agent `{agent}` from here");
        Box::pin(std::future::ready(Err(ToolError::not_sent(text).with_type("NoAgents"))))
    }
}

impl fmt::Debug for dyn AgentDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentDispatch")
    }
}
