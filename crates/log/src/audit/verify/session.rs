//! Checks a session: opened once under its own id, one turn at a time, each tool call with one answer.

use std::collections::{BTreeMap, HashSet, VecDeque};

use proto_events::id::{Digest, StreamId};
use proto_events::model::{LlmMessage, LlmRole};
use proto_events::session::{HistoryCompacted, SessionEvent, SummaryRequested};
use proto_events::turn::{IllFormed, TurnMessage};

use crate::audit::verify::prompts::PromptMessages;

/// The messages of a turn read so far: the calls that are asked for and have no answer yet, in the order of the asks.
#[derive(Default)]
pub(crate) struct TurnCheck {
    asked: VecDeque<String>,
    /// The calls that the newest message which asks for any asks for.
    asks: Option<Vec<String>>,
    messages: PromptMessages,
    /// The messages of each part.
    of_parts: BTreeMap<u32, PromptMessages>,
}

impl TurnCheck {
    /// Returns the first call that has no answer yet.
    pub(crate) fn unanswered(&self) -> Option<&str> {
        self.asked.front().map(String::as_str)
    }

    /// Returns the calls that the newest message which asks for any asks for.
    pub(crate) fn asks(&self) -> Option<&[String]> {
        self.asks.as_deref()
    }

    /// Returns the messages of a part, if it has any.
    pub(crate) fn of_part(&self, part: u32) -> Option<&PromptMessages> {
        self.of_parts.get(&part)
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// [`IllFormed`], as [`Turn::check_next`](proto_events::turn::Turn::check_next).
    pub(crate) fn accept_message(&mut self, message: &TurnMessage) -> Result<(), IllFormed> {
        let TurnMessage { asks, answers, part, .. } = message;
        self.messages.accept_message(message);
        self.of_parts.entry(*part).or_default().accept_message(message);
        let checked = match (self.asked.front(), answers) {
            (Some(open), Some(answered)) if open == answered && asks.is_empty() => {
                self.asked.pop_front();
                return Ok(());
            }
            (Some(open), _) => Err(IllFormed::Unanswered(open.clone())),
            (None, Some(answered)) => Err(IllFormed::NotAsked(answered.clone())),
            (None, None) => Ok(()),
        };
        if !asks.is_empty() {
            self.asked = asks.iter().cloned().collect();
            self.asks = Some(asks.clone());
        }
        checked
    }
}

/// The open turn of a session.
struct OpenCheck {
    turn_id: String,
    /// The stream of the turn's task.
    task: String,
    turn: TurnCheck,
    /// The digest of the system prompt that the turn set.
    system: Option<Digest>,
    /// The epoch of the program that began the turn.
    epoch: u64,
    /// Whether the history was cleared during the turn.
    dropped: bool,
}

/// A session as read so far.
#[derive(Default)]
pub(crate) struct SessionCheck {
    opened: bool,
    open: Option<OpenCheck>,
    /// The stream of the newest turn's task.
    newest_task: Option<String>,
    /// The digest of the history's system prompt.
    system: Option<Digest>,
    /// The digests of the turns' ids, shortened.
    turns: HashSet<[u8; 8]>,
    /// Whether the event before was the beginning of the open turn.
    just_begun: bool,
    /// The history, without the system message.
    history: PromptMessages,
    /// The call for a summary that has no outcome.
    summary: Option<SummaryCheck>,
    /// The call whose summary was received and not dropped, until the event that puts it in place.
    received: Option<SummaryCheck>,
    /// Whether the event before was the opening of the session, or the beginning of a turn.
    just_opened: bool,
    /// The number of summaries that were requested.
    summaries: u64,
}

/// A call for a summary that has no outcome: its id, the messages that it sums up, and whether the history was rewritten since.
struct SummaryCheck {
    call_id: String,
    messages: u32,
    superseded: bool,
}

impl SessionCheck {
    /// Returns the tool call of the open turn that has no answer.
    pub(crate) fn unanswered(&self) -> Option<&str> {
        self.open.as_ref().and_then(|open| open.turn.unanswered())
    }

    /// Returns the calls that the newest message of the open turn which asks for any asks for.
    pub(crate) fn asks(&self) -> Option<&[String]> {
        self.open.as_ref().and_then(|open| open.turn.asks())
    }

    /// Whether a summary of the history was ever requested.
    pub(crate) fn has_summaries(&self) -> bool {
        self.summaries > 0
    }

