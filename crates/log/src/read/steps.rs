//! Items that are waited for one after another, as a method and as a stream.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

/// A source whose next item is waited for.
pub trait Step: Send + Unpin + 'static {
    /// The items.
    type Item: Send;

    /// Waits for the next item; `None` at the end. Cancel-safe.
    fn step(&mut self) -> impl Future<Output = Option<Self::Item>> + Send;
}

/// The wait of a source that is polled as a stream: it returns the source with its item.
type Wait<S> = Pin<Box<dyn Future<Output = (S, Option<<S as Step>::Item>)> + Send>>;

/// A source that can be waited for and polled in any order.
pub struct Steps<S: Step>(State<S>);

enum State<S: Step> {
    /// No poll waits.
    Idle(S),
    /// A poll has begun to wait.
    Polled(Wait<S>),
    /// A wait panicked and took the source with it.
    Lost,
}

impl<S: Step> fmt::Debug for Steps<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("is_idle", &self.idle().is_some()).finish()
    }
}

impl<S: Step> Steps<S> {
    /// Creates the steps of a source.
    pub fn new(source: S) -> Self {
        Self(State::Idle(source))
    }

    /// Returns the source, unless a poll waits for its next item.
    pub fn idle(&self) -> Option<&S> {
        match &self.0 {
            State::Idle(source) => Some(source),
            State::Polled(_) | State::Lost => None,
        }
    }

    /// Returns the source to change it, unless a poll waits for its next item.
    pub fn idle_mut(&mut self) -> Option<&mut S> {
        match &mut self.0 {
            State::Idle(source) => Some(source),
            State::Polled(_) | State::Lost => None,
        }
    }

    /// Waits for the next item; `None` at the end. Cancel-safe: a poll that has begun is continued.
    pub async fn next(&mut self) -> Option<S::Item> {
        if let State::Idle(source) = &mut self.0 {
            return source.step().await;
        }
        poll_fn(|cx| self.poll_step(cx)).await
    }

    /// Polls for the next item.
    pub fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        loop {
            match std::mem::replace(&mut self.0, State::Lost) {
                State::Idle(mut source) => {
                    self.0 = State::Polled(Box::pin(async move {
                        let item = source.step().await;
                        (source, item)
                    }));
                }
                State::Polled(mut wait) => {
                    return match wait.as_mut().poll(cx) {
                        Poll::Ready((source, item)) => {
                            self.0 = State::Idle(source);
                            Poll::Ready(item)
                        }
                        Poll::Pending => {
                            self.0 = State::Polled(wait);
                            Poll::Pending
                        }
                    };
                }
                State::Lost => return Poll::Ready(None),
            }
        }
    }
}

impl<S: Step> Stream for Steps<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.poll_step(cx)
    }
}

impl<S: Step> Unpin for Steps<S> {}
