//! The compaction of a history: the cut by which its oldest messages are removed, or handed to a model that sums them up. It
//! follows Protolink's `HistoryCompactor`, except that a call and its answers are removed together or kept together.
//!
//! A cut is computed in one pass over the messages. It changes nothing: a session records it as an event, and
//! [`HistoryCut::apply`] makes the change to a history outside a log.

use proto_events::id::Mint;
use proto_events::json::JsonText;
use proto_events::model::{
    CompactionStrategy, ConversationHistory, HistoryCompactionRequest, HistoryCompactionResult, LlmMessage,
    LlmRole, ModelError,
};

use crate::context::cut_text::is_result_note;
use crate::context::tokens::MessagesEstimate;

/// The first line of the message that holds a summary, in Protolink's words.
pub const SUMMARY_HEADING: &str = "Compacted conversation summary:";

/// The key of the metadata by which Protolink marks the message that holds a summary.
const SUMMARY_KEY: &str = "protolink_history_compaction";

/// The computation of cuts.
#[derive(Clone, Copy)]
pub struct HistoryCompactor<'a> {
    /// Whether a message answers a call, by its place after a leading system message, as far as its text does not say so.
    answers: &'a dyn Fn(usize) -> bool,
    /// The number of leading system messages, 0 or 1; where it is not told, a first message of the system is one.
    leading: Option<usize>,
}

impl std::fmt::Debug for HistoryCompactor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistoryCompactor").finish_non_exhaustive()
    }
}

impl Default for HistoryCompactor<'_> {
    fn default() -> Self {
        Self { answers: &|_| false, leading: None }
    }
}

/// The messages that a compaction removes: the oldest ones after a leading system message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCut {
    strategy: CompactionStrategy,
    /// The number of leading system messages: 0 or 1.
    leading: usize,
    removed: usize,
    messages: usize,
    before: MessagesEstimate,
    /// The messages that are kept.
    after: MessagesEstimate,
}

impl<'a> HistoryCompactor<'a> {
    /// Returns a compactor that knows the answers to calls by their text alone: a tool's messages, and the notes of the system
    /// that tell a result.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a compactor that is told whether the history has a leading system message, and which messages answer a call,
    /// by their places after it.
    pub fn knowing(has_system: bool, answers: &'a dyn Fn(usize) -> bool) -> Self {
        Self { answers, leading: Some(usize::from(has_system)) }
    }

    /// Computes the cut of a history.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] with Protolink's text if the request is out of bounds, or asks for a summary where there is
    /// nobody to make it.
    pub fn cut(
        &self,
        history: &[LlmMessage],
        request: &HistoryCompactionRequest,
        has_summarizer: bool,
    ) -> Result<HistoryCut, ModelError> {
        request.check(has_summarizer)?;
        let is_system = || history.first().is_some_and(|first| first.role == LlmRole::System);
        let leading = self.leading.unwrap_or_else(|| usize::from(is_system())).min(history.len());
        let (system, body) = history.split_at(leading);
        let most = usize::try_from(request.max_messages).unwrap_or(usize::MAX).saturating_sub(leading);
        let recent = usize::try_from(request.preserve_recent).unwrap_or(usize::MAX);
        let removed = match request.strategy {
            CompactionStrategy::Recent => self.begin_of_group(body, body.len().saturating_sub(most)),
            CompactionStrategy::Summary => self.begin_of_group(body, body.len().saturating_sub(recent)),
            CompactionStrategy::Tokens => {
                let protected = self.begin_of_group(body, body.len().saturating_sub(recent));
                let limit = u64::try_from(request.max_tokens).unwrap_or(0);
                self.extended(system, body, protected, limit)
            }
        };
        Ok(HistoryCut::removing((system, body), request.strategy, removed))
    }

    /// Returns the place from which the newest messages fit the limit: from the protected ones back, call by call, up to the
    /// first that does not fit.
    fn extended(&self, system: &[LlmMessage], body: &[LlmMessage], protected: usize, limit: u64) -> usize {
        let kept = body.get(protected..).unwrap_or_default();
        let mut estimate = estimate(system.iter().chain(kept));
        let mut begin = protected;
        while begin > 0 {
            let group = self.begin_of_group(body, begin - 1);
            let messages = body.get(group..begin).unwrap_or_default();
            let extended = messages.iter().fold(estimate, with);
            if extended.tokens() > limit {
                break;
            }
            (estimate, begin) = (extended, group);
        }
        begin
    }

