//! Appending on behalf of a command: the span, and the note of an append whose outcome is unknown.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use taskreel_log::api::{Append, AppendError, AppendFuture, Appended};
use tracing::Span;

use crate::actors::shared::condition::QueuedAppend;
use crate::actors::shared::durable_reply::DurableReply;
use crate::actors::shared::parts::Shared;
use crate::actors::shared::reply_queue::QueuedReply;
use crate::actors::shared::spans;
use crate::actors::shared::unresolved_appends::UnresolvedAppends;
use crate::actors::stream_reads::is_blocking_thread;

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
            self.unresolved.insert(self.set_id, self.command_id);
        }
    }
}

/// Whether it is known, by this answer, if the append is in the log.
pub(crate) fn is_resolved(answer: &Result<Appended, AppendError>) -> bool {
    !matches!(answer, Err(AppendError::Ambiguous { .. }))
}

/// An append that waits for its answer.
pub(crate) struct PendingAppend {
    queued: QueuedAppend,
    span: Option<Span>,
    source: AnswerSource,
}

/// Where the answer to an append arrives.
enum AnswerSource {
    /// The reply queue of the actors' thread.
    ReplyQueue(QueuedReply),
    /// The store's own answer. Work on another thread awaits it, since the actors' thread may end before.
    Store(AppendFuture),
}

impl PendingAppend {
    /// Hands the append to the store.
    pub(crate) fn start(shared: &Shared, append: Append) -> Self {
        let queued = QueuedAppend::start(Arc::clone(&shared.condition));
        let span = spans::append(&append);
        let source = within(span.as_ref(), || AnswerSource::new(shared, append));
        Self { queued, span, source }
    }

    /// Has a reply sent once the append is durable. Returns it if the store does not answer at the reply queue, or has answered.
    pub(crate) fn send_when_durable(&self, reply: DurableReply) -> Option<DurableReply> {
        match &self.source {
            AnswerSource::ReplyQueue(queued) => queued.send_when_durable(reply),
            AnswerSource::Store(_) => Some(reply),
        }
    }

    /// Takes the reply back, if it was not sent.
    pub(crate) fn take_reply(&mut self) -> Option<DurableReply> {
        match &mut self.source {
            AnswerSource::ReplyQueue(reply) => reply.take_reply(),
            AnswerSource::Store(_) => None,
        }
    }

    /// Returns the answer, once it has arrived.
    pub(crate) fn poll_answer(
        &mut self,
        shared: &Shared,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Appended, AppendError>> {
        let source = &mut self.source;
        let answer = within(self.span.as_ref(), || match source {
            AnswerSource::ReplyQueue(reply) => Pin::new(reply).poll(cx),
            AnswerSource::Store(answer) => answer.as_mut().poll(cx),
        });
        if let Poll::Ready(answer) = &answer {
            if let (Some(span), Ok(done)) = (&self.span, answer) {
                spans::appended(span, done);
            }
            self.queued.answered(answer, shared.store.as_ref());
        }
        answer
    }
}

impl AnswerSource {
    fn new(shared: &Shared, append: Append) -> Self {
        if is_blocking_thread() {
            return Self::Store(shared.store.append(append));
        }
        let (token, pending) = shared.reply_queue.token();
        match shared.store.append_with(append, token) {
            None => Self::ReplyQueue(pending),
            Some(answer) => {
                pending.withdrawn();
                Self::Store(answer)
            }
        }
    }
}

/// Calls this in a span, if there is one.
fn within<T>(span: Option<&Span>, call: impl FnOnce() -> T) -> T {
    match span {
        Some(span) => span.in_scope(call),
        None => call(),
    }
}

impl Shared {
    /// Appends, on behalf of this command.
    pub(crate) async fn append(&self, append: Append, command_id: &str) -> Result<Appended, AppendError> {
        let set_id = append.set_id;
        let mut watch = AppendWatch { unresolved: &self.unresolved, set_id, command_id, is_resolved: false };
        let mut appending = PendingAppend::start(self, append);
        let answer = poll_fn(|cx| appending.poll_answer(self, cx)).await;
        watch.is_resolved = is_resolved(&answer);
        answer
    }
}
