//! Tests of your own store: the conformance suite that every store passes, and a store that fails on demand.
//! Not part of a normal build (feature `testing`).

pub mod conformance;
pub(crate) mod faulty;

pub use crate::testing::faulty::FaultyStore;
pub use crate::testing::faulty::plan::{AppendFault, Faults, InjectedFault, ReadFault};
