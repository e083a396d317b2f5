//! The errors of context strategies.

/// A setting that no strategy or counter takes. The texts equal agentix's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// A heuristic counter needs a positive number of characters for each token.
    #[error("chars_per_token must be > 0")]
    CharsPerToken,
    /// At least one round must be kept.
    #[error("max_rounds must be >= 1")]
    MaxRounds,
    /// At least one character must be kept.
    #[error("max_chars must be >= 1")]
    MaxChars,
    /// The window must have at least one token.
    #[error("max_tokens must be >= 1")]
    MaxTokens,
    /// The reserve cannot be negative.
    #[error("reserve_tokens must be >= 0")]
    NegativeReserve,
    /// The reserve leaves nothing of the window.
    #[error("reserve_tokens must be < max_tokens; reserve less of the window for the answer")]
    ReserveOfAll,
}

/// The reason why a strategy has no view of a history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The messages that must be sent do not fit.
    #[error(
        "the instructions, the newest question and the newest round need {needed} tokens of a limit of {limit}; \
shorten them, or raise the limit"
    )]
    DoesNotFit {
        /// The tokens of what must be sent, with its tool outputs cut as far as they can be.
        needed: u64,
        /// The tokens that may be sent.
        limit: u64,
    },
    /// A strategy of the host has returned a view that cannot be sent.
    #[error("the context strategy `{strategy}` has returned a view that cannot be sent: {why}")]
    View {
        /// The name of the strategy.
        strategy: String,
        /// The fault of the view.
        why: String,
    },
    /// The settings of a strategy contradict each other.
    #[error("the context strategy `{strategy}` cannot be used: {why}")]
    Setting {
        /// The name of the strategy.
        strategy: String,
        /// The setting.
        why: SettingError,
    },
    /// A strategy or a counter of the host has panicked.
    #[error("the context strategy `{strategy}` has panicked: {why}")]
    Panicked {
        /// The name of the strategy; `?` if it panicked before it had told its name.
        strategy: String,
        /// The text of the panic.
        why: String,
    },
}
