//! A task and the tasks that it gave to other agents, as one tree with their calls.

use proto_events::id::StreamId;
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::views::{Course, TraceKind, TraceNode, cut, trace};

use crate::inspect::frame::Cx;
use crate::inspect::pages::runs::ERROR_COLUMNS;
use crate::inspect::words;

/// The most rows of a tree, and the deepest indentation.
const ROWS_MAX: usize = 300;
const DEPTH_MAX: usize = 8;

/// A row of the tree.
#[derive(Debug)]
pub(crate) struct TreeRow {
    pub(crate) depth: usize,
    pub(crate) sign: &'static str,
    pub(crate) class: &'static str,
    pub(crate) state: String,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) facts: String,
    pub(crate) error: Option<String>,
}

/// Returns the tree below a task; nothing if it asked no other agent, or if the tree cannot be read to its end.
///
/// # Errors
/// [`ReadError`] if the log cannot be read for another reason than damage.
pub(crate) fn tree(
    cx: &Cx,
    log: &dyn EventReader,
    course: &Course,
    stream: &StreamId,
) -> Result<Vec<TreeRow>, ReadError> {
    if !course.calls.iter().any(|call| call.kind == TraceKind::Delegate.as_str()) {
        return Ok(Vec::new());
    }
    let traced = match trace(log, stream) {
        Err(ReadError::Corrupt { .. } | ReadError::Newer { .. }) => return Ok(Vec::new()),
        traced => traced?,
    };
    // Attempts and approvals stand in the task's own list of events.
    let is_shown = |node: &&TraceNode| !matches!(node.kind, TraceKind::Attempt | TraceKind::Approval);
    let mut rows: Vec<TreeRow> =
        traced.nodes.iter().filter(is_shown).take(ROWS_MAX).map(|node| TreeRow::new(cx, node)).collect();
    let left = traced.nodes.iter().filter(is_shown).count().saturating_sub(rows.len());
    if left > 0 {
        let facts = format!("{} more are not shown here", words::count(left as u64));
        rows.push(TreeRow { facts, ..TreeRow::default() });
    }
    Ok(rows)
}

impl Default for TreeRow {
    fn default() -> Self {
        Self {
            depth: 0,
            sign: "…",
            class: "quiet",
            state: String::new(),
            kind: "",
            name: String::new(),
            url: String::new(),
            facts: String::new(),
            error: None,
        }
    }
}

impl TreeRow {
    fn new(cx: &Cx, node: &TraceNode) -> Self {
        let (sign, class) = match node.state.as_str() {
            _ if node.is_failed => ("✗", "bad"),
            "completed" | "succeeded" => ("✓", "good"),
            "input-required" => ("?", "asks"),
            _ if node.ended.is_some() => ("⊘", "quiet"),
            _ => ("●", "busy"),
        };
        let took = node.took_us().and_then(|took| i64::try_from(took).ok()).map(words::micros);
        let tokens = node.usage.map(words::tokens).filter(|tokens| !tokens.is_empty());
        let agent = (node.kind == TraceKind::Task).then(|| format!("agent {}", node.stream.agent()));
        let attempts = (node.attempts > 1).then(|| format!("{} attempts", node.attempts));
        let critical = node.is_critical.then(|| "the end waited for it".to_owned());
        let facts: Vec<String> =
            [agent, took, tokens.map(|tokens| format!("{tokens} tokens")), attempts, critical]
                .into_iter()
                .flatten()
                .collect();
        Self {
            depth: node.depth.min(DEPTH_MAX),
            sign,
            class,
            state: node.state.clone(),
            kind: node.kind.as_str(),
            name: node.name.clone(),
            url: cx.links.event(&node.stream, node.version),
            facts: facts.join(" · "),
            error: node.error.as_deref().map(|error| cut(error, ERROR_COLUMNS, "…")),
        }
    }
}
