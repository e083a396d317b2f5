//! A context strategy: what it returns, and the rules by which it works.

use std::sync::Arc;

use crate::context::counter::MessageMeasure;
use crate::context::error::ContextError;
use crate::context::history::History;
use crate::context::view::Reduction;

/// A rule that decides which messages of a history a model is shown, and how they are cut. It changes nothing: what it
/// returns stands in the inference's intent as data.
///
/// Tool calls and their answers are kept or dropped together: a view that parts them is refused.
pub trait ContextStrategy: Send + Sync + 'static {
    /// Returns the name with its settings, as the intent records it; of a long one, the first 1,000 characters.
    fn name(&self) -> String;

    /// Returns the view of a history, or that it stays as it is.
    ///
    /// # Errors
    /// [`ContextError`] if what must be sent does not fit.
    fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError>;

    /// Returns the way in which the intent's token figures are counted, by default four characters for each token.
    fn counting(&self) -> Option<&MessageMeasure> {
        None
    }

    /// Returns the tokens that the strategy never exceeds, if it has such a bound: of all that its view shows, as its
    /// [`counting`](Self::counting) counts them. A view that exceeds it is refused.
    fn limit(&self) -> Option<u64> {
        None
    }
}

impl ContextStrategy for Arc<dyn ContextStrategy> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
        (**self).reduce(history)
    }

    fn counting(&self) -> Option<&MessageMeasure> {
        (**self).counting()
    }

    fn limit(&self) -> Option<u64> {
        (**self).limit()
    }
}

impl std::fmt::Debug for dyn ContextStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ContextStrategy").field(&self.name()).finish()
    }
}

/// The rules by which a strategy divides a history and cuts texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rules {
    /// Each later question of a user begins a round, the newest question is never dropped, answers without their call are
    /// dropped, a cut text has the length that was set, and a limit holds.
    #[default]
    Taskreel,
    /// The rules of agentix 0.5.0, exactly, for histories that another program has to divide alike.
    Agentix,
}
