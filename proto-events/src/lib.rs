//! The vocabulary of taskreel: commands, events, the functions between them (`decide`, `evolve`), and the
//! encoding of events as bytes.
//!
//! The crate is pure: no clock, no randomness, no IO, no `async`. Times and ids arrive from outside. An
//! auditor's own tool can depend on it alone to read a log and fold it.
//!
//! Imports go only downward: [`codec`] over [`task`], [`session`], [`tool_store`], [`flow`], [`system`] and [`definition`] over [`call`] and
//! [`turn`] over [`decider`] and [`model`] over [`envelope`] over [`id`] and [`mod@json`] over [`limits`].
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `testing` | `scenario`: given, when, then, for tests of deciders; `hashed`: a count of hashed blocks, for benches |

pub mod call;
pub mod codec;
pub mod decider;
pub mod definition;
pub mod envelope;
pub mod flow;
mod growing_list;
#[cfg(feature = "testing")]
pub mod hash_count;
pub mod id;
pub mod json;
pub mod limits;
mod memo;
pub mod model;
pub mod registry;
#[cfg(feature = "testing")]
pub mod scenario;
pub mod secret;
pub mod session;
pub mod system;
pub mod task;
pub mod tool_store;
pub mod turn;

pub use growing_list::GrowingList;
