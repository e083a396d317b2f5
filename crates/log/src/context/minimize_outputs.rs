//! A strategy that minimizes long results of calls, and says how to see the rest.

use crate::artifacts::CharacterLimit;
use crate::context::error::ContextError;
use crate::context::history::History;
use crate::context::strategy::ContextStrategy;
use crate::context::view::Reduction;

/// Minimizes the results of calls that are longer than a number of characters; only tools' answers whose call no message asks
/// for are dropped.
///
/// A long text keeps its head and its tail with the ranges that they are; lists, tables and objects become a summary, as
/// [`DataArtifacts::minimize`](crate::artifacts::DataArtifacts::minimize) makes it. Each form names the tool and the ids
/// that show the rest, and exceeds the limit by no more than 4,096 characters; a result that is shorter than its form is sent whole. Only messages that say where their result stands in
/// the log are minimized: an agent writes that where it has the tools that view artifacts, and never for what these return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinimizeOutputs {
    limit: CharacterLimit,
}

impl MinimizeOutputs {
    /// Returns a strategy that minimizes results of more than this number of characters.
    pub fn new(limit: CharacterLimit) -> Self {
        Self { limit }
    }

    fn minimized(self, history: &History<'_>) -> Reduction {
        let limit = u64::try_from(self.limit.get()).unwrap_or(u64::MAX);
        let mut view = history.view().clone();
        for number in history.view().numbers() {
            if history.characters(number) <= limit || history.view().cut_of(number).is_some() {
                continue;
            }
            if history.tip(number).is_empty() {
                continue;
            }
            view.minimize(number, limit);
            if !history.is_shorter_in(number, &view) {
                view.restore(number);
            }
        }
        if view == *history.view() { Reduction::Unchanged } else { Reduction::View(view) }
    }
}

impl ContextStrategy for MinimizeOutputs {
    fn name(&self) -> String {
        format!("minimize-outputs({})", self.limit.get())
    }

    fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
        history.without_orphans(|history| Ok(self.minimized(history)))
    }
}
