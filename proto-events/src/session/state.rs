//! A session as the fold of its events.

use std::sync::Arc;

use crate::id::Version;
use crate::model::history::ConversationHistory;
use crate::model::llm_message::LlmMessage;
use crate::session::event::{HistoryCompacted, SessionEvent, SummaryRequested};
use crate::turn::Turn;

/// The open turn.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenTurn {
    /// The turn's id, unique in the session.
    pub turn_id: String,
    /// The stream of the running task.
    pub task: String,
    /// The leading system message of this turn, if it differs from the history's.
    pub system_prompt: Option<LlmMessage>,
    /// The messages of the turn so far.
    pub turn: Turn,
    /// Whether the history was cleared during the turn: its messages are not folded into the history.
    pub dropped: bool,
}

/// A call for a summary that has no outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSummary {
    /// The intent.
    pub request: SummaryRequested,
    /// Whether the history was cleared or compacted since.
    pub superseded: bool,
}

/// A conversation: the fold of its stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Session {
    pub(crate) id: String,
    pub(crate) history: Arc<ConversationHistory>,
    pub(crate) open: Option<OpenTurn>,
    pub(crate) commits: u64,
    /// Whether the history begins with the system message. A summary or a note of the system that stands first is another
    /// message.
    pub(crate) has_system: bool,
    /// The version of the stream.
    pub(crate) version: u64,
    /// The places of the answers to calls in the history, counted after a leading system message, ascending.
    pub(crate) answers: Arc<Vec<u32>>,
    /// The number of times that the history was cleared or compacted.
    pub(crate) rewrites: u64,
    /// The version at which the history was last cleared or compacted.
    pub(crate) rewritten_at: u64,
    pub(crate) summary: Option<Box<OpenSummary>>,
}

impl Session {
    /// Whether the session was ever opened.
    pub fn exists(&self) -> bool {
        !self.id.is_empty()
    }

    /// Returns the id chosen by the caller.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the committed history, shared and not copied: a turn reads it while it runs.
    pub fn history(&self) -> &Arc<ConversationHistory> {
        &self.history
    }

    /// Returns the open turn, if any.
    pub fn open_turn(&self) -> Option<&OpenTurn> {
        self.open.as_ref()
    }

    /// Returns the number of committed turns.
    pub fn commits(&self) -> u64 {
        self.commits
    }

    /// Returns the leading system message of the history, if it has one.
    pub fn leading(&self) -> Option<&LlmMessage> {
        self.history.as_slice().first().filter(|_| self.has_system)
    }

    /// Returns the history without its leading system message.
    pub fn body(&self) -> &[LlmMessage] {
        self.history.as_slice().get(usize::from(self.has_system)..).unwrap_or_default()
    }

    /// Whether a message of the history, counted after a leading system message, answers a call.
    pub fn is_answer(&self, place: u32) -> bool {
        self.answers.binary_search(&place).is_ok()
    }

    /// Returns the number of times that the history was cleared or compacted. Between two of them it only grows.
    pub fn rewrites(&self) -> u64 {
        self.rewrites
    }

    /// Returns the version at which the history was last cleared or compacted; 0 if it never was.
    pub fn rewritten_at(&self) -> Version {
        Version(self.rewritten_at)
    }

    /// Returns the call for a summary that has no outcome, if any.
    pub fn open_summary(&self) -> Option<&OpenSummary> {
        self.summary.as_deref()
    }

    /// Whether the leading system message has this content; an empty message counts as absent, as in Protolink.
    pub(super) fn has_system_prompt(&self, content: &str) -> bool {
        self.leading().map_or("", |first| first.content.as_str()) == content
    }

