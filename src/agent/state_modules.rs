//! The modules of an agent's state, and the compaction of its conversations, as settings.

use proto_events::model::{CompactionStrategy, HistoryCompactionRequest};

/// A module of an agent's state, under Protolink's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StateModule {
    /// The conversations, by session.
    Conversation,
    /// The values that tools keep between their calls.
    Tools,
    /// The tasks.
    Task,
    /// The checkpoints of runs.
    Flow,
}

impl StateModule {
    /// All modules, in Protolink's order.
    pub const ALL: [Self; 4] = [Self::Conversation, Self::Tools, Self::Task, Self::Flow];

    /// Returns the module's name in Protolink's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Tools => "tools",
            Self::Task => "task",
            Self::Flow => "flow",
        }
    }

    /// Returns the module of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|module| module.as_str() == name)
    }
}

/// The modules of an agent's state that its control plane describes and resets. By default it is the conversation alone.
///
/// ```
/// use taskreel::state::{StateModule, StateModules};
///
/// let modules = StateModules::none().with(StateModule::Conversation).with(StateModule::Flow);
/// assert!(modules.has(StateModule::Flow) && !modules.has(StateModule::Tools));
/// assert_eq!(StateModules::all().enabled().count(), 4);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateModules([bool; 4]);

impl Default for StateModules {
    fn default() -> Self {
        Self::none().with(StateModule::Conversation)
    }
}

impl StateModules {
    /// Returns no module.
    pub const fn none() -> Self {
        Self([false; 4])
    }

    /// Returns all modules.
    pub const fn all() -> Self {
        Self([true; 4])
    }

    /// Adds a module.
    #[must_use]
    pub fn with(mut self, module: StateModule) -> Self {
        self.set(module, true);
        self
    }

    /// Leaves a module out.
    #[must_use]
    pub fn without(mut self, module: StateModule) -> Self {
        self.set(module, false);
        self
    }

    fn set(&mut self, module: StateModule, on: bool) {
        for (known, enabled) in StateModule::ALL.into_iter().zip(&mut self.0) {
            if known == module {
                *enabled = on;
            }
        }
    }

    /// Whether the module is enabled.
    pub fn has(self, module: StateModule) -> bool {
        self.enabled().any(|enabled| enabled == module)
    }

    /// Returns the enabled modules, in Protolink's order.
    pub fn enabled(self) -> impl Iterator<Item = StateModule> {
        StateModule::ALL.into_iter().zip(self.0).filter_map(|(module, enabled)| enabled.then_some(module))
    }
}

/// The compaction of a conversation, as an agent's setting: when its history has grown above a limit, it is compacted before
/// its next turn.
///
/// ```
/// use taskreel::System;
/// use taskreel::state::HistoryCompaction;
///
/// let builder = System::builder("./log").auto_compact(HistoryCompaction::tokens(4_000).above(8_000));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCompaction {
    request: HistoryCompactionRequest,
    above_tokens: Option<u64>,
}

impl HistoryCompaction {
    fn from_strategy(strategy: CompactionStrategy) -> Self {
        let request = HistoryCompactionRequest { strategy, ..HistoryCompactionRequest::default() };
        Self { request, above_tokens: None }
    }

    /// Keeps the newest messages, as many in all.
    #[must_use]
    pub fn recent(max_messages: u32) -> Self {
        let mut compaction = Self::from_strategy(CompactionStrategy::Recent);
        compaction.request.max_messages = i64::from(max_messages);
        compaction
    }

    /// Keeps the newest messages that fit as many estimated tokens.
    #[must_use]
    pub fn tokens(max_tokens: u32) -> Self {
        let mut compaction = Self::from_strategy(CompactionStrategy::Tokens);
        compaction.request.max_tokens = i64::from(max_tokens);
        compaction
    }

    /// Has the agent's model sum up all but the newest messages, in about as many tokens.
    #[must_use]
    pub fn summary(max_tokens: u32) -> Self {
        let mut compaction = Self::from_strategy(CompactionStrategy::Summary);
        compaction.request.summary_max_tokens = i64::from(max_tokens);
        compaction
    }

    /// Sets how many of the newest messages `tokens` and `summary` keep whatever their size; 6 by default.
    #[must_use]
    pub fn keeping(mut self, messages: u32) -> Self {
        self.request.preserve_recent = i64::from(messages);
        self
    }

    /// Sets the estimated tokens above which a conversation is compacted; by default the tokens that are kept, and 4,000 for
    /// the strategies that do not count them.
    #[must_use]
    pub fn above(mut self, tokens: u64) -> Self {
        self.above_tokens = Some(tokens);
        self
    }

    /// Returns the setting.
    ///
    /// # Errors
    /// A text that names the bound that is broken.
    pub(crate) fn checked(self) -> Result<AutoCompaction, String> {
        self.request.check(true).map_err(|error| format!("the automatic compaction: {error}"))?;
        let kept = u64::try_from(self.request.max_tokens).unwrap_or(0);
        Ok(AutoCompaction { above_tokens: self.above_tokens.unwrap_or(kept), request: self.request })
    }
}

/// The automatic compaction of an agent's conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AutoCompaction {
    pub(crate) request: HistoryCompactionRequest,
    /// The estimated tokens above which a history is compacted.
    pub(crate) above_tokens: u64,
}
