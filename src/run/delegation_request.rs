//! Requests of calls in flight to other agents, as the planner sees them.

use proto_events::call::{CallOrigin, ParentCall};

use crate::grammar::action::AgentAction;
use crate::tools::agent_requests::AgentWork;

/// A request of a call in flight to another agent.
#[derive(Debug, Clone)]
pub(crate) struct WantedCall {
    /// The id of the request, unique in its process.
    pub(crate) id: String,
    /// The call that makes the request, and the place of the request among those that it makes.
    pub(crate) parent: ParentCall,
    /// The attempt that makes the request.
    pub(crate) attempt: u32,
    /// The agent.
    pub(crate) agent: String,
    pub(crate) what: AgentAction,
    /// Whether the request is a call that is on disk.
    pub(crate) is_recorded: bool,
    /// The reason why the request is not made, once it is known.
    pub(crate) refused: Option<Refusal>,
}

/// The reason why a request is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request may not or cannot be made: the type of the error and its text.
    Error(&'static str, String),
    /// A person must approve the request first; the question to the person.
    AskPerson(String),
}

/// Returns the action that asks an agent for this work.
pub(crate) fn action(work: &AgentWork) -> AgentAction {
    match work.clone() {
        AgentWork::Prompt(prompt) => AgentAction::Infer { prompt },
        AgentWork::ToolCall { tool, args } => AgentAction::ToolCall { tool, args },
    }
}

impl WantedCall {
    /// Returns the origin of the call that carries out the request: the place of its parent, which this part of the current
    /// run stands for.
    pub(crate) fn origin(&self, run: u32, part: u32, of_parent: &CallOrigin) -> CallOrigin {
        CallOrigin {
            run,
            part,
            step: of_parent.step,
            infer_call: None,
            part_call_id: None,
            parent: Some(self.parent.clone()),
        }
    }
}
