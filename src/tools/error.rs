//! The errors that a tool returns.

use std::fmt;
use std::time::Duration;

/// The kind of a tool's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolErrorKind {
    /// The arguments do not suit the tool. In the infer loop the error is reported to the model, which may
    /// retry.
    Arguments,
    /// Any other failure. Inside the infer loop it ends the run.
    Failed,
    /// The request was certainly never sent, so that it had no effect. Inside the infer loop it ends the run.
    NotSent,
    /// The request was sent and its answer is lost: the effect may have taken place. The tool's recovery mode decides
    /// what follows, as after a crash.
    Lost,
}

/// The tool's own word on retries of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolRetry {
    ByPolicy,
    After(Duration),
    Never,
}

/// A tool's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    kind: ToolErrorKind,
    type_name: String,
    message: String,
    retry: ToolRetry,
}

impl ToolError {
    /// Creates an error for unsuitable arguments; `message` is written for the model and says what to change.
    pub fn arguments(message: impl Into<String>) -> Self {
        Self {
            kind: ToolErrorKind::Arguments,
            type_name: "ArgumentError".to_owned(),
            message: message.into(),
            retry: ToolRetry::ByPolicy,
        }
    }

    /// Creates an error for work that the tool could not do.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Failed, "ToolError", message.into())
    }

    /// Creates an error for a request that was certainly never sent, for example since no connection was made.
    pub fn not_sent(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::NotSent, "NotSent", message.into())
    }

    /// Creates an error for a request that was sent and whose answer is lost: the connection broke, the other side ended,
    /// or its answer cannot be read. What follows is decided by the tool's recovery mode, as after a crash: a manual call
    /// is never repeated and its outcome is unknown.
    pub fn lost(message: impl Into<String>) -> Self {
        Self::new(ToolErrorKind::Lost, "Lost", message.into())
    }

    /// Says that a retry would be of no use, whatever the tool's policy allows.
    #[must_use]
    pub fn final_(mut self) -> Self {
        self.retry = ToolRetry::Never;
        self
    }

    /// Sets the time after which a retry may succeed, in place of the growing back-off. A retry follows only where the
    /// tool's policy allows one ([`ToolPolicy::retries`](crate::tool::ToolPolicy::retries)). At most
    /// [`RETRY_AFTER_MAX`](crate::limits::RETRY_AFTER_MAX).
    #[must_use]
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.retry = ToolRetry::After(time);
        self
    }

    fn new(kind: ToolErrorKind, type_name: &str, message: String) -> Self {
        Self { kind, type_name: type_name.to_owned(), message, retry: ToolRetry::ByPolicy }
    }

    /// Returns the tool's own word on retries.
    pub(crate) fn retry(&self) -> ToolRetry {
        self.retry
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

    /// Returns the error with its texts changed.
    pub(crate) fn masked(self, change: impl Fn(&str) -> String) -> Self {
        Self { type_name: change(&self.type_name), message: change(&self.message), ..self }
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
