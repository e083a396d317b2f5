//! People in the middle of a run: approvals, questions, and decisions from outside.

#[path = "../approvals_support/mod.rs"]
mod approvals_support;

mod approval_handler;
mod approvals;
mod message_answers;
mod questions;
#[cfg(target_os = "linux")]
mod socket_decisions;
