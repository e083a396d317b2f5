//! The critical path: what the end of a task waited for.

use proto_events::envelope::Timestamp;

use crate::views::trace::node::{TraceKind, TraceNode};

/// Marks the parts that the end of the first one waited for, going back from its end: the last part that ended before, then
/// the last one that ended before that began, and so on; and within each of these likewise. `within` is the part in whose
/// time each part lies, `last_at` the time of what has not ended.
pub(super) fn mark(nodes: &mut [TraceNode], within: &[usize], last_at: &[Timestamp]) {
    let mut inside: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, around) in within.iter().enumerate().skip(1) {
        let is_timed = nodes.get(at).is_some_and(|node| node.kind != TraceKind::Attempt);
        if let Some(inside) = inside.get_mut(*around).filter(|_| is_timed && *around != at) {
            inside.push(at);
        }
    }
    let ended = |nodes: &[TraceNode], at: usize| {
        let last = last_at.get(at).copied().unwrap_or_default();
        nodes.get(at).map_or(last, |node| node.ended.unwrap_or(last))
    };
    let mut todo = vec![0];
    while let Some(around) = todo.pop() {
        let mut cursor = ended(nodes, around);
        if let Some(node) = nodes.get_mut(around) {
            node.is_critical = true;
        }
        let Some(inner) = inside.get_mut(around) else { continue };
        inner.sort_by_key(|at| (ended(nodes, *at), nodes.get(*at).map(|node| node.began)));
        for at in inner.iter().rev() {
            if ended(nodes, *at) <= cursor
                && let Some(node) = nodes.get(*at)
            {
                cursor = node.began;
                todo.push(*at);
            }
        }
    }
}
