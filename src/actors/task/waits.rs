//! The waits of a task's actor outside its mailbox: for a permit, the end of a back-off, a run's deadline, a session's turn.
//! Each ends with a message to the actor, so that other messages are handled during the wait.

use std::sync::Arc;
use std::time::Duration;

use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::actors::shared::messages::{Cause, TaskOp, ToTask};
use crate::actors::shared::sleep::sleep_on;
use crate::actors::shared::turns::AcquireTurn;
use crate::actors::task::actor::TaskActor;
use crate::actors::task::effect::PermitWait;
use crate::tools::panics::caught;

impl TaskActor {
    /// Waits for a permit outside the mailbox, at most until the call's deadline. The permit of an actor that is gone
    /// is given back.
    pub(super) fn await_permit(&mut self, wait: PermitWait) {
        let PermitWait { call_id, target, needs_permit, rate, longest } = wait;
        let waiting = call_id.clone();
        self.shared.live.waiting(&self.stream, &call_id, &target);
        let (permits, to_task) = (Arc::clone(&self.shared.permits), self.shared.to_task.clone());
        let (stream, epoch) = (self.stream.clone(), self.shared.store.fence().epoch);
        let clock = Arc::clone(&self.shared.ports.clock);
        let work = actix_rt::spawn(async move {
            let until = async {
                match longest {
                    Some(wait) => sleep_on(&clock, wait).await,
                    None => std::future::pending().await,
                }
            };
            let (op, cause) = tokio::select! {
                biased;
                permit = permits.acquire_with_turn(&target, needs_permit, rate) => {
                    let cause = Cause::own(format_args!("place:{call_id}:{epoch}"), &call_id);
                    (TaskOp::PermitGranted { call_id, permit }, cause)
                }
                () = until => {
                    let cause = Cause::own(format_args!("place-late:{call_id}:{epoch}"), &call_id);
                    (TaskOp::PermitLate { call_id }, cause)
                }
            };
            to_task.do_send(Box::new(ToTask { stream, op, cause, reply: None }));
        });
        self.waits.retain(|_, wait| !wait.is_finished());
        self.waits.insert(waiting, work.abort_handle());
    }

    /// Waits for the end of a back-off outside the mailbox.
    pub(super) fn await_retry(&self, call_id: String, attempt: u32, wait: Duration) {
        let (clock, to_task) = (Arc::clone(&self.shared.ports.clock), self.shared.to_task.clone());
        let (stream, epoch) = (self.stream.clone(), self.shared.store.fence().epoch);
        actix_rt::spawn(async move {
            sleep_on(&clock, wait).await;
            let cause = Cause::own(format_args!("retry:{call_id}:{attempt}:{epoch}"), &call_id);
            to_task.do_send(Box::new(ToTask {
                stream,
                op: TaskOp::RetryDue { call_id, attempt },
                cause,
                reply: None,
            }));
        });
    }

    /// Returns the time, or that of the operation that is carried out if the host's clock panics: a wait that is not
    /// begun has no end.
    pub(super) fn now_or(&self, before: Timestamp) -> Timestamp {
        caught(|| self.shared.ports.clock.now()).unwrap_or(before)
    }

    /// Wakes the task when the rest of its run's time is over. That is at most all of that time: a clock that was set
    /// back while no process ran does not make it longer.
    pub(super) fn wake_in(&self, rest: Duration, run: u32) -> AbortHandle {
        let (clock, to_task) = (Arc::clone(&self.shared.ports.clock), self.shared.to_task.clone());
        let stream = self.stream.clone();
        // One millisecond later: the deadline itself is still within the limit.
        let wait = rest.saturating_add(Duration::from_millis(1));
        actix_rt::spawn(async move {
            sleep_on(&clock, wait).await;
            let cause = Cause::own(format_args!("run-until:{run}"), "deadline");
            to_task.do_send(Box::new(ToTask { stream, op: TaskOp::TimeUp { run }, cause, reply: None }));
        })
        .abort_handle()
    }

    /// Waits for the session's turn outside the mailbox, so that a cancel is handled during the wait.
    pub(super) fn acquire(&self, session: StreamId, turn_id: String) {
        let (reply, granted) = oneshot::channel();
        let to_task = self.shared.to_task.clone();
        let task = self.stream.clone();
        let (asked, causation_id) = (turn_id.clone(), turn_id.clone());
        let asked_for = AcquireTurn { session, task: task.clone(), turn_id, at_once: false, reply };
        self.shared.acquire.do_send(asked_for);
        actix_rt::spawn(async move {
            let op = match granted.await {
                Ok(Ok(grant)) => TaskOp::TurnGranted { asked, grant: Box::new(grant) },
                Ok(Err(error)) => TaskOp::TurnRefused { asked, why: Some(error.to_string()) },
                Err(_) => TaskOp::TurnRefused { asked, why: None },
            };
            let cause = Cause::own(format_args!("turn:{causation_id}"), &causation_id);
            to_task.do_send(Box::new(ToTask { stream: task, op, cause, reply: None }));
        });
    }
}
