//! The gate of a system: what is sent to its actors and its log passes it, and it is closed while the log is reopened.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The gate of a system. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate {
    lock: Arc<RwLock<()>>,
    opened: Arc<Notify>,
}

impl Gate {
    /// Carries out what never waits, once the gate is open. A caller whose future is not polled any more holds nothing: neither
    /// a place in the row nor the gate.
    pub(crate) async fn when_open<T>(&self, act: impl FnOnce() -> T) -> T {
        loop {
            let mut opened = std::pin::pin!(self.opened.notified());
            // From here on no opening is missed.
            opened.as_mut().enable();
            if let Ok(_open) = self.lock.try_read() {
                return act();
            }
            opened.await;
        }
    }

    /// Waits until the gate is open, and keeps it from closing until the guard is dropped. For tasks of a runtime only: a
    /// caller's own future that is not polled any more would keep the gate from closing for ever.
    pub(crate) async fn pass(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.lock).read_owned().await
    }

    /// Closes the gate, once all who passed it are through, until the guard is dropped.
    pub(crate) async fn close(&self) -> ClosedGate {
        let mut closed = ClosedGate { lock: None, opened: Arc::clone(&self.opened) };
        closed.lock = Some(Arc::clone(&self.lock).write_owned().await);
        closed
    }
}

/// A closed gate, or one that is about to be. It opens when this is dropped.
pub(crate) struct ClosedGate {
    lock: Option<OwnedRwLockWriteGuard<()>>,
    opened: Arc<Notify>,
}

impl Drop for ClosedGate {
    fn drop(&mut self) {
        drop(self.lock.take());
        self.opened.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_caller_who_waits_at_the_gate_and_is_not_polled_any_more_does_not_keep_it_from_closing_again() {
        let gate = Gate::default();
        let closed = gate.close().await;
        let mut waiting = pin!(gate.when_open(|| 7));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(closed);
        let again = tokio::time::timeout(SOON, gate.close()).await.expect("closed again");
        drop(again);
        assert_eq!(tokio::time::timeout(SOON, waiting).await.expect("let through"), 7);
    }

    #[tokio::test]
    async fn whoever_waits_when_a_closing_is_given_up_is_woken() {
        let gate = Gate::default();
        let inside = gate.pass().await;
        let mut closing = Box::pin(gate.close());
        assert!(closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.when_open(|| ()).await }
        });
        tokio::task::yield_now().await;
        drop(closing);
        tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
        drop(inside);
        let Poll::Ready(_) = pin!(gate.close()).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the gate is free");
        };
    }
}
