//! The waits of a task's actor outside its mailbox: for a permit, the end of a back-off, a run's deadline, a session's turn.
//! Each ends with a message to the actor, so that other messages are handled during the wait.

use std::sync::Arc;
use std::time::Duration;

use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::actors::shared::messages::{Cause, NotDone, TaskOp, ToTask};
use crate::actors::shared::sleep::sleep_on;
use crate::actors::shared::turns::AcquireTurn;
use crate::actors::task::actor::TaskActor;
use crate::actors::task::effect::PermitWait;
use crate::error::Error;
use crate::limits::{CHILD_LOOK_AGAIN, CHILD_LOOKS};
use crate::run::child_wait::SentBy;
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
                    let cause = Cause::from_system(format_args!("place:{call_id}:{epoch}"), &call_id);
                    (TaskOp::PermitGranted { call_id, permit }, cause)
                }
                () = until => {
                    let cause = Cause::from_system(format_args!("place-late:{call_id}:{epoch}"), &call_id);
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
            let cause = Cause::from_system(format_args!("retry:{call_id}:{attempt}:{epoch}"), &call_id);
            to_task.do_send(Box::new(ToTask {
                stream,
                op: TaskOp::RetryDue { call_id, attempt },
                cause,
                reply: None,
            }));
        });
    }

    /// Looks whether the task of another agent that a call waits for is over. One that is not reports its end itself.
    pub(super) fn look_at_child(&self, call_id: String, child: StreamId) {
        let (clock, to_task) = (Arc::clone(&self.shared.ports.clock), self.shared.to_task.clone());
        let stream = self.stream.clone();
        actix_rt::spawn(async move {
            for _ in 0..CHILD_LOOKS {
                let (reply, answer) = oneshot::channel();
                let (op, cause) = (TaskOp::Look, Cause::default());
                to_task.do_send(Box::new(ToTask { stream: child.clone(), op, cause, reply: Some(reply) }));
                let is_over = match answer.await {
                    Ok(Ok(view)) => view.task.is_none_or(|task| task.state().is_terminal()),
                    // One that does not exist is sent again.
                    Ok(Err(NotDone { error: Error::TaskNotFound(_), .. })) => true,
                    Ok(Err(_)) => {
                        sleep_on(&clock, CHILD_LOOK_AGAIN).await;
                        continue;
                    }
                    Err(_) => return,
                };
                if is_over {
                    to_task.do_send(child_over(stream, call_id, child));
                }
                return;
            }
        });
    }

    /// Tells the task whose call sent this one that it is over.
    pub(super) fn tell_sender(&self) {
        if !self.shared.has_others {
            return;
        }
        let Some(core) = self.core.as_ref().filter(|core| core.task().state().is_terminal()) else { return };
        if let Some(SentBy { task, call_id }) = SentBy::named_in(core.task().metadata()) {
            self.shared.to_task.do_send(child_over(task, call_id, self.stream.clone()));
        }
    }

    /// Returns the time, or that of the operation that is carried out if the host's clock panics: a wait that is not
    /// begun has no end.
    pub(super) fn now_or(&self, before: Timestamp) -> Timestamp {
        caught(|| self.shared.ports.clock.now()).unwrap_or(before)
    }

    /// Wakes the task when the rest of its run's time is over. That is at most all of that time: a clock that was set
    /// back while no process ran does not make it longer.
    pub(super) fn wake_in(&self, rest: Duration, (run, until): (u32, Timestamp)) -> AbortHandle {
        let (clock, to_task) = (Arc::clone(&self.shared.ports.clock), self.shared.to_task.clone());
        let stream = self.stream.clone();
        // One millisecond later: the deadline itself is still within the limit.
        let wait = rest.saturating_add(Duration::from_millis(1));
        actix_rt::spawn(async move {
            sleep_on(&clock, wait).await;
            let cause = Cause::from_system(format_args!("run-until:{run}:{}", until.0), "deadline");
            let op = TaskOp::TimeUp { run, until };
            to_task.do_send(Box::new(ToTask { stream, op, cause, reply: None }));
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
            let cause = Cause::from_system(format_args!("turn:{causation_id}"), &causation_id);
            to_task.do_send(Box::new(ToTask { stream: task, op, cause, reply: None }));
        });
    }
}

/// Returns the message to a task that another agent's task, for which a call of it waits, is over.
fn child_over(stream: StreamId, call_id: String, child: StreamId) -> Box<ToTask> {
    let cause = Cause::from_system(format_args!("child-over:{call_id}"), &call_id);
    Box::new(ToTask { stream, op: TaskOp::ChildOver { call_id, child }, cause, reply: None })
}
