//! The agent's context strategy: the part of a long history that its model is shown, and what is known of the messages of each
//! conversation so that none is counted twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use proto_events::call::Selection;
use taskreel_log::artifacts::CharacterLimit;
use taskreel_log::context::{
    Chain, ContextError, ContextStrategy, ConversationFacts, FitContextWindow, MinimizeOutputs, SettingError,
    select,
};
use taskreel_log::shown::InferenceMessages;

use crate::limits::{COUNTED_CONVERSATIONS, COUNTED_MESSAGES};

/// The context strategy of an agent. Without one, all messages are shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct PromptContext {
    chosen: Option<Arc<dyn ContextStrategy>>,
    window: Option<FitContextWindow>,
    /// The minimizing of long results, where the agent has the tools that show the rest.
    minimizes: Option<MinimizeOutputs>,
    /// Whether the tools that show artifacts are others, which do not reach the log: then nothing is minimized.
    has_other_views: bool,
    /// The minimizing, then the strategy, and then the window.
    effective: Option<Arc<dyn ContextStrategy>>,
    counted: Arc<Mutex<CountedMessages>>,
}

/// The cached facts about the messages of conversations, by the streams that hold them.
#[derive(Debug, Default)]
struct CountedMessages {
    facts: HashMap<String, (u64, ConversationFacts)>,
    uses: u64,
    messages: usize,
}

impl PromptContext {
    /// Sets the strategy.
    pub(crate) fn choose(&mut self, strategy: Arc<dyn ContextStrategy>) {
        self.chosen = Some(strategy);
        self.combine();
    }

    /// Sets the tokens of the model's window.
    ///
    /// # Errors
    /// [`SettingError`] if the number is below 1.
    pub(crate) fn set_window(&mut self, tokens: i64) -> Result<(), SettingError> {
        self.window = Some(FitContextWindow::new(tokens)?);
        self.combine();
        Ok(())
    }

    /// Sets the characters above which the results of calls are minimized; all are sent whole without any.
    pub(crate) fn minimize_outputs(&mut self, over: Option<CharacterLimit>) {
        self.minimizes = over.filter(|_| !self.has_other_views).map(MinimizeOutputs::new);
        self.combine();
    }

    /// Notes that the tools that show artifacts are others, which do not reach the log.
    pub(crate) fn view_elsewhere(&mut self) {
        self.has_other_views = true;
        self.minimize_outputs(None);
    }

    /// Whether the tools that show artifacts are others.
    pub(crate) fn has_other_views(&self) -> bool {
        self.has_other_views
    }

    /// Whether the messages that tell results are to say where these stand in the log.
    pub(crate) fn minimizes(&self) -> bool {
        self.minimizes.is_some()
    }

    fn combine(&mut self) {
        let minimizes = self.minimizes.map(|minimizes| Arc::new(minimizes) as Arc<dyn ContextStrategy>);
        let window = self.window.clone().map(|window| Arc::new(window) as Arc<dyn ContextStrategy>);
        let all = [minimizes, self.chosen.clone(), window].into_iter().flatten();
        self.effective = all.reduce(|first, next| Arc::new(Chain::new(first).then(next)));
    }

    /// Returns what the model is shown of these messages, which this stream holds; `None` if all of them, whole. It reads
    /// only the messages that it has not read before.
    ///
    /// # Errors
    /// [`ContextError`] if they cannot be shown.
    pub(crate) fn select(
        &self,
        held_by: &str,
        shown: &InferenceMessages<'_>,
    ) -> Result<Option<Selection>, ContextError> {
        let Some(strategy) = &self.effective else { return Ok(None) };
        // Not held while the messages are counted: other tasks need it meanwhile.
        let mut facts = self.lock().remove(held_by);
        let selected = select(&**strategy, shown, &mut facts);
        facts.settle(shown.history.len());
        // A task without a conversation has nothing that a later one could use.
        if !shown.history.is_empty() {
            self.lock().insert(held_by, facts);
        }
        selected
    }

    /// Ignores poisoning: what is known is whole between any two steps.
    fn lock(&self) -> std::sync::MutexGuard<'_, CountedMessages> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountedMessages {
    fn remove(&mut self, held_by: &str) -> ConversationFacts {
        let (_, facts) = self.facts.remove(held_by).unwrap_or_default();
        self.messages -= facts.len();
        facts
    }

    /// Keeps what is known of a conversation, and forgets those that were not used for longest when it is too much.
    fn insert(&mut self, held_by: &str, facts: ConversationFacts) {
        self.uses += 1;
        self.messages += facts.len();
        if let Some((_, replaced)) = self.facts.insert(held_by.to_owned(), (self.uses, facts)) {
            self.messages -= replaced.len();
        }
        let is_too_much = |counted: &Self| {
            counted.messages > COUNTED_MESSAGES || counted.facts.len() > COUNTED_CONVERSATIONS
        };
        while is_too_much(self) && self.facts.len() > 1 {
            let oldest = self.facts.iter().min_by_key(|(_, (used, _))| *used).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { break };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proto_events::model::{LlmMessage, LlmRole};
    use taskreel_log::ports::Ports;

    use super::*;

    #[test]
    fn what_is_known_is_bounded_and_the_newest_stays() {
        let known = |messages: usize| {
            let said = LlmMessage::new(LlmRole::User, "a", &mut Ports::default());
            let mut facts = ConversationFacts::new();
            facts.read(&vec![said; messages].as_slice());
            facts
        };
        let mut counted = CountedMessages::default();
        for session in 0..COUNTED_CONVERSATIONS + 2 {
            counted.insert(&session.to_string(), known(3));
        }
        assert_eq!(
            (counted.facts.len(), counted.messages),
            (COUNTED_CONVERSATIONS, COUNTED_CONVERSATIONS * 3)
        );
        let newest = (COUNTED_CONVERSATIONS + 1).to_string();
        assert_eq!((counted.remove("0").len(), counted.remove(&newest).len()), (0, 3));

        let mut counted = CountedMessages::default();
        for session in ["a", "b", "c"] {
            counted.insert(session, known(COUNTED_MESSAGES / 2));
        }
        assert_eq!((counted.facts.len(), counted.messages), (2, COUNTED_MESSAGES));
        counted.insert("large", known(COUNTED_MESSAGES + 1));
        assert_eq!(counted.facts.len(), 1, "one conversation is kept whatever its length");
    }
}
