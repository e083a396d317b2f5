//! A2A over HTTP: the operations on every binding, the error table, streams that break off, callers and their tasks, cards.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, in helpers too")]

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "other programs use the rest")]
#[path = "../bad_requests_support/mod.rs"]
mod bad_requests_support;

mod agent;
mod asked;
mod bad;
mod cards;
mod chunks;
mod crowds;
mod guarded;
mod hook;
mod lists;
mod operations;
mod owners;
mod push;
mod push_addresses;
mod push_faults;
mod push_model;
mod push_restarts;
mod refusals;
mod replies;
mod restricted;
mod sdk;
mod signed;
mod stepping;
mod streams;
mod verdicts;
mod wild;
