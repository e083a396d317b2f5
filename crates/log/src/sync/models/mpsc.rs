//! A bounded channel from many to one, modelled on tokio's. Nobody waits to send.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

use shuttle::sync::{Mutex, MutexGuard};
pub(crate) use tokio::sync::mpsc::error;

#[derive(Debug)]
struct Queue<T> {
    waiting: VecDeque<T>,
    bound: usize,
    senders: usize,
    /// Whether new values are refused.
    closed: bool,
    wakers: Vec<Waker>,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Mutex<Queue<T>>>);

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Mutex<Queue<T>>>);

/// Returns a channel that holds at most `bound` values.
pub(crate) fn channel<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    let (waiting, wakers) = (VecDeque::new(), Vec::new());
    let queue = Arc::new(Mutex::new(Queue { waiting, bound, senders: 1, closed: false, wakers }));
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

fn lock<T>(queue: &Mutex<Queue<T>>) -> MutexGuard<'_, Queue<T>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Releases the queue, then wakes all tasks that wait at it.
fn wake<T>(mut queue: MutexGuard<'_, Queue<T>>) {
    let wakers = std::mem::take(&mut queue.wakers);
    drop(queue);
    wakers.into_iter().for_each(Waker::wake);
}

impl<T> Sender<T> {
    pub(crate) fn try_send(&self, value: T) -> Result<(), error::TrySendError<T>> {
        let mut queue = lock(&self.0);
        if queue.closed {
            return Err(error::TrySendError::Closed(value));
        }
        if queue.waiting.len() >= queue.bound {
            return Err(error::TrySendError::Full(value));
        }
        queue.waiting.push_back(value);
        wake(queue);
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.0).senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.senders -= 1;
        wake(queue);
    }
}

impl<T> Receiver<T> {
    pub(crate) async fn recv(&mut self) -> Option<T> {
        let mut taken = Vec::new();
        self.recv_many(&mut taken, 1).await;
        taken.pop()
    }

    /// Waits for a value, then takes up to `limit`; returns 0 once the channel is closed and empty.
    pub(crate) async fn recv_many(&mut self, taken: &mut Vec<T>, limit: usize) -> usize {
        poll_fn(|cx| {
            let mut queue = lock(&self.0);
            let count = limit.min(queue.waiting.len());
            if count > 0 {
                taken.extend(queue.waiting.drain(..count));
                wake(queue);
                return Poll::Ready(count);
            }
            if queue.closed || queue.senders == 0 {
                return Poll::Ready(0);
            }
            queue.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Whether the channel is empty.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).waiting.is_empty()
    }

    /// Closes the channel to new values; those in it can still be received.
    pub(crate) fn close(&mut self) {
        let mut queue = lock(&self.0);
        queue.closed = true;
        wake(queue);
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.closed = true;
        let left = std::mem::take(&mut queue.waiting);
        wake(queue);
        drop(left);
    }
}
