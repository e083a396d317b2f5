//! The messages of one inference, as they stand in the states of a session or a task.

use std::borrow::Cow;

use proto_events::call::Selection;
use proto_events::model::{LlmMessage, LlmRole};
use proto_events::session::Session;
use proto_events::task::Task;

use crate::context::{MessagesEstimate, sent_text};
use crate::shown::images::{ImageRef, sent_images};

/// The messages of one inference: a system message, the committed history without its own, and the messages of
/// the turn.
#[derive(Debug, Clone)]
pub struct InferenceMessages<'a> {
    /// The leading system message as it is sent.
    pub system: String,
    /// The committed history without a leading system message.
    pub history: &'a [LlmMessage],
    /// The messages of the turn, oldest first.
    pub turn: Vec<&'a LlmMessage>,
}

impl<'a> InferenceMessages<'a> {
    /// Returns the messages of an inference within a session's turn: its history and all messages of its open
    /// turn.
    pub fn in_session(session: &'a Session, system: String) -> Self {
        let turn = session.open_turn().map_or(&[][..], |open| open.turn.messages());
        let turn = turn.iter().map(|message| &message.message).collect();
        Self { system, history: session.body(), turn }
    }

    /// Returns the messages of an inference of a task without conversation: the messages of this part alone.
    pub fn in_task(task: &'a Task, part: u32, system: String) -> Self {
        let of_part = task.turn().messages().iter().filter(|message| message.part == part);
        Self { system, history: &[], turn: of_part.map(|message| &message.message).collect() }
    }

    /// Returns the number of messages, the system message included.
    pub fn count(&self) -> usize {
        1 + self.history.len() + self.turn.len()
    }

    /// Returns the messages behind the system message: all of them, or those that a selection kept, cut as it says.
    pub fn messages<'b>(
        &'b self,
        selection: Option<&'b Selection>,
    ) -> impl Iterator<Item = Cow<'a, LlmMessage>> + use<'a, 'b> {
        self.sent(selection).map(|(_, message, _)| message)
    }

    /// Returns the images that are sent with each message of the turn.
    pub fn images(&self) -> Vec<Vec<ImageRef>> {
        sent_images(&self.turn)
    }

    /// Returns the messages behind the system message as they are sent, each with its number and the number of characters that
    /// are left out of it.
    pub(crate) fn sent<'b>(
        &'b self,
        selection: Option<&'b Selection>,
    ) -> impl Iterator<Item = (u32, Cow<'a, LlmMessage>, u64)> + use<'a, 'b> {
        let all = self.history.iter().chain(self.turn.iter().copied());
        let mut before = None;
        (0_u32..).zip(all).filter_map(move |(number, message)| {
            let before = before.replace(message.role);
            let (message, omitted) = selected(selection, number, message, before)?;
            Some((number, message, omitted))
        })
    }

    /// Returns the estimated tokens of the messages that are sent, all of them or a selection, and of the calls
    /// that they ask for.
    pub fn tokens(&self, selection: Option<&Selection>) -> u64 {
        let mut estimate = MessagesEstimate::default();
        estimate.add(LlmRole::System.as_str(), &self.system, None);
        for message in self.messages(selection) {
            estimate.add(message.role.as_str(), &message.content, message.name.as_deref());
            estimate.add_calls(&message.tool_calls);
        }
        estimate.tokens()
    }
}

fn selected<'a>(
    selection: Option<&Selection>,
    number: u32,
    message: &'a LlmMessage,
    before: Option<LlmRole>,
) -> Option<(Cow<'a, LlmMessage>, u64)> {
    let Some(selection) = selection else { return Some((Cow::Borrowed(message), 0)) };
    if !selection.keeps(number) {
        return None;
    }
    let Some(sent) = sent_text(selection, number, message, before) else {
        return Some((Cow::Borrowed(message), 0));
    };
    let omitted = sent.omitted;
    let content = sent.text.into_owned();
    // Not `clone`: the text that is left out may be large.
    let cut = LlmMessage {
        role: message.role,
        content,
        name: message.name.clone(),
        metadata: message.metadata.clone(),
        id: message.id.clone(),
        created_at: message.created_at.clone(),
        tool_calls: message.tool_calls.clone(),
        tool_name: message.tool_name.clone(),
    };
    Some((Cow::Owned(cut), omitted))
}

/// Returns the system message that a session keeps: the open turn's own, else the leading one of its history.
pub fn system_of(session: &Session) -> Option<&LlmMessage> {
    let fresh = session.open_turn().and_then(|open| open.system_prompt.as_ref());
    fresh.or_else(|| session.leading())
}
