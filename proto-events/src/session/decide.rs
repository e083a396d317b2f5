//! The decisions of a session: one turn at a time, and a result for every tool call.

use crate::decider::Decider;
use crate::envelope::Metadata;
use crate::model::CompactionStrategy;
use crate::model::llm_message::LlmMessage;
use crate::session::command::{Compaction, SessionCommand, SessionRejection};
use crate::session::event::{HistoryCompacted, SessionEvent, SummaryRequested};
use crate::session::state::{OpenSummary, OpenTurn, Session};
use crate::turn::IllFormed;

/// The reason for which a summary is dropped that returns after the history was rewritten.
pub const SUPERSEDED: &str = "superseded: the history was cleared or compacted before the summary returned";

/// The reason for which a reply without a summary is dropped, in Protolink's words.
pub const EMPTY_SUMMARY: &str = "history summarizer returned an empty summary";

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
            SessionCommand::Open { session_id, system_prompt } => {
                Ok(self.open_with(session_id, system_prompt))
            }
            SessionCommand::Clear => {
                let has_effect =
                    !self.history().is_empty() || self.open_turn().is_some_and(|open| !open.dropped);
                let messages = u32::try_from(self.history().len()).unwrap_or(u32::MAX);
                Ok(if has_effect { vec![SessionEvent::Cleared { messages }] } else { Vec::new() })
            }
            SessionCommand::Compact(compaction) => self.compact(&compaction),
            SessionCommand::RequestSummary(request) => self.request_summary(request),
            SessionCommand::ReceiveSummary { call_id, reply, usage, summary, tokens } => {
                let compacted = self.summed_up(&call_id, summary, tokens)?;
                let dropped = compacted.as_ref().err().map(|why| (*why).to_owned());
                let mut events = vec![SessionEvent::SummaryReceived { call_id, reply, usage, dropped }];
                events.extend(compacted.ok().map(|it| SessionEvent::HistoryCompacted(Box::new(it))));
                Ok(events)
            }
            SessionCommand::FailSummary { call_id, error_type, message, usage } => {
                self.summary_of(&call_id)?;
                Ok(vec![SessionEvent::SummaryFailed { call_id, error_type, message, usage }])
            }
        }
    }

    fn evolve(&mut self, event: &SessionEvent, _metadata: &Metadata) {
        self.fold(event);
    }

    fn evolve_read(&mut self, event: SessionEvent, _metadata: &Metadata) {
        self.fold_read(event);
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

    fn open_with(&self, session_id: String, prompt: LlmMessage) -> Vec<SessionEvent> {
        if !self.history().is_empty() || self.open_turn().is_some() {
            return Vec::new();
        }
        let opened = (!self.exists()).then_some(SessionEvent::Opened { session_id });
        opened.into_iter().chain([SessionEvent::SystemPromptSet(prompt)]).collect()
    }

    /// Checks that as many messages can be removed without parting a call from its answer.
    fn check_removal(&self, removed: u32) -> Result<(), SessionRejection> {
        if !self.exists() {
            return Err(SessionRejection::NotOpened);
        }
        let there = u32::try_from(self.body().len()).unwrap_or(u32::MAX);
        if removed > there {
            return Err(SessionRejection::TooFewMessages { removed, there });
        }
        if self.is_answer(removed) { Err(SessionRejection::PartsCall(removed)) } else { Ok(()) }
    }

    fn compact(&self, compaction: &Compaction) -> Decision {
        let Compaction { strategy, read_through, removed, before_tokens, after_tokens } = *compaction;
        self.check_removal(removed)?;
        if removed == 0 {
            return Ok(Vec::new());
        }
        let (summary, call_id) = (None, None);
        let compacted = HistoryCompacted {
            strategy,
            read_through,
            removed,
            summary,
            call_id,
            before_tokens,
            after_tokens,
        };
        Ok(vec![SessionEvent::HistoryCompacted(Box::new(compacted))])
    }

    fn request_summary(&self, request: Box<SummaryRequested>) -> Decision {
        self.check_removal(request.messages)?;
        let lost = self.open_summary().map(|open| SessionEvent::SummaryFailed {
            call_id: open.request.call_id.clone(),
            error_type: "Superseded".to_owned(),
            message: "another summary was requested before it returned".to_owned(),
            usage: None,
        });
        Ok(lost.into_iter().chain([SessionEvent::SummaryRequested(request)]).collect())
    }

    /// Returns the compaction by a summary, or the reason why the summary is not put in place.
    fn summed_up(
        &self,
        call_id: &str,
        summary: Option<LlmMessage>,
        (before_tokens, after_tokens): (u64, u64),
    ) -> Result<Result<HistoryCompacted, &'static str>, SessionRejection> {
        let open = self.summary_of(call_id)?;
        if open.superseded {
            return Ok(Err(SUPERSEDED));
        }
        let Some(summary) = summary else { return Ok(Err(EMPTY_SUMMARY)) };
        self.check_removal(open.request.messages)?;
        Ok(Ok(HistoryCompacted {
            strategy: CompactionStrategy::Summary,
            read_through: open.request.read_through,
            removed: open.request.messages,
            summary: Some(summary),
            call_id: Some(call_id.to_owned()),
            before_tokens,
            after_tokens,
        }))
    }

    fn summary_of(&self, call_id: &str) -> Result<&OpenSummary, SessionRejection> {
        self.open_summary()
            .filter(|open| open.request.call_id == call_id)
            .ok_or_else(|| SessionRejection::NoSuchSummary(call_id.to_owned()))
    }

    fn turn(&self, turn_id: &str) -> Result<&OpenTurn, SessionRejection> {
        self.open_turn()
            .filter(|open| open.turn_id == turn_id)
            .ok_or_else(|| SessionRejection::NoSuchTurn(turn_id.to_owned()))
    }
}
