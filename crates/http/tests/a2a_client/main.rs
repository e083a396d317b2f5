//! The client of A2A: against our own server in both versions over both bindings, through connections that break anywhere,
//! and against servers that answer wrongly.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, in helpers too")]

#[path = "../a2a/agent.rs"]
mod agent;
#[path = "toolkit_deviations/mod.rs"]
mod deviations;
#[path = "../a2a/hook.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod hook;
#[path = "../support/mod.rs"]
mod support;

mod answers;
mod blocking;
mod cards;
mod credentials;
mod cuts;
mod delegation_cuts;
mod forge;
mod gaps;
mod impostors;
mod ours;
mod push;
mod relays;
mod remote;
mod repeats;
mod restarts;
mod sdk;
mod toolkit;
mod toolkit_cases;
mod toolkit_hostile;
mod toolkit_peer;
mod wild;
