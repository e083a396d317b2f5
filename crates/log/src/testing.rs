//! Tests of your own store, and of a program over a store: the conformance suite that every store passes, a store that fails on
//! demand ([`FaultyStore`]), and one that forwards all but what a test overrides ([`DelegatingStore`]).
//! Not part of a normal build (feature `testing`).

pub mod conformance;
pub(crate) mod delegating_store;
pub(crate) mod faulty;

pub use crate::testing::delegating_store::{DelegatingStore, Overrides, StoreRead};
pub use crate::testing::faulty::FaultyStore;
pub use crate::testing::faulty::plan::{AppendFault, Faults, InjectedFault, ReadFault};
