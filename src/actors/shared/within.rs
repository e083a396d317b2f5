//! The spans that travel with messages.

use tracing::Span;

/// A span that travels with a message; by default none.
#[derive(Debug, Clone)]
pub(crate) struct Within(pub(crate) Span);

impl Default for Within {
    fn default() -> Self {
        Self(Span::none())
    }
}
