//! The errors that a tool returns.

use std::fmt;

/// The kind of a tool's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolErrorKind {
    /// The arguments do not suit the tool. In the infer loop the error is reported to the model, which may
    /// retry.
    Arguments,
    /// Any other failure. Inside the infer loop it ends the run.
    Failed,
}

/// A tool's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    kind: ToolErrorKind,
    type_name: String,
    message: String,
}

impl ToolError {
    /// Creates an error for unsuitable arguments; `message` is written for the model and says what to change.
    pub fn arguments(message: impl Into<String>) -> Self {
        Self {
            kind: ToolErrorKind::Arguments,
            type_name: "ArgumentError".to_owned(),
            message: message.into(),
        }
    }

    /// Creates an error for work that the tool could not do.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { kind: ToolErrorKind::Failed, type_name: "ToolError".to_owned(), message: message.into() }
    }

    /// Sets the error's type, which replaces an empty message.
    #[must_use]
    pub fn with_type(mut self, type_name: impl Into<String>) -> Self {
        self.type_name = type_name.into();
        self
    }

    /// Returns the error with another message.
    #[cfg(feature = "mcp")]
    pub(crate) fn reworded(&self, message: String) -> Self {
        Self { message, ..self.clone() }
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> ToolErrorKind {
        self.kind
    }

    /// Returns the error's type, for example `ParseIntError`.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns the message, or the type's name where the tool gave no message, because a failure must be
    /// visible.
    pub fn message(&self) -> &str {
        if self.message.trim().is_empty() { &self.type_name } else { &self.message }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for ToolError {}
