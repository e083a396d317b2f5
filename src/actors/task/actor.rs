//! A task's actor: accepts operations one at a time, carries them out with its core, replies, and starts the
//! effects. It contains no rules of its own.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use proto_events::id::StreamId;
use tokio::task::AbortHandle;
use tracing::Instrument;

use crate::actors::shared::idle_actors::{IdleActors, Idleness};
use crate::actors::shared::idle_state::IdleState;
use crate::actors::shared::live_actors::{BecameIdle, Passivate};
use crate::actors::shared::messages::{Abort, FindLost, Forget, TaskActorStopped, TaskOp, ToTask};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::spans::RunSpan;
use crate::actors::shared::within::Within;
use crate::actors::task::approver::RunningApprover;
use crate::actors::task::core::TaskCore;
use crate::actors::task::effect::Effect;
use crate::actors::task::operation_driver::{Driven, OperationDriver, OperationPanic};
use crate::actors::task::panic_recovery::{self, AttendedOperation, Done};
use crate::actors::task::pending_reply::{PendingReply, ReplyWhen};
use crate::actors::task::step::Output;
use crate::actors::task::waiters::Waiters;
use crate::error::Error;
use crate::limits::PANICS_IN_A_ROW;
use crate::tools::panics::caught;

/// The actor of one task's stream.
pub(crate) struct TaskActor {
    pub(super) shared: Arc<Shared>,
    pub(super) stream: StreamId,
    pub(super) core: Option<Box<TaskCore>>,
    pub(super) waiters: Waiters,
    idle: Rc<IdleState>,
    idle_actors: IdleActors,
    orderly: bool,
    number: u64,
    /// The error that stalled the task, until something is written again.
    pub(super) stalled: Option<String>,
    /// The timer that wakes the actor at the run's deadline.
    alarm: Option<AbortHandle>,
    /// The calls that wait for a permit or a turn.
    pub(super) waits: HashMap<String, AbortHandle>,
    span: RunSpan,
    /// The request to the approval handler, while it is open.
    approver: Option<RunningApprover>,
    /// The number of commands that panicked since one was carried out.
    panics: u32,
}

