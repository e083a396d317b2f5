//! What a tool is: the code that runs, what that code is given, and how it fails.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use proto_events::json::JsonText;
use tokio_util::sync::CancellationToken;

use super::tool_state::ToolState;

/// A future on the heap, as traits that are used as objects must return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Code that carries out a call. Mostly made from an `async fn`, see [`IntoTool`](super::into_tool::IntoTool).
pub trait Tool: Send + Sync + 'static {
    /// Starts the call. `args` is an object that was checked against the tool's schema.
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>>;

    /// Whether the work occupies a thread, so that dropping the future does not end it: a cancel or a timeout then
    /// waits for nobody, and what comes of it later is evidence.
    fn is_blocking(&self) -> bool {
        false
    }
}

/// Which kind of failure a tool reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolErrorKind {
    /// The arguments do not suit the tool. Inside the infer loop the model is told and may try again.
    Arguments,
    /// Anything else. Inside the infer loop it ends the run.
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
    /// The arguments do not suit the tool; `message` tells the model what to change.
    pub fn arguments(message: impl Into<String>) -> Self {
        Self {
            kind: ToolErrorKind::Arguments,
            type_name: "ArgumentError".to_owned(),
            message: message.into(),
        }
    }

    /// The tool could not do it.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { kind: ToolErrorKind::Failed, type_name: "ToolError".to_owned(), message: message.into() }
    }

    /// Names the error's type, which stands in for an empty message.
    #[must_use]
    pub fn with_type(mut self, type_name: impl Into<String>) -> Self {
        self.type_name = type_name.into();
        self
    }

    /// The same in other words.
    #[cfg(feature = "mcp")]
    pub(crate) fn reworded(&self, message: String) -> Self {
        Self { message, ..self.clone() }
    }

    /// Which kind.
    pub fn kind(&self) -> ToolErrorKind {
        self.kind
    }

    /// The error's type, for example `ParseIntError`.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// What went wrong; the type's name where the tool gave no words, because a failure must be visible.
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

/// Tells a running tool that its result is no longer wanted.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(CancellationToken);

impl Cancellation {
    /// A call that was not canceled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels; every clone sees it. For whoever runs tools.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether the call was canceled.
    pub fn is_canceled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Ends when the call is canceled, and never otherwise.
    pub async fn canceled(&self) {
        self.0.cancelled().await;
    }
}

/// Takes a progress text.
pub type ProgressSink = Arc<dyn Fn(&str) + Send + Sync>;

/// What a [`ToolContext`] is made of. For whoever runs tools, and for tests of tools.
#[derive(Clone, Default)]
pub struct ToolContextParts {
    /// The task on whose behalf the call is made.
    pub task_id: String,
    /// The call's id, the same for every attempt.
    pub call_id: String,
    /// The key that an idempotent tool hands on, the same for every attempt.
    pub idempotency_key: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// When this attempt will be given up.
    pub deadline: Option<Instant>,
    /// Tells of a cancel.
    pub cancellation: Cancellation,
    /// Takes progress texts; without it they are dropped.
    pub progress: Option<ProgressSink>,
    /// What the tool keeps between its calls.
    pub state: ToolState,
}

impl fmt::Debug for ToolContextParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContextParts")
            .field("task_id", &self.task_id)
            .field("call_id", &self.call_id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// What a tool is told about the call that it carries out.
#[derive(Debug, Clone)]
pub struct ToolContext(Arc<ToolContextParts>);

impl ToolContext {
    /// A context from its parts.
    pub fn new(parts: ToolContextParts) -> Self {
        Self(Arc::new(parts))
    }

    /// The task on whose behalf the call is made.
    pub fn task_id(&self) -> &str {
        &self.0.task_id
    }

    /// The call's id, the same for every attempt.
    pub fn call_id(&self) -> &str {
        &self.0.call_id
    }

    /// Hand this on to a service that honours such keys: every attempt of this call has the same one, no
    /// other call has it.
    pub fn idempotency_key(&self) -> &str {
        &self.0.idempotency_key
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// When this attempt will be given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Tells of a cancel.
    pub fn cancellation(&self) -> &Cancellation {
        &self.0.cancellation
    }

    /// What the tool keeps between its calls: `get`, `put`, `list`, `delete`, written with the success of this call.
    pub fn state(&self) -> &ToolState {
        &self.0.state
    }

    /// Tells whoever watches how far the work is. A hint: it may be dropped, and it is not stored.
    pub fn progress(&self, text: &str) {
        if let Some(sink) = &self.0.progress {
            sink(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn an_error_without_words_shows_its_type() {
        let error = ToolError::failed("  ").with_type("TimedOut");
        assert_eq!(error.to_string(), "TimedOut");
        assert_eq!(ToolError::failed("boom").message(), "boom");
    }

    #[test]
    fn progress_reaches_a_listener_and_is_dropped_without_one() {
        ToolContext::new(ToolContextParts::default()).progress("nobody hears");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&heard);
        let cx = ToolContext::new(ToolContextParts {
            progress: Some(Arc::new(move |text: &str| {
                sink.lock().unwrap().push(text.to_owned());
            })),
            ..ToolContextParts::default()
        });
        cx.progress("half");
        assert_eq!(*heard.lock().unwrap(), ["half"]);
    }

    #[tokio::test]
    async fn a_cancel_is_seen_by_every_clone() {
        let cancellation = Cancellation::new();
        let cx = ToolContext::new(ToolContextParts {
            cancellation: cancellation.clone(),
            ..ToolContextParts::default()
        });
        assert!(!cx.cancellation().is_canceled());
        cancellation.cancel();
        cx.clone().cancellation().canceled().await;
        assert!(cx.cancellation().is_canceled());
    }
}
