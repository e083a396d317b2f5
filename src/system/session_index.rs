//! The conversations of an agent: an index that is made from the log when it is first asked, and follows it. It reads the kinds
//! of events and no message.

use std::collections::BTreeMap;

use proto_events::codec::kind;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::session::SessionEvent;
use taskreel_log::api::{EventReader, ReadError, StoredRecord};
use taskreel_log::read::{decode_record, for_each_record};
use tokio::sync::Mutex;

/// A conversation as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The conversation's id.
    pub id: String,
    /// The number of messages of the history, a leading system message included.
    pub messages: usize,
    /// Whether a turn is open.
    pub has_open_turn: bool,
    /// The time of the last change.
    pub changed_at: Timestamp,
    /// The number of events in the session's stream.
    pub version: Version,
}

/// The index, empty until it is first asked.
#[derive(Debug, Default)]
pub(crate) struct SharedSessionIndex(pub(crate) Mutex<SessionIndex>);

/// The conversations of one agent up to a position of the log.
#[derive(Debug, Default)]
pub(crate) struct SessionIndex {
    through: Position,
    rows: BTreeMap<StreamId, SessionSize>,
}

/// The size of a conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSize {
    /// The number of messages after a leading system message.
    body: usize,
    has_system: bool,
    open: Option<OpenSize>,
    changed_at: Timestamp,
    version: Version,
    /// The command that cleared the history last.
    cleared_by: Option<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct OpenSize {
    messages: usize,
    sets_system: bool,
    dropped: bool,
}

impl SessionIndex {
    /// Reads what was added to the log.
    ///
    /// # Errors
    /// [`ReadError`] if the log cannot be read.
    pub(crate) fn follow(&mut self, log: &dyn EventReader, agent: &str) -> Result<(), ReadError> {
        let from = Position(self.through.0 + 1);
        for_each_record(log, from, |stored| {
            let stream = &stored.record.stream;
            if stream.category() == Some(Category::Session) && stream.agent() == agent {
                self.rows.entry(stream.clone()).or_default().accept_record(stored)?;
            }
            self.through = stored.last_position();
            Ok::<(), ReadError>(())
        })
    }

    /// Returns the conversations that have a history.
    pub(crate) fn present(&self) -> Vec<SessionInfo> {
        let present = self.rows.iter().filter(|(_, row)| row.messages() > 0);
        present.map(|(stream, row)| row.info(stream)).collect()
    }

    /// Returns all sessions that were ever opened.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&StreamId, &SessionSize)> {
        self.rows.iter()
    }
}

impl SessionSize {
    pub(crate) fn messages(&self) -> usize {
        self.body + usize::from(self.has_system)
    }

    /// Whether clearing the history has an effect.
    pub(crate) fn can_be_cleared(&self) -> bool {
        self.messages() > 0 || self.open.is_some_and(|open| !open.dropped)
    }

    /// Returns the command that cleared the history last.
    pub(crate) fn cleared_by(&self) -> Option<&str> {
        self.cleared_by.as_deref()
    }

    fn info(&self, stream: &StreamId) -> SessionInfo {
        SessionInfo {
            id: stream.id(),
            messages: self.messages(),
            has_open_turn: self.open.is_some(),
            changed_at: self.changed_at,
            version: self.version,
        }
    }

    fn accept_record(&mut self, stored: &StoredRecord) -> Result<(), ReadError> {
        let record = &stored.record;
        self.changed_at = record.metadata.at;
        self.version = record.last_version();
        let mut decoded = None;
        for (place, event) in record.events.iter().enumerate() {
            match event.kind {
                kind::SYSTEM_PROMPT_SET => match &mut self.open {
                    Some(open) => open.sets_system = true,
                    None => self.has_system = true,
                },
                kind::TURN_STARTED => self.open = Some(OpenSize::default()),
                kind::SESSION_MESSAGE_APPENDED => {
                    if let Some(open) = &mut self.open {
                        open.messages += 1;
                    }
                }
                kind::TURN_COMMITTED => self.commit(),
                kind::TURN_ABORTED => self.open = None,
                kind::CLEARED => self.clear(&record.metadata.command_id),
                kind::HISTORY_COMPACTED => {
                    if decoded.is_none() {
                        decoded = Some(decode_record::<SessionEvent>(stored)?);
                    }
                    let event = decoded.as_ref().and_then(|events| events.get(place));
                    if let Some(SessionEvent::HistoryCompacted(compacted)) = event.map(|it| &it.event) {
                        let removed = usize::try_from(compacted.removed).unwrap_or(usize::MAX);
                        let added = usize::from(compacted.summary.is_some());
                        self.body = self.body.saturating_sub(removed) + added;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn commit(&mut self) {
        let Some(open) = self.open.take().filter(|open| !open.dropped) else { return };
        self.body += open.messages;
        self.has_system |= open.sets_system;
    }

    fn clear(&mut self, command_id: &str) {
        (self.body, self.has_system) = (0, false);
        if let Some(open) = &mut self.open {
            open.dropped = true;
        }
        self.cleared_by = Some(command_id.to_owned());
    }
}