impl TaskActor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        stream: StreamId,
        number: u64,
        idle: Rc<IdleState>,
        idle_actors: IdleActors,
    ) -> Self {
        Self {
            shared,
            stream,
            core: None,
            waiters: Waiters::default(),
            idle,
            idle_actors,
            orderly: false,
            number,
            stalled: None,
            alarm: None,
            waits: HashMap::new(),
            span: RunSpan::default(),
            approver: None,
            panics: 0,
        }
    }

    /// Completes an operation: its reply, and the replies to those who wait for the end. `at_once`: before anything else is
    /// begun on this thread.
    fn after(&mut self, asked: PendingReply, done: Result<(), Error>, at_once: bool) {
        if let Some(core) = &self.core {
            self.span.record_task(core.task(), core.is_idle());
        }
        match (done, asked.reply) {
            (Ok(()), reply) => {
                if asked.when.is_decided() {
                    self.stalled = None;
                    self.tell_sender();
                }
                self.answer(PendingReply { when: asked.when, reply }, at_once);
            }
            (Err(error), Some(reply)) => {
                let _ = reply.send(Err(error.into()));
            }
            (Err(error), None) => self.stall_for(&error),
        }
        if self.core.as_ref().is_some_and(|core| core.is_at_rest()) && !self.waiters.is_empty() {
            let view = self.view();
            self.waiters.answer(|| Ok(view.clone()));
        }
        if self.core.as_ref().is_some_and(|core| core.is_idle()) {
            // An ended run waits for no approval.
            self.approver = None;
        }
        self.idle.carried_out();
        let is_idle = self.is_idle();
        // A run that waits as it is keeps its deadline while its actor is awake: the run may go on.
        let has_run = self.core.as_ref().is_some_and(|core| !core.is_idle());
        if is_idle
            && !has_run
            && let Some(alarm) = self.alarm.take()
        {
            alarm.abort();
        }
        self.idle.set_idle(is_idle);
        if is_idle {
            let has_ended = self.core.as_ref().is_some_and(|core| core.has_ended());
            let idleness = if has_ended { Idleness::Ended } else { Idleness::Rests };
            self.idle_actors.put_last(&self.stream, &self.idle, idleness);
        } else {
            self.idle_actors.remove(&self.idle);
        }
        if is_idle && self.shared.crowded.load(Ordering::Relaxed) {
            self.shared.became_idle.do_send(BecameIdle { stream: self.stream.clone() });
        }
    }

    /// Whether the actor can be passivated: no run but one that waits for a person as it is, no caller that waits for one
    /// to end, and nothing that only this actor knows.
    fn is_idle(&self) -> bool {
        let core_is_idle = self.core.as_ref().map_or(self.stalled.is_none(), |core| core.is_at_rest());
        core_is_idle && self.waiters.is_empty()
    }

    /// Stalls the task after a command of the system's own failed. No caller waits for its reply, so it is
    /// handled here: what the task waits for is lost, and no caller may wait for its end in vain.
    fn stall_for(&mut self, error: &Error) {
        tracing::error!(stream = %self.stream, %error, "an internal command failed");
        self.stalled = Some(error.to_string());
        let mut waiters = std::mem::take(&mut self.waiters);
        waiters.answer(|| Err(self.stall().into()));
    }

    pub(super) fn stall(&self) -> Error {
        let why = self.stalled.clone().unwrap_or_default();
        Error::Stalled { stream: self.stream.to_string(), why }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Dispatch(mut order) => {
                order.within = self.span.within();
                self.shared.dispatch.do_send(order);
            }
            Effect::Abort { call_id } => {
                // A call that waits gives up its place.
                if let Some(wait) = self.waits.remove(&call_id) {
                    wait.abort();
                }
                self.shared.abort.do_send(Abort { stream: self.stream.clone(), call_id });
            }
            Effect::Forget { kept } => {
                self.shared.forget.do_send(Forget { stream: self.stream.clone(), kept });
            }
            Effect::Recall(recall) => self.shared.recall.do_send(recall),
            Effect::LookAtChild { call_id, child } => self.look_at_child(call_id, child),
            Effect::AskApprover(request) => {
                self.approver = Some(RunningApprover::start(&self.shared, self.stream.clone(), *request));
            }
            Effect::StopApprover { approval_id } => {
                self.approver.take_if(|approver| approver.approval_id() == approval_id);
            }
            Effect::Probe(order) => self.shared.probe.do_send(*order),
            Effect::FindLost { calls } => {
                self.shared.find_lost.do_send(FindLost { stream: self.stream.clone(), calls });
            }
            Effect::AwaitPermit(wait) => self.await_permit(wait),
            Effect::AwaitRetry { call_id, attempt, wait } => self.await_retry(call_id, attempt, wait),
            Effect::Wake { at, limit, run, now } => {
                let read = self.now_or(now);
                let now = self.core.as_ref().map_or(read, |core| core.steady(&self.shared, read));
                let alarm = self.wake_in(at.since(now).min(limit), (run, at));
                if let Some(before) = self.alarm.replace(alarm) {
                    before.abort();
                }
            }
            Effect::Acquire { session, turn_id } => self.acquire(session, turn_id),
        }
    }
}

impl Drop for TaskActor {
    fn drop(&mut self) {
        self.idle_actors.remove(&self.idle);
        if let Some(alarm) = self.alarm.take() {
            alarm.abort();
        }
    }
}

impl Actor for TaskActor {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        // Thousands may be put to sleep at once: their notices would take the callers' room in the supervisor's mailbox.
        if !self.orderly {
            self.shared
                .stopped
                .do_send(TaskActorStopped { stream: self.stream.clone(), number: self.number });
        }
    }
}

impl Handler<Passivate> for TaskActor {
    type Result = ();

    fn handle(&mut self, _: Passivate, ctx: &mut Self::Context) {
        self.orderly = true;
        ctx.stop();
    }
}

