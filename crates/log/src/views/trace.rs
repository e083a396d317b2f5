//! The trace of a task or session: what caused what, as a tree of calls, approvals, attempts and tasks of other agents, with times.

mod build;
mod critical;
mod node;
mod session;
mod trace_reader;

pub use crate::views::trace::build::trace;
pub use crate::views::trace::node::{Trace, TraceKind, TraceNode};

#[cfg(test)]
mod tests;
