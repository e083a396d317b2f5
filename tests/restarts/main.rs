//! Ends and starts of a system: crashes at every place, recovery, reopening, passivation, and several systems over one log.

#[path = "../artifact_tool_support"]
mod artifact_tool_support {
    pub(crate) mod model;
}
#[path = "../call_support/mod.rs"]
mod call_support;
#[path = "../prompt_support/mod.rs"]
mod prompt_support;
#[path = "../../crates/log/tests/store_support/mod.rs"]
mod store_support;

mod arbiters;
mod clock_steps;
mod conflicts;
mod cuts;
#[cfg(feature = "testing")]
mod durable_first;
mod early_replies;
mod ended_tasks;
mod hard_cases;
mod left_futures;
mod listing;
mod passivation;
mod ramp;
mod recorded;
mod recovery;
#[cfg(feature = "testing")]
mod reopen;
mod resumed_ends;
mod resumed_results;
#[cfg(target_os = "linux")]
mod shared_store;
mod sink_store;
mod starts;
mod stopping;
#[cfg(feature = "testing")]
mod store_index;
mod system;
mod verified_while_written;
