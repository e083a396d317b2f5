//! A channel from one to many that keeps only the newest values, modelled on tokio's: each receiver gets each
//! value, or the number that it has missed.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

use shuttle::sync::{Mutex, MutexGuard};

/// The number of values kept, whatever capacity is requested: small, so that a test of a few steps lags.
const KEPT: usize = 2;

/// The errors of the channel.
pub(crate) mod error {
    /// The reason why nothing is received.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) enum RecvError {
        Closed,
        Lagged(u64),
    }

    /// The error of a send without receivers.
    #[derive(Debug)]
    pub(crate) struct SendError<T>(pub(crate) T);
}

#[derive(Debug)]
struct Ring<T> {
    kept: VecDeque<T>,
    /// The number of the first value kept.
    first: u64,
    capacity: usize,
    senders: usize,
    receivers: usize,
    waiting: Vec<Waker>,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Mutex<Ring<T>>>);

/// A receiving half.
#[derive(Debug)]
pub struct Receiver<T> {
    ring: Arc<Mutex<Ring<T>>>,
    next: u64,
}

/// Returns a channel with one receiver.
pub(crate) fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(capacity);
    let receiver = sender.subscribe();
    (sender, receiver)
}

fn lock<T>(ring: &Mutex<Ring<T>>) -> MutexGuard<'_, Ring<T>> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Clone> Sender<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Arc::new(Mutex::new(Ring {
            kept: VecDeque::new(),
            first: 0,
            capacity: capacity.min(KEPT),
            senders: 1,
            receivers: 0,
            waiting: Vec::new(),
        })))
    }

    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let mut ring = lock(&self.0);
        ring.receivers += 1;
        Receiver { next: ring.first + ring.kept.len() as u64, ring: Arc::clone(&self.0) }
    }

    pub(crate) fn receiver_count(&self) -> usize {
        lock(&self.0).receivers
    }

    /// Returns the number of values that are kept for some receiver; here of all that are kept.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).kept.len()
    }

    pub(crate) fn send(&self, value: T) -> Result<usize, error::SendError<T>> {
        let mut ring = lock(&self.0);
        if ring.receivers == 0 {
            return Err(error::SendError(value));
        }
        ring.kept.push_back(value);
        if ring.kept.len() > ring.capacity {
            ring.kept.pop_front();
            ring.first += 1;
        }
        let (receivers, waiting) = (ring.receivers, std::mem::take(&mut ring.waiting));
        drop(ring);
        waiting.into_iter().for_each(Waker::wake);
        Ok(receivers)
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
        let mut ring = lock(&self.0);
        ring.senders -= 1;
        let waiting = if ring.senders == 0 { std::mem::take(&mut ring.waiting) } else { Vec::new() };
        drop(ring);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl<T: Clone> Receiver<T> {
    pub(crate) async fn recv(&mut self) -> Result<T, error::RecvError> {
        poll_fn(|cx| {
            let mut ring = lock(&self.ring);
            if let Some(missed) = ring.first.checked_sub(self.next).filter(|missed| *missed > 0) {
                self.next = ring.first;
                return Poll::Ready(Err(error::RecvError::Lagged(missed)));
            }
            let place = usize::try_from(self.next - ring.first).unwrap_or(usize::MAX);
            if let Some(value) = ring.kept.get(place) {
                self.next += 1;
                return Poll::Ready(Ok(value.clone()));
            }
            if ring.senders == 0 {
                return Poll::Ready(Err(error::RecvError::Closed));
            }
            ring.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    pub(crate) fn len(&self) -> usize {
        let ring = lock(&self.ring);
        usize::try_from((ring.first + ring.kept.len() as u64).saturating_sub(self.next)).unwrap_or(usize::MAX)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        lock(&self.ring).receivers -= 1;
    }
}
