//! A session as the fold of its events.

use std::sync::Arc;

use crate::model::history::ConversationHistory;
use crate::model::llm_message::{LlmMessage, LlmRole};
use crate::session::event::SessionEvent;
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
}

/// A conversation: the fold of its stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Session {
    pub(crate) id: String,
    pub(crate) history: Arc<ConversationHistory>,
    pub(crate) open: Option<OpenTurn>,
    pub(crate) commits: u64,
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

    /// Whether the leading system message has this content; an empty one is none, as in Protolink.
    pub(super) fn has_system_prompt(&self, content: &str) -> bool {
        let first = self.history.as_slice().first().filter(|first| first.role == LlmRole::System);
        first.map_or("", |first| first.content.as_str()) == content
    }

    /// Folds in one event; never fails.
    pub(super) fn fold(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::Opened { session_id } => self.id.clone_from(session_id),
            SessionEvent::SystemPromptSet(prompt) => match &mut self.open {
                Some(open) => open.system_prompt = Some(prompt.clone()),
                None => Arc::make_mut(&mut self.history).put_system(prompt.clone()),
            },
            SessionEvent::TurnStarted { turn_id, task } => {
                let (turn_id, task) = (turn_id.clone(), task.clone());
                self.open = Some(OpenTurn { turn_id, task, system_prompt: None, turn: Turn::default() });
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
        }
    }

    fn commit(&mut self, turn_id: &str) {
        let Some(mut open) = self.open.take_if(|open| open.turn_id == turn_id) else {
            return;
        };
        let history = Arc::make_mut(&mut self.history);
        if let Some(prompt) = open.system_prompt {
            history.put_system(prompt);
        }
        for message in open.turn.take() {
            history.push(message.message);
        }
        self.commits += 1;
    }
}
