//! The messages that a model is shown. A request refers to them; they are copied when its backend reads them,
//! on the backend's own thread, so the cost of a turn here does not grow with its conversation.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use proto_events::call::Selection;
use proto_events::model::{ConversationHistory, LlmMessage, Part};
use taskreel_log::shown::ImageRef;

use crate::models::message::{ChatMessage, Image};

/// The conversation that a backend gets; it dereferences to a slice of [`ChatMessage`]. The first access
/// builds the messages from the shared history and releases it.
pub struct Messages {
    source: Mutex<Option<Source>>,
    made: OnceLock<Vec<ChatMessage>>,
}

/// The parts that the messages are built from.
#[derive(Clone)]
struct Source {
    system: ChatMessage,
    /// The history, and the number of its leading messages that are not sent.
    history: Option<(Arc<ConversationHistory>, usize)>,
    turn: Vec<ChatMessage>,
    selection: Option<Selection>,
    unread: Vec<UnreadImage>,
}

/// An image of a message of the turn that is not read yet.
#[derive(Debug, Clone)]
pub(crate) struct UnreadImage {
    /// The number of the message among the messages of the turn that are sent.
    pub(crate) message: usize,
    pub(crate) image: ImageRef,
    /// The part that holds the image, or refers to its file.
    pub(crate) part: Part,
}

impl Messages {
    /// Creates the messages: a system message, a history without as many of its first messages, of which a selection may send
    /// a part, then the messages of the turn that are sent.
    pub(crate) fn new(
        system: ChatMessage,
        history: Option<(Arc<ConversationHistory>, usize)>,
        turn: Vec<ChatMessage>,
        selection: Option<Selection>,
    ) -> Self {
        let source = Mutex::new(Some(Source { system, history, turn, selection, unread: Vec::new() }));
        Self { source, made: OnceLock::new() }
    }

    /// Adds images that are to be read before the messages are sent.
    pub(crate) fn with_unread(mut self, unread: Vec<UnreadImage>) -> Self {
        if let Some(source) = self.source_mut() {
            source.unread = unread;
        }
        self
    }

    /// Takes the images that are to be read.
    pub(crate) fn take_unread(&mut self) -> Vec<UnreadImage> {
        self.source_mut().map(|source| std::mem::take(&mut source.unread)).unwrap_or_default()
    }

    /// Adds an image to a message of the turn.
    pub(crate) fn add_image(&mut self, message: usize, image: Image) {
        if let Some(message) = self.source_mut().and_then(|source| source.turn.get_mut(message)) {
            message.images.push(image);
        }
    }

    fn source_mut(&mut self) -> Option<&mut Source> {
        self.source.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

impl Source {
    fn make(self) -> Vec<ChatMessage> {
        let history = self.history.as_ref().and_then(|(history, first)| history.as_slice().get(*first..));
        let history = history.unwrap_or_default();
        let mut messages = vec![self.system];
        match &self.selection {
            None => {
                messages.reserve(history.len() + self.turn.len());
                messages.extend(history.iter().map(ChatMessage::from_message));
            }
            Some(selection) => messages.extend(selected(history, selection)),
        }
        messages.extend(self.turn);
        messages
    }
}

/// Returns the messages of a history that a selection sends. It costs what is sent, not what is there.
fn selected<'a>(
    history: &'a [LlmMessage],
    selection: &'a Selection,
) -> impl Iterator<Item = ChatMessage> + use<'a> {
    let numbers =
        selection.kept.iter().flat_map(|range| range.first..range.first.saturating_add(range.count));
    numbers.map_while(|number| {
        let at = usize::try_from(number).ok()?;
        let before = at.checked_sub(1).and_then(|before| history.get(before)).map(|message| message.role);
        ChatMessage::selected(history.get(at)?, number, before, selection)
    })
}

impl Deref for Messages {
    type Target = [ChatMessage];

    fn deref(&self) -> &[ChatMessage] {
        self.made.get_or_init(|| {
            let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
            source.map(Source::make).unwrap_or_default()
        })
    }
}

impl From<Vec<ChatMessage>> for Messages {
    fn from(messages: Vec<ChatMessage>) -> Self {
        Self { source: Mutex::new(None), made: OnceLock::from(messages) }
    }
}

impl FromIterator<ChatMessage> for Messages {
    fn from_iter<I: IntoIterator<Item = ChatMessage>>(messages: I) -> Self {
        Self::from(messages.into_iter().collect::<Vec<_>>())
    }
}

impl<'a> IntoIterator for &'a Messages {
    type Item = &'a ChatMessage;
    type IntoIter = std::slice::Iter<'a, ChatMessage>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Messages {
    type Item = ChatMessage;
    type IntoIter = std::vec::IntoIter<ChatMessage>;

    fn into_iter(mut self) -> Self::IntoIter {
        let made = self.made.take().unwrap_or_else(|| self.to_vec());
        made.into_iter()
    }
}

impl Clone for Messages {
    fn clone(&self) -> Self {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match source {
            Some(source) => Self { source: Mutex::new(Some(source)), made: OnceLock::new() },
            None => Self::from(self.to_vec()),
        }
    }
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proto_events::json::JsonObject;
    use proto_events::model::LlmRole;
    use taskreel_log::ports::Ports;

    use super::*;

    #[test]
    fn a_look_makes_the_messages_and_lets_go_of_the_history() {
        let mut history = ConversationHistory::with_system("old", &mut Ports::default());
        history.add_user("a", JsonObject::new(), &mut Ports::default());
        let history = Arc::new(history);
        let message = |role, text: &str| ChatMessage::new(role, text);
        let turn = vec![message(LlmRole::User, "b")];
        let messages =
            Messages::new(message(LlmRole::System, "new"), Some((Arc::clone(&history), 1)), turn, None);
        let copy = messages.clone();
        assert_eq!(Arc::strong_count(&history), 3, "nothing is copied until somebody looks");
        let said: Vec<_> = messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(said, ["new", "a", "b"]);
        assert_eq!(Arc::strong_count(&history), 2);
        assert_eq!(copy, messages);
        assert_eq!((Arc::strong_count(&history), messages.clone().len()), (1, 3));
    }
}
