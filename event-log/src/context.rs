//! The size of what a model is shown: pure functions over messages.

pub(crate) mod tokens;

pub use crate::context::tokens::{MessagesEstimate, estimate_tokens};
