//! Appending on behalf of a command: the span, and the note of an append whose outcome is unknown.

use taskreel_log::api::{Append, AppendError, Appended};
use tracing::Instrument;

use crate::actors::reading::is_blocking_thread;
use crate::actors::shared::parts::Shared;
use crate::actors::shared::spans;
use crate::actors::shared::unresolved::UnresolvedAppends;

/// A guard that notes its append unless it got a clear answer. An actor that ends before the answer drops it.
struct AppendWatch<'a> {
    unresolved: &'a UnresolvedAppends,
    set_id: [u8; 16],
    command_id: &'a str,
    is_resolved: bool,
}

impl Drop for AppendWatch<'_> {
    fn drop(&mut self) {
        if !self.is_resolved {
            self.unresolved.note(self.set_id, self.command_id);
        }
    }
}

impl Shared {
    /// Appends, on behalf of this command.
    pub(crate) async fn append(&self, append: Append, command_id: &str) -> Result<Appended, AppendError> {
        let set_id = append.set_id;
        let mut watch = AppendWatch { unresolved: &self.unresolved, set_id, command_id, is_resolved: false };
        let queued = self.condition.queued();
        let answer = match spans::append(&append) {
            None => self.append_at_desk(append).await,
            Some(span) => {
                let answer = Box::pin(self.append_at_desk(append).instrument(span.clone())).await;
                if let Ok(done) = &answer {
                    spans::appended(&span, done);
                }
                answer
            }
        };
        queued.answered(&answer, self.store.as_ref());
        watch.is_resolved = !matches!(answer, Err(AppendError::Ambiguous { .. }));
        answer
    }

    /// Appends, and awaits the answer at the desk of the actors' thread. Work on another thread awaits its own, since the
    /// actors' thread may end before.
    async fn append_at_desk(&self, append: Append) -> Result<Appended, AppendError> {
        if is_blocking_thread() {
            return self.store.append(append).await;
        }
        let (ticket, at_desk) = self.desk.ticket();
        match self.store.append_with(append, ticket) {
            None => at_desk.await,
            Some(answer) => {
                at_desk.withdrawn();
                answer.await
            }
        }
    }
}
