//! The client of A2A: against our own server in both versions over both bindings, through connections that break anywhere,
//! and against servers that answer wrongly.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, in helpers too")]

#[path = "../a2a/agent.rs"]
mod agent;
#[path = "../a2a/hook.rs"]
#[allow(dead_code, reason = "the tests of the server use all of it")]
mod hook;
#[path = "../support/mod.rs"]
mod support;

mod answers;
mod cards;
mod cuts;
mod forge;
mod gaps;
mod ours;
mod push;
mod repeats;
mod sdk;