    /// Returns the task of the open turn.
    pub(crate) fn open_task(&self) -> Option<&str> {
        self.open.as_ref().map(|open| open.task.as_str())
    }

    /// Returns the task of the newest turn.
    pub(crate) fn newest_task(&self) -> Option<&str> {
        self.newest_task.as_deref()
    }

    /// Returns the digest of the system prompt that an inference of the open turn is shown, and the epoch of the program
    /// that began the turn.
    pub(crate) fn system(&self) -> Option<(Digest, u64)> {
        let open = self.open.as_ref()?;
        Some((open.system.or(self.system)?, open.epoch))
    }

    /// Returns the number of messages that an inference of the open turn is shown, without the system message.
    pub(crate) fn messages(&self) -> u32 {
        let turn = self.open.as_ref().map_or(0, |open| open.turn.messages.count());
        self.history.count().saturating_add(turn)
    }

    /// Whether a message that an inference of the open turn is shown, numbered without the system message, is an answer.
    pub(crate) fn is_answer(&self, number: u32) -> bool {
        match number.checked_sub(self.history.count()) {
            None => self.history.is_answer(number),
            Some(in_turn) => self.open.as_ref().is_some_and(|open| open.turn.messages.is_answer(in_turn)),
        }
    }

    /// Takes the session's next event, of a record with this epoch.
    ///
    /// # Errors
    /// The fault of the event.
    pub(crate) fn accept_event(
        &mut self,
        stream: &StreamId,
        epoch: u64,
        event: &SessionEvent,
    ) -> Result<(), String> {
        let before = std::mem::replace(&mut self.opened, true);
        let just_begun = std::mem::take(&mut self.just_begun);
        let just_opened = std::mem::take(&mut self.just_opened);
        let received = self.received.take();
        match event {
            SessionEvent::Opened { .. } if before => return Err("the session was opened twice".to_owned()),
            SessionEvent::Opened { session_id } if *session_id != stream.id() => {
                return Err(format!("the session names itself `{session_id}`, but its stream is {stream}"));
            }
            SessionEvent::Opened { .. } => self.just_opened = true,
            _ if !before => return Err("the session has an event before it was opened".to_owned()),
            SessionEvent::SystemPromptSet(prompt) => self.prompt_set(prompt, just_begun, just_opened)?,
            SessionEvent::TurnStarted { turn_id, task } => self.start(stream, epoch, turn_id, task)?,
            SessionEvent::MessageAppended(message) => {
                let Some(open) = &mut self.open else {
                    return Err("a message was added outside a turn".to_owned());
                };
                open.turn.accept_message(message).map_err(|error| error.to_string())?;
            }
            SessionEvent::TurnCommitted { turn_id } => {
                let open = self.end_turn(turn_id)?;
                if !open.dropped {
                    self.history.commit(&open.turn.messages);
                    self.system = open.system.or(self.system);
                }
                if let Some(call) = open.turn.unanswered() {
                    return Err(format!(
                        "turn `{turn_id}` was committed while the tool call `{call}` has no answer"
                    ));
                }
            }
            SessionEvent::TurnAborted { turn_id, .. } => {
                self.end_turn(turn_id)?;
            }
            SessionEvent::HistoryCompacted(compacted) => self.compacted(compacted, received.as_ref())?,
            SessionEvent::Cleared { messages } => self.cleared(*messages)?,
            SessionEvent::SummaryRequested(request) => self.summary_requested(request)?,
            SessionEvent::SummaryReceived { call_id, dropped, .. } => {
                let open = self.end_summary(call_id)?;
                match dropped {
                    None if open.superseded => {
                        return Err(format!(
                            "the summary `{call_id}` was put in place of messages that were rewritten before"
                        ));
                    }
                    None => self.received = Some(open),
                    Some(_) => {}
                }
            }
            SessionEvent::SummaryFailed { call_id, .. } => {
                self.end_summary(call_id)?;
            }
        }
        Ok(())
    }

    fn prompt_set(&mut self, prompt: &LlmMessage, just_begun: bool, just_opened: bool) -> Result<(), String> {
        let digest = Some(Digest::compute(prompt.content.as_bytes()));
        let of_history = self.open.is_none();
        match &mut self.open {
            Some(open) => open.system = digest,
            None => self.system = digest,
        }
        // A session without a turn gets its prompt when it is opened, or when it has no history.
        let is_new = of_history && (just_opened || self.history.count() == 0);
        if !just_begun && !is_new {
            return Err("the system prompt was set, but no turn begins here".to_owned());
        }
        if prompt.role != LlmRole::System {
            return Err(format!("the system prompt is a message of the {}", prompt.role.as_str()));
        }
        Ok(())
    }

