//! The fault of a condition, with its place.

/// A text that is not a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ExpressionError {
    at: usize,
    what: String,
}

impl ExpressionError {
    /// Returns the fault at a place of the text, in bytes.
    pub fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// Returns the place of the fault in the text, in bytes; its length is the end.
    pub const fn at(&self) -> usize {
        self.at
    }
}
