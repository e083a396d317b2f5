//! Appends of which nobody can say whether they are in the log: their callers were told so, or their actors ended
//! before the answer. Kept by name, so that whoever opens the log anew can say what became of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::Instrument;

use crate::actors::shared::Shared;
use crate::actors::spans;
use crate::limits::DOUBTFUL_APPENDS;
use crate::store::{Append, AppendError, Appended};

/// An append in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InDoubt {
    pub(crate) set_id: [u8; 16],
    pub(crate) command_id: String,
}

/// All of them, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Doubtful(Mutex<Vec<InDoubt>>);

impl Doubtful {
    pub(crate) fn list(&self) -> Vec<InDoubt> {
        self.lock().clone()
    }

    /// Forgets them: they are in doubt no more.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn note(&self, set_id: [u8; 16], command_id: &str) {
        let mut all = self.lock();
        if all.len() < DOUBTFUL_APPENDS {
            all.push(InDoubt { set_id, command_id: command_id.to_owned() });
        }
    }

    /// A list is whole between any two steps, whatever panics.
    fn lock(&self) -> MutexGuard<'_, Vec<InDoubt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes its append unless it was answered plainly: an actor that ends in the middle drops it.
struct UntilAnswered<'a> {
    doubtful: &'a Doubtful,
    set_id: [u8; 16],
    command_id: &'a str,
    plain: bool,
}

impl Drop for UntilAnswered<'_> {
    fn drop(&mut self) {
        if !self.plain {
            self.doubtful.note(self.set_id, self.command_id);
        }
    }
}

impl Shared {
    /// Appends for this command.
    pub(super) async fn append(&self, append: Append, command_id: &str) -> Result<Appended, AppendError> {
        let set_id = append.set_id;
        let mut watch = UntilAnswered { doubtful: &self.doubtful, set_id, command_id, plain: false };
        let span = spans::append(&append);
        let answer = self.store.append(append).instrument(span.clone()).await;
        if let Ok(done) = &answer {
            spans::appended(&span, done);
        }
        watch.plain = !matches!(answer, Err(AppendError::Ambiguous { .. }));
        answer
    }
}