    fn summary_requested(&mut self, request: &SummaryRequested) -> Result<(), String> {
        let SummaryRequested { call_id, messages, .. } = request;
        self.summaries += 1;
        let asked = SummaryCheck { call_id: call_id.clone(), messages: *messages, superseded: false };
        if let Some(open) = self.summary.replace(asked) {
            return Err(format!(
                "the summary `{call_id}` was requested while the call `{}` had no outcome",
                open.call_id
            ));
        }
        self.check_removal(*messages)
    }

    fn end_summary(&mut self, call_id: &str) -> Result<SummaryCheck, String> {
        self.summary
            .take_if(|open| open.call_id == call_id)
            .ok_or_else(|| format!("the call `{call_id}` for a summary has an outcome, but was not open"))
    }

    fn check_removal(&self, removed: u32) -> Result<(), String> {
        let there = self.history.count();
        if removed > there {
            return Err(format!("{removed} messages are to be removed from a history of {there}"));
        }
        if self.history.is_answer(removed) {
            return Err(format!("message {removed} answers a call that is removed without it"));
        }
        Ok(())
    }

    fn compacted(
        &mut self,
        compacted: &HistoryCompacted,
        received: Option<&SummaryCheck>,
    ) -> Result<(), String> {
        let HistoryCompacted { removed, summary, call_id, .. } = compacted;
        let checked = self.check_removal(*removed);
        let of_summary = summary.is_some();
        self.history.compact(*removed, of_summary);
        self.note_rewrite();
        checked?;
        let named = call_id.as_ref().map(|call_id| (call_id.as_str(), *removed));
        let received = received.map(|it| (it.call_id.as_str(), it.messages));
        if named != received || of_summary != call_id.is_some() {
            return Err("its summary is not the one that was received right before".to_owned());
        }
        Ok(())
    }

    fn cleared(&mut self, messages: u32) -> Result<(), String> {
        let there = self.history.count().saturating_add(u32::from(self.system.is_some()));
        if let Some(open) = &mut self.open {
            open.system = open.system.or(self.system);
            open.dropped = true;
        }
        self.system = None;
        self.history = PromptMessages::default();
        self.note_rewrite();
        if messages == there {
            Ok(())
        } else {
            Err(format!("{messages} messages were cleared, but the history had {there}"))
        }
    }

    fn note_rewrite(&mut self) {
        if let Some(open) = &mut self.summary {
            open.superseded = true;
        }
    }

    /// Takes the end of a record: what is decided together does not go on in the next one.
    ///
    /// # Errors
    /// The fault of the record.
    pub(crate) fn end_record(&mut self) -> Result<(), String> {
        self.just_begun = false;
        self.just_opened = false;
        match self.received.take() {
            Some(open) => Err(format!("the summary `{}` was neither put in place nor dropped", open.call_id)),
            None => Ok(()),
        }
    }

    fn start(&mut self, stream: &StreamId, epoch: u64, turn_id: &str, task: &str) -> Result<(), String> {
        self.just_begun = true;
        self.newest_task = Some(task.to_owned());
        let begun = OpenCheck {
            turn_id: turn_id.to_owned(),
            task: task.to_owned(),
            turn: TurnCheck::default(),
            system: None,
            epoch,
            dropped: false,
        };
        if let Some(open) = self.open.replace(begun) {
            return Err(format!("turn `{turn_id}` began while turn `{}` was open", open.turn_id));
        }
        let short = Digest::compute(turn_id.as_bytes());
        if !self.turns.insert(short.0.first_chunk().copied().unwrap_or_default()) {
            return Err(format!("turn `{turn_id}` began twice"));
        }
        let of_its_agent = StreamId::parse(task).is_ok_and(|task| task.agent() == stream.agent());
        if of_its_agent {
            Ok(())
        } else {
            Err(format!("turn `{turn_id}` is of {task}, not of a task of its agent"))
        }
    }

    fn end_turn(&mut self, turn_id: &str) -> Result<OpenCheck, String> {
        match self.open.take() {
            Some(open) if open.turn_id == turn_id => Ok(open),
            Some(open) => Err(format!("turn `{turn_id}` ended while turn `{}` was open", open.turn_id)),
            None => Err(format!("turn `{turn_id}` ended, but was not open")),
        }
    }
}
