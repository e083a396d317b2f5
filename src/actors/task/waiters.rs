//! The callers that wait for the end of a task's run.

use tokio::sync::oneshot::Sender;

use crate::actors::shared::messages::TaskReply;

/// The callers that wait for the end of a run. Callers that gave up are removed before the list grows, so that it
/// is at most twice as long as those that still wait.
#[derive(Default)]
pub(crate) struct Waiters(Vec<Sender<TaskReply>>);

impl Waiters {
    /// Whether no caller waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a caller.
    pub(crate) fn push(&mut self, caller: Sender<TaskReply>) {
        if self.0.len() == self.0.capacity() {
            self.0.retain(|caller| !caller.is_closed());
        }
        self.0.push(caller);
    }

    /// Answers all callers.
    pub(crate) fn answer(&mut self, answer: impl Fn() -> TaskReply) {
        for caller in std::mem::take(&mut self.0) {
            // A caller that has given up needs no answer.
            let _ = caller.send(answer());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::channel;

    use super::*;
    use crate::actors::shared::messages::NotDone;
    use crate::error::Error;

    #[test]
    fn a_million_callers_that_gave_up_leave_nothing_behind() {
        let mut waiters = Waiters::default();
        let (patient, mut answered) = channel();
        waiters.push(patient);
        for _ in 0..1_000_000 {
            waiters.push(channel().0);
        }
        assert!(waiters.0.capacity() <= 8, "{}", waiters.0.capacity());
        waiters.answer(|| Err(Error::Stopped.into()));
        assert!(matches!(answered.try_recv(), Ok(Err(NotDone { error: Error::Stopped, .. }))));
        assert!(waiters.is_empty());
    }
}