    /// Folds in one event; never fails.
    pub(super) fn fold(&mut self, event: &SessionEvent) {
        self.version += 1;
        match event {
            SessionEvent::Opened { session_id } => self.id.clone_from(session_id),
            SessionEvent::SystemPromptSet(prompt) => match &mut self.open {
                Some(open) => open.system_prompt = Some(prompt.clone()),
                None => self.put_system(prompt.clone()),
            },
            SessionEvent::TurnStarted { turn_id, task } => {
                let (turn_id, task) = (turn_id.clone(), task.clone());
                let (system_prompt, turn, dropped) = (None, Turn::default(), false);
                self.open = Some(OpenTurn { turn_id, task, system_prompt, turn, dropped });
            }
            SessionEvent::MessageAppended(message) => {
                if let Some(open) = &mut self.open {
                    open.turn.push(message.clone());
                }
            }
            SessionEvent::TurnCommitted { turn_id } => self.commit(turn_id),
            SessionEvent::TurnAborted { turn_id, .. } => {
                self.open.take_if(|open| open.turn_id == *turn_id);
            }
            SessionEvent::HistoryCompacted(compacted) => self.fold_compacted(compacted),
            SessionEvent::Cleared { .. } => self.clear(),
            SessionEvent::SummaryRequested(request) => {
                let request = SummaryRequested::clone(request);
                self.summary = Some(Box::new(OpenSummary { request, superseded: false }));
            }
            SessionEvent::SummaryReceived { call_id, .. } | SessionEvent::SummaryFailed { call_id, .. } => {
                self.summary.take_if(|open| open.request.call_id == *call_id);
            }
        }
    }

    /// Folds in one event that nobody else needs: the messages of a long history are not copied.
    pub(super) fn fold_read(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::MessageAppended(message) => {
                self.version += 1;
                if let Some(open) = &mut self.open {
                    open.turn.push(message);
                }
            }
            other => self.fold(&other),
        }
    }

    fn clear(&mut self) {
        let leading = self.leading().cloned();
        self.history = Arc::default();
        self.has_system = false;
        self.answers = Arc::default();
        if let Some(open) = &mut self.open {
            // The turn goes on with the prompt that it began with.
            open.system_prompt = open.system_prompt.take().or(leading);
            open.dropped = true;
        }
        self.note_rewrite();
    }

    fn fold_compacted(&mut self, compacted: &HistoryCompacted) {
        let begin = usize::from(self.has_system);
        let removed = usize::try_from(compacted.removed).unwrap_or(usize::MAX).min(self.body().len());
        let added = u32::from(compacted.summary.is_some());
        let history = Arc::make_mut(&mut self.history);
        history.splice(begin..begin + removed, compacted.summary.clone());
        let shifted = self.answers.iter().filter_map(|place| place.checked_sub(compacted.removed));
        self.answers = Arc::new(shifted.map(|place| place.saturating_add(added)).collect());
        self.note_rewrite();
    }

    /// Puts the system message first, in the place of the one before.
    fn put_system(&mut self, prompt: LlmMessage) {
        let replaced = usize::from(self.has_system);
        Arc::make_mut(&mut self.history).splice(0..replaced, Some(prompt));
        self.has_system = true;
    }

    fn note_rewrite(&mut self) {
        self.rewrites += 1;
        self.rewritten_at = self.version;
        if let Some(summary) = &mut self.summary {
            summary.superseded = true;
        }
    }

    fn commit(&mut self, turn_id: &str) {
        let Some(mut open) = self.open.take_if(|open| open.turn_id == turn_id) else {
            return;
        };
        self.commits += 1;
        if open.dropped {
            return;
        }
        let first = self.body().len();
        let messages = open.turn.take();
        let answers = (first..).zip(&messages).filter(|(_, message)| message.answers.is_some());
        let answers: Vec<u32> = answers.filter_map(|(place, _)| u32::try_from(place).ok()).collect();
        if !answers.is_empty() {
            Arc::make_mut(&mut self.answers).extend(answers);
        }
        if let Some(prompt) = open.system_prompt {
            self.put_system(prompt);
        }
        let history = Arc::make_mut(&mut self.history);
        for message in messages {
            history.push(message.message);
        }
    }
}
