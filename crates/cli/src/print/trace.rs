//! `trace`: prints the tree of causes of a task or session.

use std::fmt::Write as _;

use taskreel_log::views::{Expression, Trace, TraceKind, TraceNode, TreeMarks, tree_lines};

use crate::print::answer::Answer;
use crate::print::plain::columns;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, note};
use crate::print::time;

/// The most levels whose lines are drawn on a screen of any width.
const LEVELS_MAX: usize = 32;

/// The parts of a trace that are shown.
pub(crate) struct TraceOptions {
    /// The most levels below the task.
    pub(crate) depth: Option<usize>,
    /// Whether only what failed is shown.
    pub(crate) is_failed_only: bool,
    /// Whether only the critical path is shown.
    pub(crate) is_critical_only: bool,
    /// The condition over the parts.
    pub(crate) condition: Option<Expression>,
}

impl TraceOptions {
    /// Whether a part is wanted; its causes are shown with it.
    fn wants(&self, node: &TraceNode) -> bool {
        (!self.is_failed_only || node.is_failed)
            && (!self.is_critical_only || node.is_critical)
            && self.condition.as_ref().is_none_or(|it| it.holds(&node.to_json(0).tree()))
    }
}

/// Prints a trace. `next` is the command that shows an event.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn trace(
    trace: &Trace,
    shown: &TraceOptions,
    next: &str,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let kept = trace.with_causes(|node| shown.wants(node));
    let is_in = |depth: usize| shown.depth.is_none_or(|most| depth <= most);
    let kept: Vec<(usize, &TraceNode)> =
        trace.nodes.iter().enumerate().zip(kept).filter(|(_, kept)| *kept).map(|(node, _)| node).collect();
    let rows: Vec<(usize, &TraceNode)> = kept.iter().copied().filter(|(_, node)| is_in(node.depth)).collect();
    if screen.json {
        rows.iter().try_for_each(|(at, node)| screen.json_line(&node.to_json(*at)))?;
        screen.flush()?;
        return Ok(Answer::Yes);
    }
    let depths: Vec<usize> = rows.iter().map(|(_, node)| node.depth).collect();
    let marks = if screen.is_unicode() { TreeMarks::BOX } else { TreeMarks::ASCII };
    let levels = screen.width().map_or(LEVELS_MAX, |width| (width / 6).clamp(1, LEVELS_MAX));
    for (line, (_, node)) in tree_lines(&depths, levels, marks).iter().zip(&rows) {
        print_node(line, node, screen)?;
    }
    screen.flush()?;
    if rows.len() < kept.len() {
        note(&format!("{} more lie deeper than --depth shows", kept.len() - rows.len()));
    }
    if let Some((_, node)) = rows.iter().rev().find(|(_, node)| node.is_failed).or(rows.last()) {
        note(&format!("* the end waited for it; next: {next} {} {}", node.stream, node.version));
    } else {
        note("nothing fits");
    }
    Ok(Answer::Yes)
}

/// Returns a part of a trace in words.
pub(crate) fn said_of(node: &TraceNode) -> String {
    let mut said = format!("{} {}", node.kind.as_str(), node.name);
    let _ = write!(said, "  {}", node.state);
    if node.kind == TraceKind::Task && !node.principal.is_empty() {
        let _ = write!(said, "  by {}", node.principal);
    }
    if let Some(took) = node.took_us() {
        let _ = write!(said, "  {}", time::span_us(took));
    }
    if node.attempts > 1 {
        let _ = write!(said, "  {} attempts", node.attempts);
    }
    if let Some(usage) = node.usage {
        let _ = write!(said, "  {} + {} tokens", usage.input_tokens, usage.output_tokens);
    }
    let _ = write!(said, "  v{}", node.version);
    if node.is_critical && node.kind != TraceKind::Attempt {
        said.push_str(" *");
    }
    // The reason last: it is the longest.
    if let Some(error) = &node.error {
        let _ = write!(said, "  {error}");
    }
    said
}

fn print_node(line: &str, node: &TraceNode, screen: &mut Screen) -> Result<(), Problem> {
    let said = said_of(node);
    let mark = if node.is_failed { format!("{} ", screen.mark(true)) } else { String::new() };
    let used = columns(line) + if node.is_failed { 2 } else { 0 };
    let said = screen.fit(&said, used);
    screen.line(&format!("{line}{mark}{said}"))
}
