//! A2A over HTTP: the operations on every binding, the error table, streams that break off, callers and their tasks, cards.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, in helpers too")]

#[path = "../support/mod.rs"]
mod support;

mod agent;
mod asked;
mod cards;
mod guarded;
mod hook;
mod operations;
mod owners;
mod push;
mod push_addresses;
mod push_faults;
mod push_restarts;
mod refusals;
mod sdk;
mod streams;
