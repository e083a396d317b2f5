//! Free-form JSON: as its own text ([`JsonText`], [`JsonObject`]), and as a tree that keeps numbers and order
//! ([`JsonValue`]).
//!
//! No feature of `serde_json` beside `std` and `raw_value` is used: features such as `arbitrary_precision`
//! are shared by a whole program and would change what the host's own code prints.

pub(crate) mod convert;
pub(crate) mod error;
mod finite;
pub(crate) mod literal;
mod member;
pub(crate) mod number;
pub(crate) mod parse;
pub(crate) mod text;
pub(crate) mod tree;
mod write;

pub use error::JsonError;
pub use number::{JsonNumber, NotANumber};
pub use text::{JsonObject, JsonText};
pub use tree::{JsonMap, JsonValue};