    /// Returns the place of the message that asks for what the message of this place answers; the place itself if it answers
    /// nothing.
    fn begin_of_group(&self, body: &[LlmMessage], mut place: usize) -> usize {
        // The end of the history is not a message: nothing is kept there.
        while place > 0 && self.is_answer(body, place) {
            place -= 1;
        }
        place
    }

    fn is_answer(&self, body: &[LlmMessage], place: usize) -> bool {
        let Some(message) = body.get(place) else { return false };
        let by_text = match message.role {
            LlmRole::Tool => true,
            LlmRole::System => is_result_note(&message.content),
            LlmRole::User | LlmRole::Assistant => false,
        };
        if !by_text && !(self.answers)(place) {
            return false;
        }
        // An answer without its call stands alone.
        let asks = |message: &LlmMessage| !matches!(message.role, LlmRole::User | LlmRole::System);
        let before = place.checked_sub(1).and_then(|before| body.get(before));
        (self.answers)(place) || before.is_some_and(|before| asks(before) || is_result_note(&before.content))
    }
}

impl HistoryCut {
    /// Returns the cut that removes as many of the oldest messages after the leading system messages, none of which is
    /// or one.
    pub fn removing(
        (system, body): (&[LlmMessage], &[LlmMessage]),
        strategy: CompactionStrategy,
        removed: usize,
    ) -> Self {
        let removed = removed.min(body.len());
        let after = estimate(system.iter().chain(body.get(removed..).unwrap_or_default()));
        let before = body.iter().take(removed).fold(after, with);
        let (leading, messages) = (system.len(), system.len() + body.len());
        Self { strategy, leading, removed, messages, before, after }
    }

    /// Returns the number of messages that are removed.
    pub fn removed(&self) -> usize {
        self.removed
    }

    /// Returns the removed messages of the history that was cut.
    pub fn older<'h>(&self, history: &'h [LlmMessage]) -> &'h [LlmMessage] {
        history.get(self.leading..self.leading + self.removed).unwrap_or_default()
    }

    /// Returns the estimated tokens of the history before.
    pub fn before_tokens(&self) -> u64 {
        self.before.tokens()
    }

    /// Returns the estimated tokens of the history after, with this summary in place of the removed messages if there is one.
    pub fn after_tokens(&self, summary: Option<&LlmMessage>) -> u64 {
        summary.into_iter().fold(self.after, with).tokens()
    }

    /// Whether a model is to be asked for a summary of the removed messages.
    pub fn needs_summary(&self) -> bool {
        self.strategy == CompactionStrategy::Summary && self.removed > 0
    }

    /// Returns the result, with this summary if there is one.
    pub fn result(&self, summary: Option<&LlmMessage>) -> HistoryCompactionResult {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        HistoryCompactionResult {
            strategy: self.strategy.as_str().to_owned(),
            before_messages: number(self.messages),
            after_messages: number(self.messages - self.removed + usize::from(summary.is_some())),
            removed_messages: number(self.removed),
            before_tokens: tokens(self.before_tokens()),
            after_tokens: tokens(self.after_tokens(summary)),
            summary_created: summary.is_some(),
        }
    }

    /// Makes the cut in the history that it was computed for, with this summary if there is one.
    pub fn apply(&self, history: &mut ConversationHistory, summary: Option<LlmMessage>) {
        let mut messages = std::mem::take(history).into_messages();
        let end = (self.leading + self.removed).min(messages.len());
        messages.splice(self.leading.min(end)..end, summary);
        history.replace(messages);
    }
}

/// Returns the message that holds a summary.
pub fn summary_message(summary: &str, mint: &mut dyn Mint) -> LlmMessage {
    let mut message = LlmMessage::new(LlmRole::System, format!("{SUMMARY_HEADING}\n{summary}"), mint);
    message.metadata.set(SUMMARY_KEY, JsonText::string(CompactionStrategy::Summary.as_str()));
    message
}

fn with(mut estimate: MessagesEstimate, message: &LlmMessage) -> MessagesEstimate {
    estimate.add(message.role.as_str(), &message.content, message.name.as_deref());
    estimate
}

fn estimate<'m>(messages: impl Iterator<Item = &'m LlmMessage>) -> MessagesEstimate {
    messages.fold(MessagesEstimate::default(), with)
}
