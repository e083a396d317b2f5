//! A channel for one value, modelled on tokio's.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use shuttle::sync::{Mutex, MutexGuard};

/// The sender was dropped without sending.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecvError;

#[derive(Debug)]
struct Slot<T> {
    answer: Option<T>,
    sender_gone: bool,
    receiver_gone: bool,
    waker: Option<Waker>,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Mutex<Slot<T>>>);

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Mutex<Slot<T>>>);

/// Returns a channel.
pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Slot { answer: None, sender_gone: false, receiver_gone: false, waker: None };
    let slot = Arc::new(Mutex::new(slot));
    (Sender(Arc::clone(&slot)), Receiver(slot))
}

fn lock<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Sender<T> {
    pub(crate) fn send(self, answer: T) -> Result<(), T> {
        let mut slot = lock(&self.0);
        if slot.receiver_gone {
            return Err(answer);
        }
        slot.answer = Some(answer);
        // Dropping this half, right away, wakes the receiver.
        Ok(())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.0);
        slot.sender_gone = true;
        let waker = slot.waker.take();
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = lock(&self.0);
        if let Some(answer) = slot.answer.take() {
            return Poll::Ready(Ok(answer));
        }
        if slot.sender_gone {
            return Poll::Ready(Err(RecvError));
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.0);
        slot.receiver_gone = true;
        let left = slot.answer.take();
        drop(slot);
        drop(left);
    }
}
