//! The decisions of a session: one turn at a time, and a result for every tool call.

use crate::decider::Decider;
use crate::envelope::Metadata;
use crate::model::llm_message::LlmMessage;
use crate::session::command::{SessionCommand, SessionRejection};
use crate::session::event::SessionEvent;
use crate::session::state::{OpenTurn, Session};
use crate::turn::IllFormed;

type Decision = Result<Vec<SessionEvent>, SessionRejection>;

impl Decider for Session {
    type Command = SessionCommand;
    type Event = SessionEvent;
    type Rejection = SessionRejection;

    fn decide(&self, command: SessionCommand) -> Decision {
        match command {
            SessionCommand::StartTurn { session_id, turn_id, task, system_prompt } => {
                self.start(session_id, turn_id, task, system_prompt)
            }
            SessionCommand::AppendMessage { turn_id, message } => {
                self.turn(&turn_id)?.turn.check_next(&message)?;
                Ok(vec![SessionEvent::MessageAppended(message)])
            }
            SessionCommand::CommitTurn { turn_id } => {
                if let Some(open) = self.turn(&turn_id)?.turn.unanswered().first() {
                    return Err(IllFormed::Unanswered(open.clone()).into());
                }
                Ok(vec![SessionEvent::TurnCommitted { turn_id }])
            }
            SessionCommand::AbortTurn { turn_id, reason } => {
                self.turn(&turn_id)?;
                Ok(vec![SessionEvent::TurnAborted { turn_id, reason }])
            }
        }
    }

    fn evolve(&mut self, event: &SessionEvent, _metadata: &Metadata) {
        self.fold(event);
    }
}

impl Session {
    fn start(&self, session_id: String, turn_id: String, task: String, prompt: LlmMessage) -> Decision {
        if let Some(open) = self.open_turn() {
            let (turn_id, task) = (open.turn_id.clone(), open.task.clone());
            return Err(SessionRejection::TurnInProgress { turn_id, task });
        }
        let mut events = Vec::with_capacity(3);
        if !self.exists() {
            events.push(SessionEvent::Opened { session_id });
        }
        events.push(SessionEvent::TurnStarted { turn_id, task });
        if !self.has_system_prompt(&prompt.content) {
            events.push(SessionEvent::SystemPromptSet(prompt));
        }
        Ok(events)
    }

    fn turn(&self, turn_id: &str) -> Result<&OpenTurn, SessionRejection> {
        self.open_turn()
            .filter(|open| open.turn_id == turn_id)
            .ok_or_else(|| SessionRejection::NoSuchTurn(turn_id.to_owned()))
    }
}
