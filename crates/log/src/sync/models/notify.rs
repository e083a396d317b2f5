//! A notification that is kept until a task waits for it, modelled on tokio's.

use std::future::poll_fn;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use shuttle::sync::Mutex;

#[derive(Debug, Default)]
struct State {
    kept: bool,
    wakers: Vec<Waker>,
}

/// The kept notification.
#[derive(Debug, Default)]
pub(crate) struct Notify(Mutex<State>);

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notify_one(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.kept = true;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) async fn notified(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::take(&mut state.kept) {
                return Poll::Ready(());
            }
            state.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
