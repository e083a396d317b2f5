//! What an agent can do, and how it is asked: tools with their schemas and recovery, model backends, and the
//! pure grammar of the infer loop.
//!
//! Nothing here writes an event or starts a call by itself. [`plan`] says what comes next in a run: it reads
//! a model's reply with [`action`], checks arguments with [`schema`], and words what the model is told with
//! [`prompt`]. The router (floor 3) runs a [`tool`] or an [`infer`] backend. Every rule in this folder is a
//! function of its arguments, so the loop that is built on it can be folded again from the log.
//!
//! | file | holds |
//! |---|---|
//! | [`tool`], [`into_tool`], [`blocking`], [`why_not`], [`registry`] | what a tool is, how a function becomes one, async or not, or why not, and one agent's tools |
//! | `mcp` | tools of servers that speak the Model Context Protocol (feature `mcp`) |
//! | [`tool_state`] | what a tool keeps between its calls, as one call sees it |
//! | [`policy`], [`probe`] | what may be done with a call again after a crash, its timeout, retries; who is asked whether it landed |
//! | [`schema`], `check`, `coerce` | JSON Schema of the arguments and the check against it |
//! | [`output_schema`] | the check of an answer against the schema that was asked for |
//! | [`action`], `decode`, `repair`, `shorthand`, `literal` | one model reply, decoded, mended and read as an action |
//! | [`prompt`] | the system prompt and every fixed sentence that the loop says |
//! | [`infer`], [`scripted`] | the model backend trait, its errors, and a backend for tests and demos |
//! | [`recorded`] | a model that plays a log back |
//! | `genai` | other providers, through the crate of that name (feature `genai`) |
//! | `provider`, `key` | what these have in common; where a key comes from |
//! | `openai` | servers that speak `OpenAI`'s chat completions (feature `openai`) |
//! | [`messages`] | what a model is shown, made when its backend looks |
//! | [`peer`] | other agents: what they are sent and what they answer |
//! | [`plan`] | what comes next in a run, as a function of the fold |
//! | [`budget`] | the limits of a run |
//! | [`capability`], [`approval`] | what a run may do, and who is asked where that is not settled |
//! | [`summary`] | reading a summarizer's reply |
//! | [`python`] | texts that must look as Python prints them |

pub mod action;
pub mod approval;
pub mod blocking;
pub mod budget;
pub mod capability;
mod check;
mod coerce;
mod decode;
#[cfg(feature = "genai")]
pub mod genai;
pub mod infer;
pub mod into_tool;
mod json_words;
#[cfg(any(feature = "genai", feature = "openai"))]
mod key;
mod literal;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod messages;
#[cfg(feature = "openai")]
pub mod openai;
pub mod output_schema;
pub mod peer;
pub mod plan;
pub mod policy;
pub mod probe;
pub mod prompt;
#[cfg(any(feature = "genai", feature = "openai"))]
mod provider;
pub mod python;
pub mod recorded;
pub mod registry;
mod repair;
pub mod schema;
pub mod scripted;
mod shorthand;
pub mod summary;
pub mod tool;
pub mod tool_state;
pub mod why_not;

use std::sync::Arc;
use std::time::Duration;

use approval::Approvals;
use capability::CapabilityPolicy;
use infer::InferBackend;
use peer::Peers;
use policy::InferPolicy;
use proto_events::call::{CallKind, CallRequested};
use registry::Tools;

use crate::limits::APPROVAL_TIMEOUT;

/// One agent: its name, what it can do, whom it asks.
#[derive(Clone)]
pub struct Agent {
    /// Its name, part of the name of every stream of its.
    pub name: String,
    /// Its tools.
    pub tools: Tools,
    /// The model that carries out its `infer` parts.
    pub backend: Option<Arc<dyn InferBackend>>,
    /// The other agents that its model may ask.
    pub peers: Peers,
    /// Instructions for the model, after our own.
    pub system_prompt: Option<String>,
    /// Whether it keeps conversations.
    pub conversation: bool,
    /// How many calls, of tools and of the model, may be under way at once.
    pub max_concurrency: Option<usize>,
    /// How its model is called.
    pub infer_policy: InferPolicy,
    /// What its tools may do.
    pub capability_policy: CapabilityPolicy,
    /// Who is asked where that requires approval.
    pub approvals: Approvals,
    /// Longest time for which code is asked; then a person is.
    pub approval_timeout: Duration,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("name", &self.name).field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl Agent {
    /// Whether a call may have to wait until others have ended.
    pub fn is_limited(&self, request: &CallRequested) -> bool {
        let of_tool = || self.tools.get(&request.target)?.spec().policy.concurrency_max();
        self.max_concurrency.is_some() || (request.kind == CallKind::Tool && of_tool().is_some())
    }

    /// An agent without tools and model, which keeps conversations.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tools: Tools::new(),
            backend: None,
            peers: Peers::default(),
            system_prompt: None,
            conversation: true,
            max_concurrency: None,
            infer_policy: InferPolicy::default(),
            capability_policy: CapabilityPolicy::default(),
            approvals: Approvals::default(),
            approval_timeout: APPROVAL_TIMEOUT,
        }
    }
}
