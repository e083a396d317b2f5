//! Data shared by all actors of a system: their messages, the parts they are given, permits, spans, the
//! states of tools, and unresolved appends. The lowest level of [`actors`](crate::actors): actors know each
//! other by the messages they accept, not by their types.

pub(crate) mod append;
pub(crate) mod attempt_end;
pub(crate) mod awaited_tasks;
pub(crate) mod condition;
pub(crate) mod delegation_update;
pub(crate) mod durable_reply;
pub(crate) mod figures;
pub(crate) mod idle_actors;
pub(crate) mod idle_state;
pub(crate) mod live_actors;
pub(crate) mod messages;
#[cfg(feature = "testing")]
pub(crate) mod observed_runtime;
pub(crate) mod owner;
pub(crate) mod parts;
pub(crate) mod permits;
pub(crate) mod ramp;
pub(crate) mod rates;
pub(crate) mod replies;
pub(crate) mod reply_queue;
pub(crate) mod resolution;
pub(crate) mod route;
pub(crate) mod run_starts;
pub(crate) mod secrets;
pub(crate) mod session_decision;
pub(crate) mod session_op;
pub(crate) mod sleep;
pub(crate) mod spans;
pub(crate) mod to_session;
pub(crate) mod tool_stores;
pub(crate) mod turns;
pub(crate) mod unresolved_appends;
pub(crate) mod within;
