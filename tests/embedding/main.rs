//! The library as an embedder uses it: in a service, in tests of its own, and where first users stumbled.

#[path = "../call_support/mod.rs"]
mod call_support;

mod embedding_defects;
mod embedding_runs;
mod embedding_service;
mod testing_kit;
