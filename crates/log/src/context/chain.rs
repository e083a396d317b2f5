//! A chain of strategies.

use std::sync::Arc;

use crate::context::counter::MessageMeasure;
use crate::context::error::ContextError;
use crate::context::history::History;
use crate::context::strategy::ContextStrategy;
use crate::context::view::Reduction;

/// Strategies that are applied one after another, each to the view of the one before it.
///
/// ```
/// use taskreel_log::context::{Chain, ContextStrategy, FitContextWindow, TruncateToolOutputs};
///
/// let chain = Chain::new(TruncateToolOutputs::new(4_000)?).then(FitContextWindow::new(128_000)?);
/// assert_eq!(chain.name(), "truncate-tool-outputs(4000), fit-context-window(128000)");
/// # Ok::<_, taskreel_log::context::SettingError>(())
/// ```
#[derive(Clone)]
pub struct Chain(Vec<Arc<dyn ContextStrategy>>);

impl Chain {
    /// Returns a chain of one strategy.
    pub fn new(first: impl ContextStrategy) -> Self {
        Self(vec![Arc::new(first)])
    }

    /// Adds a strategy that is applied to what the others have left.
    #[must_use]
    pub fn then(mut self, next: impl ContextStrategy) -> Self {
        self.0.push(Arc::new(next));
        self
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Chain").field(&self.name()).finish()
    }
}

impl ContextStrategy for Chain {
    fn name(&self) -> String {
        self.0.iter().map(ContextStrategy::name).collect::<Vec<_>>().join(", ")
    }

    fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
        let before = history.view().clone();
        let reduced = self.0.iter().try_for_each(|strategy| {
            let given = history.view().clone();
            // A view that a strategy sets and does not return is not its answer.
            let left = match strategy.reduce(history)? {
                Reduction::View(view) => view,
                Reduction::Unchanged => given,
            };
            history.set_view(left);
            Ok(())
        });
        let after = history.view().clone();
        let is_unchanged = after == before;
        history.set_view(before);
        reduced.map(|()| if is_unchanged { Reduction::Unchanged } else { Reduction::View(after) })
    }

    fn counting(&self) -> Option<&MessageMeasure> {
        self.0.iter().rev().find_map(|strategy| strategy.counting())
    }

    /// Returns the bound of the last strategy, if the chain's figures are counted as it counts. A strategy behind a bound may
    /// send more again, and a bound of another counter says nothing of these figures.
    fn limit(&self) -> Option<u64> {
        let last = self.0.last()?;
        let is_counted_alike = last.counting().is_some() || self.counting().is_none();
        last.limit().filter(|_| is_counted_alike)
    }
}
