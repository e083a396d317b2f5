//! The replies of an actors' thread to callers: those to a group of commands are sent together, once all actors that the
//! group concerns have gone on. Each reply alone would wake a thread of the callers, which then takes turns with this one.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;
use tokio::sync::oneshot::Sender;

use crate::actors::shared::messages::TaskReply;
use crate::limits::REPLIES_TOGETHER;

/// The replies that are to be sent.
#[derive(Default)]
pub(crate) struct Replies {
    waiting: Mutex<WaitingReplies>,
    /// Wakes the task that sends them, which runs after the actors that are to run now.
    added: AtomicWaker,
}

#[derive(Default)]
struct WaitingReplies {
    all: Vec<(Sender<TaskReply>, TaskReply)>,
    /// Whether the task that sends them has ended.
    is_over: bool,
}

/// Ends the sending with the thread: nothing that was decided is left without its reply.
struct ReplySender(Arc<Replies>);

impl Drop for ReplySender {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.send();
    }
}

impl Replies {
    fn lock(&self) -> MutexGuard<'_, WaitingReplies> {
        // What it holds is consistent between any two steps.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reply, which is sent soon.
    pub(crate) fn add(&self, caller: Sender<TaskReply>, reply: TaskReply) {
        let mut waiting = self.lock();
        waiting.all.push((caller, reply));
        let (count, is_over) = (waiting.all.len(), waiting.is_over);
        drop(waiting);
        if is_over || count >= REPLIES_TOGETHER {
            self.send();
        } else if count == 1 {
            self.added.wake();
        }
    }

    fn send(&self) {
        let mut all = std::mem::take(&mut self.lock().all);
        for (caller, reply) in all.drain(..) {
            // A caller that has gone away needs none.
            let _ = caller.send(reply);
        }
        let mut waiting = self.lock();
        if waiting.all.is_empty() {
            waiting.all = all;
        }
    }

    /// Sends replies as they are added, for as long as the thread lives.
    pub(crate) async fn send_all(self: Arc<Self>) {
        let sending = ReplySender(self);
        poll_fn(|cx| {
            sending.0.added.register(cx.waker());
            sending.0.send();
            Poll::<()>::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::channel;

    use super::*;
    use crate::actors::shared::messages::NotDone;
    use crate::error::Error;

    fn stopped() -> TaskReply {
        Err(Error::Stopped.into())
    }

    #[tokio::test]
    async fn replies_are_sent_after_what_runs_now_and_many_at_once() {
        let replies = Arc::new(Replies::default());
        let sending = tokio::spawn(Arc::clone(&replies).send_all());
        for _ in 0..2 {
            tokio::task::yield_now().await;
            let (caller, mut answer) = channel();
            replies.add(caller, stopped());
            assert!(answer.try_recv().is_err(), "the thread has other work first");
            assert!(matches!(answer.await, Ok(Err(NotDone { error: Error::Stopped, .. }))));
        }
        let mut answers: Vec<_> = (0..REPLIES_TOGETHER)
            .map(|_| {
                let (caller, answer) = channel();
                replies.add(caller, stopped());
                answer
            })
            .collect();
        assert!(answers.iter_mut().all(|answer| answer.try_recv().is_ok()), "as many are sent at once");
        sending.abort();
    }

    #[tokio::test]
    async fn the_end_of_the_thread_leaves_no_reply_behind() {
        let replies = Arc::new(Replies::default());
        let sending = tokio::spawn(Arc::clone(&replies).send_all());
        tokio::task::yield_now().await;
        let (caller, mut before) = channel();
        replies.add(caller, stopped());
        sending.abort();
        assert!(sending.await.is_err());
        assert!(before.try_recv().is_ok(), "it was added before the end");
        let (caller, mut after) = channel();
        replies.add(caller, stopped());
        assert!(after.try_recv().is_ok(), "nobody would send it later");
    }
}
