//! Calls of tools, handlers and models: their policies, limits, costs, secrets and ends.

#[path = "../artifact_tool_support"]
mod artifact_tool_support {
    pub(crate) mod model;
}
#[path = "../approvals_support/mod.rs"]
mod approvals_support;
#[path = "../call_support/mod.rs"]
mod call_support;

mod attached;
mod back_off;
#[allow(dead_code, reason = "each test program uses a part of it")]
mod bench;
#[cfg(feature = "testing")]
mod budgets;
mod call_interrupts;
mod call_limits;
mod calls;
mod costs;
#[cfg(feature = "testing")]
mod deadlines;
mod doubts;
mod handler_answers;
mod handler_limits;
mod handlers;
mod heartbeats;
mod lost_answers;
mod mailboxes;
mod outputs;
mod permits;
mod rates;
mod repeats;
#[cfg(feature = "testing")]
mod responders;
mod secret_texts;
mod secrets;
mod sync_tools;
mod tool_calls;
mod tool_contexts;
#[cfg(feature = "testing")]
mod tool_state;
mod unsettled;
mod verdicts;
