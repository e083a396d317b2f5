//! The vocabulary of taskreel: what is said (commands), what happened (events), how one follows from the
//! other (`decide`, `evolve`), and how events become bytes and come back.
//!
//! This crate is pure: no clock, no randomness, no IO, no `async`. Times and ids arrive from outside. An
//! auditor's own tool can depend on it alone to read a log and fold it.
//!
//! Floors, imports only downward: [`codec`] over [`task`], [`session`] and [`tool_store`] over [`call`] and [`turn`] over [`model`] over
//! [`envelope`] over [`id`], [`json`], [`decider`] and [`limits`].

pub mod call;
pub mod codec;
pub mod decider;
pub mod envelope;
pub mod id;
pub mod json;
pub mod limits;
pub mod model;
#[cfg(feature = "testing")]
pub mod scenario;
pub mod session;
pub mod task;
pub mod tool_store;
pub mod turn;
