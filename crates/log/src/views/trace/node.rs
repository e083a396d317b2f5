//! The parts of a trace.

use proto_events::call::TokenUsage;
use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;

use crate::audit::json::{number, object, text, text_or_null};

/// The kind of a part of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraceKind {
    /// The session whose tasks stand below.
    Session,
    /// The task, or one that it gave to another agent.
    Task,
    /// A call of a tool.
    Tool,
    /// An inference.
    Infer,
    /// A request to another agent.
    Delegate,
    /// The embedder's own code.
    Handler,
    /// A question to a person whether a call may be made.
    Approval,
    /// An attempt of a call that had several.
    Attempt,
}

impl TraceKind {
    /// Returns its name on screens and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Task => "task",
            Self::Tool => "tool",
            Self::Infer => "infer",
            Self::Delegate => "delegate",
            Self::Handler => "handler",
            Self::Approval => "approval",
            Self::Attempt => "attempt",
        }
    }
}

/// A part of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceNode {
    /// The number of the part that caused it; none for the first.
    pub parent: Option<usize>,
    /// The number of causes above it.
    pub depth: usize,
    /// The kind.
    pub kind: TraceKind,
    /// The id of the task, the tool, the model or the agent; of an attempt its number.
    pub name: String,
    /// The id of the task, the call or the approval.
    pub id: String,
    /// The stream with its events.
    pub stream: StreamId,
    /// The version of its first event.
    pub version: Version,
    /// The newest state, as lists name it.
    pub state: String,
    /// Whether it failed, or its outcome is not known.
    pub is_failed: bool,
    /// The reason of the failure.
    pub error: Option<String>,
    /// The author of its first event.
    pub principal: String,
    /// The time of its first event.
    pub began: Timestamp,
    /// The time of its end; none while it goes on.
    pub ended: Option<Timestamp>,
    /// The number of attempts of a call that were sent.
    pub attempts: u32,
    /// The tokens of all attempts that report their usage.
    pub usage: Option<TokenUsage>,
    /// Whether the end of the task waited for it: without it, the task would have ended earlier.
    pub is_critical: bool,
}

impl TraceNode {
    /// Returns the time that it took, in microseconds; none while it goes on.
    pub fn took_us(&self) -> Option<u64> {
        u64::try_from(self.ended?.0.saturating_sub(self.began.0)).ok()
    }

    /// Returns it as JSON; `at` is its number in the trace.
    pub fn to_json(&self, at: usize) -> JsonText {
        let or_null = |figure: Option<u64>| figure.map_or_else(JsonText::null, number);
        object([
            ("schema", text("taskreel.trace/1")),
            ("node", number(at as u64)),
            ("parent", or_null(self.parent.map(|parent| parent as u64))),
            ("depth", number(self.depth as u64)),
            ("kind", text(self.kind.as_str())),
            ("name", text(&self.name)),
            ("id", text(&self.id)),
            ("stream", text(self.stream.as_str())),
            ("version", number(self.version.0)),
            ("state", text(&self.state)),
            ("failed", JsonText::of_model(&self.is_failed)),
            ("error", text_or_null(self.error.as_deref())),
            ("principal", text(&self.principal)),
            ("began", text(&self.began.to_string())),
            ("ended", text_or_null(self.ended.map(|ended| ended.to_string()).as_deref())),
            ("took_us", or_null(self.took_us())),
            ("attempts", number(self.attempts)),
            ("input_tokens", or_null(self.usage.map(|usage| usage.input_tokens))),
            ("output_tokens", or_null(self.usage.map(|usage| usage.output_tokens))),
            ("critical", JsonText::of_model(&self.is_critical)),
        ])
    }
}

/// The trace of a task or session: its parts, each behind the one that caused it and before those that it caused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// The parts.
    pub nodes: Vec<TraceNode>,
}

impl Trace {
    /// Returns which parts are wanted, with all that caused them.
    pub fn with_causes(&self, wanted: impl Fn(&TraceNode) -> bool) -> Vec<bool> {
        let mut kept: Vec<bool> = self.nodes.iter().map(wanted).collect();
        // A cause stands before what it caused.
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if kept.get(at) == Some(&true)
                && let Some(cause) = node.parent.and_then(|parent| kept.get_mut(parent))
            {
                *cause = true;
            }
        }
        kept
    }
}
