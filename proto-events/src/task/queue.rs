//! Messages of a user to a running task: they wait until the next inference shows them to the model.

use crate::call::request::CallKind;
use crate::model::message::Message;
use crate::model::part::Part;
use crate::task::command::TaskRejection;
use crate::task::state::Task;

/// A message that waits for the next inference.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedMessage {
    /// The id that the message has once it is shown to the model. It is made of the task and the place of the message, so
    /// that the message is shown once.
    pub shown_as: String,
    /// The text for the model.
    pub text: String,
}

impl Task {
    /// Returns the messages that a user added while the task was working, oldest first, as far as no message to the
    /// model in the task's own stream shows them. In a conversation the session has these messages.
    pub fn queued(&self) -> impl Iterator<Item = QueuedMessage> {
        let queued = self.queued.iter().filter_map(|at| Some((*at, self.messages.get(*at)?)));
        queued.map(|(at, message)| QueuedMessage { shown_as: self.shown_as(at), text: text_of(message) })
    }

    /// Checks that the model will be shown a user's message that arrives now. Messages of other roles are only kept.
    ///
    /// # Errors
    /// [`TaskRejection`] if the task is working and no inference follows, or a part of the message would have to be
    /// carried out.
    pub(super) fn may_queue(&self, message: &Message) -> Result<(), TaskRejection> {
        let Some(run) = self.run().filter(|_| is_users(message)) else { return Ok(()) };
        if let Some(part) = message.parts.iter().find(|part| part.kind() == "tool_call") {
            return Err(TaskRejection::NotCarriedOut { kind: part.kind().to_owned() });
        }
        let parts = run.item.map_or(&[][..], |item| self.parts(item));
        let next = usize::try_from(run.next_part).unwrap_or(usize::MAX);
        let follows = !self.is_handlers() && parts.iter().skip(next).any(|part| part.kind() == "infer");
        if follows { Ok(()) } else { Err(TaskRejection::NoInferenceFollows(self.id().to_owned())) }
    }

    /// Whether a handler carries out the run: no inference follows then, whatever the parts of its item are.
    fn is_handlers(&self) -> bool {
        let newest = self.calls().of_part(self.runs(), 0).next_back().or_else(|| self.continued());
        newest.is_some_and(|call| call.request.kind == CallKind::Handler)
    }

    /// Takes the message that is added at this place.
    pub(super) fn queue(&mut self, message: &Message, at: usize) {
        if self.run.is_some() && is_users(message) {
            self.queued.push(at);
        }
    }

    /// Takes a message to the model: it may show one that waits.
    pub(super) fn show(&mut self, id: &str) {
        let shown = self.queued.iter().position(|at| self.shown_as(*at) == id);
        if let Some(at) = shown {
            self.queued.remove(at);
        }
    }

    fn shown_as(&self, at: usize) -> String {
        format!("{}#{at}", self.id)
    }
}

pub(super) fn is_users(message: &Message) -> bool {
    message.role.as_deref() == Some("user")
}

/// Returns the text that a model is shown of a message: texts and prompts as they are, other parts as JSON.
pub(super) fn text_of(message: &Message) -> String {
    let text = |part: &Part| match part.kind() {
        "infer" => part.as_infer().map(|asked| asked.prompt).unwrap_or_default(),
        _ => part.content().to_str().unwrap_or_else(|| part.content().as_str().to_owned()),
    };
    message.parts.iter().map(text).collect::<Vec<_>>().join("\n")
}