impl TaskActor {
    /// Takes the end of an operation: its answer, and its effects.
    fn take_done(&mut self, mut asked: PendingReply, done: Done) {
        let Done { core, answer, effects, has_panicked, reply } = done;
        asked.put_back(reply);
        if has_panicked {
            self.panics += 1;
        } else if asked.when.is_decided() && answer.is_ok() {
            self.panics = 0;
        }
        self.core = core;
        // Effects follow the answer.
        self.after(asked, answer, !effects.is_empty());
        for effect in effects {
            if let Err(panic) = caught(|| self.perform(effect)) {
                self.stall_for(&Error::Internal(format!("an effect could not be started: {panic}")));
            }
        }
    }

    /// Waits for the end of an operation. No other message is handled before.
    fn wait_for(
        &self,
        work: impl Future<Output = Done> + 'static,
        within: Within,
        asked: PendingReply,
        ctx: &mut Context<Self>,
    ) {
        let work = work.instrument(within.0).into_actor(self);
        ctx.wait(work.map(|done, actor: &mut Self, _| actor.take_done(asked, done)));
    }

    /// Goes on with a task whose operation panicked.
    fn recover_from(&self, panic: String, asked: PendingReply, ctx: &mut Context<Self>) {
        let (is_awaited, goes_on) = (asked.reply.is_some(), self.panics < PANICS_IN_A_ROW);
        let (shared, stream) = (Arc::clone(&self.shared), self.stream.clone());
        let work = panic_recovery::after_panic(shared, stream, panic, is_awaited, goes_on);
        self.wait_for(work, Within::default(), asked, ctx);
    }

    /// Returns the task if an operation can be carried out on it here and now: it was read, and takes no long time.
    fn take_here(&mut self, op: &TaskOp) -> Option<Box<TaskCore>> {
        let shared = &self.shared;
        self.core.take_if(|core| {
            core.note_size(op, true);
            shared.under_test || !core.takes_long(shared)
        })
    }
}

impl Handler<Box<ToTask>> for TaskActor {
    type Result = ();

    fn handle(&mut self, message: Box<ToTask>, ctx: &mut Self::Context) {
        let shared = Arc::clone(&self.shared);
        let ToTask { stream, op, cause, reply } = *message;
        let when = match op {
            TaskOp::Look => ReplyWhen::Queried,
            TaskOp::AwaitEnd => ReplyWhen::RunEnded,
            _ if cause.awaits_end => ReplyWhen::DecidedAndEnded,
            _ => ReplyWhen::Decided,
        };
        let within = match when {
            // An outcome is written in the span of its call.
            ReplyWhen::Decided | ReplyWhen::DecidedAndEnded if !cause.within.0.is_none() => {
                cause.within.clone()
            }
            ReplyWhen::Decided | ReplyWhen::DecidedAndEnded => self.span.enter(&self.stream, &cause.caller),
            ReplyWhen::Queried | ReplyWhen::RunEnded => Within::default(),
        };
        let mut asked = PendingReply { when, reply };
        let Some(mut core) = self.take_here(&op) else {
            let (is_awaited, goes_on) = (asked.reply.is_some(), self.panics < PANICS_IN_A_ROW);
            let reply = asked.take_durable();
            let operation = AttendedOperation { op, cause, is_awaited, goes_on, reply };
            let work = panic_recovery::carry_out(shared, self.core.take(), stream, operation);
            return self.wait_for(work, within, asked, ctx);
        };
        let begun = within.0.in_scope(|| {
            caught(|| {
                let output = core.start_operation(&shared, op, cause);
                (core, output)
            })
        });
        match begun {
            Ok((core, Output::Done(answer))) => {
                self.take_done(asked, Done::new(&shared, Driven { core, answer, reply: None }));
            }
            Ok((core, output)) => {
                let work = OperationDriver::new(shared, core, output).with_reply(asked.take_durable());
                let work = work.instrument(within.0);
                ctx.wait(work.into_actor(self).map(|driven, actor: &mut Self, ctx| match driven {
                    Ok(driven) => actor.take_done(asked, Done::new(&actor.shared, driven)),
                    Err(OperationPanic { text, reply }) => {
                        asked.put_back(reply);
                        actor.recover_from(text, asked, ctx);
                    }
                }));
            }
            Err(panic) => self.recover_from(panic, asked, ctx),
        }
    }
}
