//! The conversations of an agent.

use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{ConversationHistory, LlmMessage};
use proto_events::session::Session;
use taskreel_log::api::EventReader;
use taskreel_log::read::fold_stream;

use crate::error::Error;
use crate::system::handle::System;
use crate::system::session_index::{SessionIndex, SessionInfo};

/// The conversations of an agent, by session.
#[derive(Debug, Clone)]
pub struct ConversationState {
    pub(crate) system: System,
}

/// A message that a search has found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MessageFound {
    /// The conversation's id.
    pub session_id: String,
    /// The place of the message in the history, from 0.
    pub place: usize,
    /// The message.
    pub message: LlmMessage,
}

impl ConversationState {
    /// Returns the history of a conversation; an empty one if it has none.
    ///
    /// # Errors
    /// [`Error::Id`] if the id is invalid, or an error of reading the log.
    pub async fn history(&self, session_id: &str) -> Result<ConversationHistory, Error> {
        self.system.session(session_id).history().await
    }

    /// Clears a conversation, and returns whether it had a history. A turn that is open goes on, and its messages are not folded
    /// into the history. The log keeps what was.
    ///
    /// # Errors
    /// [`Error::Id`] if the id is invalid, or an error of the log.
    pub async fn clear_session(&self, session_id: &str) -> Result<bool, Error> {
        let stream = StreamId::session(self.system.agent_name(), session_id)?;
        Ok(self.system.clear_session(&stream).await? > 0)
    }

    /// Returns the conversations that have a history, by their ids. The first query after a start reads the log once.
    ///
    /// # Errors
    /// An error of reading the log.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, Error> {
        self.system.on_sessions(|_, index| Ok(index.present())).await
    }

    /// Returns the messages whose text has these words, in any case, at most `limit`. All histories are read.
    ///
    /// # Errors
    /// An error of reading the log.
    pub async fn search(&self, words: &str, limit: usize) -> Result<Vec<MessageFound>, Error> {
        let wanted = words.to_lowercase();
        let agent = self.system.agent_name().to_owned();
        self.system
            .on_sessions(move |log, index| {
                let mut found = Vec::new();
                for info in index.present() {
                    let session = read(log, &agent, &info.id)?;
                    let messages = session.history().as_slice().iter().enumerate();
                    let hits =
                        messages.filter(|(_, message)| message.content.to_lowercase().contains(&wanted));
                    found.extend(hits.map(|(place, message)| MessageFound {
                        session_id: info.id.clone(),
                        place,
                        message: message.clone(),
                    }));
                    if found.len() >= limit {
                        break;
                    }
                }
                found.truncate(limit);
                Ok(found)
            })
            .await
    }

    /// Returns all histories, as Protolink writes them: the messages by the ids of their sessions.
    ///
    /// # Errors
    /// An error of reading the log.
    pub async fn to_json(&self) -> Result<JsonText, Error> {
        let agent = self.system.agent_name().to_owned();
        self.system
            .on_sessions(move |log, index| {
                let mut all = JsonObject::new();
                for info in index.present() {
                    all.set(&info.id, read(log, &agent, &info.id)?.history().to_json());
                }
                Ok(all.to_text())
            })
            .await
    }
}

fn read(log: &dyn EventReader, agent: &str, id: &str) -> Result<Session, Error> {
    let stream = StreamId::session(agent, id)?;
    Ok(fold_stream::<Session>(log, &stream, None)?.state)
}

impl System {
    /// Asks the index of the agent's conversations, after it has read what was added to the log.
    pub(crate) async fn on_sessions<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn EventReader, &SessionIndex) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let system = self.clone();
        self.on_pool(move || {
            let log = system.log();
            let mut index = system.own_agent().sessions.0.blocking_lock();
            index.follow(log.as_ref(), system.agent_name())?;
            ask(log.as_ref(), &index)
        })
        .await
    }
}
