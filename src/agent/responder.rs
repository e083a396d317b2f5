//! Code that answers a message by computing alone: within the step that takes the message, without a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use proto_events::model::{Message, Part};
use proto_events::task::Task;

use crate::limits::{QUESTION_BYTES_MAX, RESPONSE_IN_PLACE};
use crate::tools::panics::caught;
use crate::tools::texts::{short, shorten_to};

/// The answer of a responder, which is the end of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponderEnd {
    /// The task is completed, and these parts are the agent's last message. A responder may return a text in its place.
    Answered(Vec<Part>),
    /// The task waits for a person, with this question. The next message is given to the responder again.
    InputRequired(String),
    /// The task fails, for this reason.
    Failed(String),
}

impl From<String> for ResponderEnd {
    fn from(text: String) -> Self {
        Self::Answered(vec![Part::text(text)])
    }
}

impl From<&str> for ResponderEnd {
    fn from(text: &str) -> Self {
        Self::Answered(vec![Part::text(text)])
    }
}

/// The code of a responder.
pub(crate) trait ResponderCode: Send + Sync + 'static {
    /// Answers a message of a task.
    fn respond(&self, task: &Task, message: &Message) -> ResponderEnd;
}

impl<F, T> ResponderCode for F
where
    F: Fn(&Task, &Message) -> T + Send + Sync + 'static,
    T: Into<ResponderEnd>,
{
    fn respond(&self, task: &Task, message: &Message) -> ResponderEnd {
        self(task, message).into()
    }
}

/// An agent's responder.
#[derive(Clone)]
pub(crate) struct KnownResponder {
    code: Arc<dyn ResponderCode>,
    /// Set while the newest answer took longer than an actors' thread may wait for.
    is_slow: Arc<AtomicBool>,
}

impl KnownResponder {
    pub(crate) fn new(code: impl ResponderCode) -> Self {
        Self { code: Arc::new(code), is_slow: Arc::default() }
    }

    /// Whether the next answer is computed apart from the actors' threads.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    /// Returns the answer to a message of a task. A panic is a failure, and no text is longer than an event can hold of it.
    pub(crate) fn answer(&self, task: &Task, message: &Message) -> ResponderEnd {
        let began = Instant::now();
        let end = caught(|| self.code.respond(task, message));
        self.is_slow.store(began.elapsed() >= RESPONSE_IN_PLACE, Ordering::Relaxed);
        match end {
            Ok(ResponderEnd::Failed(why)) if why.trim().is_empty() => {
                ResponderEnd::Failed("the responder failed".to_owned())
            }
            Ok(ResponderEnd::Failed(why)) => ResponderEnd::Failed(short(&why)),
            Ok(ResponderEnd::InputRequired(mut question)) => {
                shorten_to(&mut question, QUESTION_BYTES_MAX);
                ResponderEnd::InputRequired(question)
            }
            Ok(answered) => answered,
            Err(panic) => ResponderEnd::Failed(format!("the responder panicked: {panic}")),
        }
    }
}
