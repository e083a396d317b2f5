//! Tools: the trait, functions as tools, policies, argument schemas, state between calls, and MCP servers.
//! Below [`models`](crate::models) and [`agent`](crate::agent); a tool knows neither.
//!
//! | file | holds |
//! |---|---|
//! | [`tool`], [`into_tool`], [`blocking_tools`], [`future`] | the trait, and functions (async or blocking) as tools |
//! | [`why_not`] | diagnosis of functions that are not tools |
//! | [`registry`], [`revision`] | the tools of one agent; the revision of its definition that is in force |
//! | [`policy`], [`breaker`], [`probe`], [`error`] | recovery, timeouts, retries; circuit breakers; probes; errors |
//! | [`panics`] | panics of a host's code, as errors |
//! | [`tool_questions`], [`agent_requests`] | questions of a call to a person, and its requests to other agents |
//! | [`schema`] | JSON Schema of arguments and the check against it |
//! | [`artifact_tools`], [`artifact_reach`], [`view_artifact`], [`log_of_call`] | the tools that show artifacts, and what they reach |
//! | [`state`] | values that a tool keeps between its calls |
//! | `mcp` | tools of servers that speak the Model Context Protocol (feature `mcp`) |

pub(crate) mod agent_requests;
pub(crate) mod append_only_list;
pub(crate) mod artifact_reach;
pub(crate) mod artifact_tools;
pub(crate) mod blocking_tools;
pub(crate) mod breaker;
pub(crate) mod current_call;
pub(crate) mod error;
pub(crate) mod future;
pub(crate) mod into_tool;
pub(crate) mod log_of_call;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod panics;
pub(crate) mod policy;
pub(crate) mod probe;
pub(crate) mod rate;
pub(crate) mod registry;
pub(crate) mod revision;
pub(crate) mod schema;
pub(crate) mod secret;
pub(crate) mod state;
pub(crate) mod texts;
pub(crate) mod tool;
pub(crate) mod tool_questions;
pub(crate) mod view_artifact;
pub mod why_not;
