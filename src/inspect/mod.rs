//! Floor 4, for readers: rows made from the log alone ([`view`], [`calls`]), names that people type ([`find`]), and the
//! command line's way to print both ([`cli`]). Everything here takes an
//! [`EventReader`](crate::store::EventReader) and knows no actor.

pub mod calls;
#[cfg(feature = "cli")]
pub mod cli;
pub mod doctor;
pub mod find;
pub mod stats;
pub mod summary;
pub mod view;
