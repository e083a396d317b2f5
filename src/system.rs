//! The handle that embedders hold: it starts the actors on a thread of their own, accepts work, reports its
//! state, and stops. It works from any tokio runtime, including a test's. The top of this crate: it may
//! import every other room except `testing`.
//!
//! | file | holds |
//! |---|---|
//! | `builder`, `running`, `thread`, `reopen` | start, parts, the actors' thread, reopening of the log |
//! | `handle`, `handles`, `session`, `input`, `invoke`, `task_events` | the handles on a system, a task and a session; what a task is made of; one call for an answer; a task's events |
//! | `agents`, `known_agent` | the agents of a system, each with a handle of its own |
//! | `socket`, `socket_registry` | the local socket of a running system, and the decisions that come through it |
//! | `calls_runtime` | the runtime of tools and models |
//! | `gate` | what is sent passes it; a reopening closes it |
//! | `starts` | the records of starts and ends, with the agent's definition |
//! | `operator` | decisions of a person while no system has the log open |
//! | `run_request`, `run_keys`, `once`, `claims`, `outcome` | a run with its options, checked; the keys of runs made once; the end of a task as a type |
//! | `task_index`, `task_order`, `task_info`, `session_index`, `listing` | tasks by state and session, conversations, and the tasks that wait for a person |
//! | `sent`, `to_end` | the ids of commands that are sent; a task that is submitted and awaited at once |
//! | `health`, `live_run`, `raising` | health and figures; a run with its live events; a budget that is raised |
//! | `stopping`, `weak` | the end of a system; a system as handles know it |
//! | `tools`, `mcp` | the states of tools; the MCP servers of a system |
//! | `peer`, `local_peer`, `late_peers` | a system as another agent; another agent of the same system; agents that become known while it runs |
//! | `webhooks` | the webhooks of a task |
//! | `state` | the modules of an agent's state, and the control plane over them |

pub(crate) mod agents;
pub(crate) mod budget_raise;
pub(crate) mod builder;
pub(crate) mod calls_runtime;
pub(crate) mod card;
pub(crate) mod claims;
pub(crate) mod command_id;
pub(crate) mod exposition;
pub(crate) mod files;
pub(crate) mod gate;
pub(crate) mod handle;
pub(crate) mod handles;
pub(crate) mod health;
pub(crate) mod input;
pub(crate) mod invoke;
pub(crate) mod known_agent;
pub(crate) mod late_peers;
pub(crate) mod live_run;
pub(crate) mod local_peer;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod once;
pub(crate) mod operator;
pub(crate) mod outcome;
pub(crate) mod peer;
pub(crate) mod registry;
pub(crate) mod reopen;
pub(crate) mod run_keys;
pub(crate) mod run_request;
pub(crate) mod running_system;
pub(crate) mod session;
pub(crate) mod session_index;
pub(crate) mod shutdown;
#[cfg(unix)]
pub(crate) mod socket;
#[cfg(unix)]
pub(crate) mod socket_registry;
pub(crate) mod starts;
pub(crate) mod state;
pub(crate) mod task_events;
pub(crate) mod task_index;
pub(crate) mod task_info;
pub(crate) mod task_lists;
pub(crate) mod task_order;
pub(crate) mod tasks;
pub(crate) mod thread;
pub(crate) mod to_end;
pub(crate) mod tools;
pub(crate) mod weak;
pub(crate) mod webhooks;

pub use crate::live::LiveFeed;
pub use crate::live::event::Live;
pub use crate::protolink::stream::event::{TaskStreamEvent, TaskStreamPayload};
pub use crate::system::builder::{AgentBuilder, Builder, OneAgent, WholeSystem};
pub use crate::system::exposition::{Exposition, Family};
pub use crate::system::handle::System;
pub use crate::system::handles::{TaskHandle, TaskSnapshot};
pub use crate::system::health::{CallCount, Health, Metrics};
pub use crate::system::input::TaskInput;
pub use crate::system::invoke::{INVOKE_SESSION, NO_RESPONSE};
pub use crate::system::live_run::{LiveRun, RunEvent};
pub use crate::system::operator::take_in::{KeptItem, KeptStream, TakenIn};
pub use crate::system::operator::{DecisionResult, Operator};
pub use crate::system::outcome::{Failure, InferAs, Outcome};
pub use crate::system::peer::SystemPeer;
pub use crate::system::registry::RegistryRecord;
pub use crate::system::reopen::ReopenResult;
pub use crate::system::run_request::{RunInput, RunRequest};
pub use crate::system::session::SessionHandle;
pub use crate::system::session_index::SessionInfo;
pub use crate::system::shutdown::{InterruptedCall, ShutdownReport};
pub use crate::system::state::State;
pub use crate::system::state::conversation::{ConversationState, MessageFound};
pub use crate::system::state::flow::{FlowRow, FlowState};
pub use crate::system::state::tasks::{TaskRecords, WaitsFor};
pub use crate::system::state::tools::{ToolRow, ToolsState};
pub use crate::system::task_events::{ResumePoint, ResumePointError, TaskEvents};
pub use crate::system::task_index::{NewestTasks, TaskPage, WaitingTask};
pub use crate::system::task_info::TaskInfo;
pub use crate::system::task_lists::TaskQuery;
pub use crate::system::webhooks::WebhookSecrets;
