//! A2A over gRPC: the operations, the error table, streams, callers, and the official client.
#![cfg(feature = "grpc")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, in helpers too")]

#[path = "../a2a/agent.rs"]
mod agent;
#[path = "../support/mod.rs"]
mod support;

mod callers;
mod ends;
mod official;
mod operations;
mod peer;
mod raw;
mod refusals;
mod sdk;
mod streams;
mod tls;
