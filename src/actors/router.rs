//! The router: carries out attempts whose intent is on disk. Tools and models run on the runtime for calls;
//! timers run here, on the arbiter. What came of an attempt goes back as an ordinary command.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, Recipient, WrapFuture};
use futures_util::FutureExt;
use proto_events::call::{CallFailure, CallKind, FailureClass};
use proto_events::id::StreamId;
use tokio::task::AbortHandle;
use tracing::Instrument;

use crate::actors::delegate;
use crate::actors::live::{LiveHub, LiveSource};
use crate::actors::messages::{Abort, AttemptEnd, Cause, Order, Recall, TaskOp, ToTask};
use crate::actors::shared::Parts;
use crate::actors::spans::{self, Within};
use crate::actors::tool_stores::ToolStores;
use crate::agent::Agent;
use crate::agent::infer::{InferError, InferErrorKind, InferRequest, retry_delay};
use crate::agent::tool::Cancellation;
use crate::limits::{CANCEL_GRACE, DOOR_COMMANDS, ERROR_TEXT_BYTES, HALT_WITHIN, RETRY_AFTER_MAX};
use crate::ports::Ports;

mod asking;
mod breakers;
mod tool;
mod watch;

use breakers::Breakers;
use tool::tool;
use watch::Watch;

/// Answer when no call is in flight any more.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Drain {
    pub(crate) reply: tokio::sync::oneshot::Sender<()>,
}

/// Interrupt all calls, send none any more, and answer when the last one has ended.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Halt {
    pub(crate) reply: tokio::sync::oneshot::Sender<()>,
}

type Key = (StreamId, String);

/// A call in flight.
struct InFlight {
    attempt: u32,
    cancellation: Cancellation,
    work: Option<AbortHandle>,
}

/// The router.
pub(crate) struct Router {
    agent: Arc<Agent>,
    tool_stores: Arc<ToolStores>,
    ports: Ports,
    calls: tokio::runtime::Handle,
    live: Arc<LiveHub>,
    to_task: Recipient<ToTask>,
    in_flight: HashMap<Key, InFlight>,
    breakers: Breakers,
    draining: Vec<tokio::sync::oneshot::Sender<()>>,
    /// Works that have not ended, those that were interrupted included.
    working: usize,
    /// Tasks of other agents that are being given up.
    recalls: usize,
    /// Nothing is sent any more, and no outcome told: as if the process had died.
    halted: bool,
    halting: Option<Halt>,
}

impl Router {
    pub(crate) fn new(parts: &Parts, to_task: Recipient<ToTask>) -> Self {
        Self {
            agent: Arc::clone(&parts.agent),
            tool_stores: Arc::clone(&parts.tool_stores),
            ports: parts.ports.clone(),
            calls: parts.calls.clone(),
            live: Arc::clone(&parts.live),
            to_task,
            in_flight: HashMap::new(),
            breakers: Breakers::default(),
            draining: Vec::new(),
            working: 0,
            recalls: 0,
            halted: false,
            halting: None,
        }
    }

    /// Starts the work of an attempt on the runtime for calls; `began` is set when it takes its first step.
    fn send_off(
        &self,
        order: Order,
        cancellation: Cancellation,
        began: Arc<AtomicBool>,
        span: &Within,
    ) -> tokio::task::JoinHandle<AttemptEnd> {
        let (agent, stores, ports) =
            (Arc::clone(&self.agent), Arc::clone(&self.tool_stores), self.ports.clone());
        let jitter = f64::from(self.ports.ids.random().first().copied().unwrap_or(0)) / 255.0;
        let live = self.live.source(&order.stream, &order.request.call_id, order.attempt);
        live.began();
        let work = async move {
            began.store(true, Ordering::Release);
            let given = Given { stores, ports, live, cancellation, jitter };
            attempt(&agent, order, given).await
        };
        self.calls.spawn(work.instrument(span.0.clone()))
    }

    /// Sends an attempt whose back-off is over, unless it was canceled meanwhile or its target is left alone.
    fn begin(&mut self, key: &Key, order: Order, cancellation: Cancellation, ctx: &mut Context<Self>) {
        if cancellation.is_canceled() || self.halted {
            return self.tell_drained();
        }
        let (attempt, target) = (order.attempt, order.request.target.clone());
        if let Some((text, left)) = self.breakers.refuses(&target, self.ports.clock.now()) {
            let failure = failure(FailureClass::BeforeEffect, "CircuitOpen", &text);
            let delay_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            let end = AttemptEnd::Failed { failure, passing: true, delay_ms };
            return self.finish(key, attempt, end, false, order.within);
        }
        let (is_tool, is_inference) = (order.request.kind == CallKind::Tool, order.infer.is_some());
        let tool = self.agent.tools.get(&target).filter(|_| is_tool);
        let can_be_dropped = tool.is_none_or(|tool| !tool.tool().is_blocking());
        let (bound, place) = (Duration::from_millis(order.request.timeout_ms), order.place.clone());
        let began = Arc::new(AtomicBool::new(false));
        let span = spans::call(&order);
        let work = self.send_off(order, cancellation.clone(), Arc::clone(&began), &span);
        if let Some(known) = self.in_flight.get_mut(key) {
            known.work = Some(work.abort_handle());
        }
        self.working += 1;
        let watch = Watch {
            key: key.clone(),
            attempt,
            target,
            work,
            began,
            cancellation,
            clock: Arc::clone(&self.ports.clock),
            bound,
            grace: if is_inference { Duration::ZERO } else { CANCEL_GRACE },
            can_be_dropped,
            place,
            span,
            tell: ctx.address().recipient(),
        };
        actix_rt::spawn(watch.run());
    }

    /// Notes what an attempt says about its target.
    fn note_end(&mut self, target: &str, end: &AttemptEnd) {
        let tool = self.agent.tools.get(target).map(|tool| tool.spec().policy.circuit());
        let peer = || self.agent.peers.get(target).map(|peer| peer.policy().circuit());
        let rule = tool.or_else(peer).unwrap_or_else(|| self.agent.infer_policy.circuit());
        self.breakers.note(target, rule, end, self.ports.clock.now());
    }

    fn finish(&mut self, key: &Key, attempt: u32, end: AttemptEnd, late: bool, within: Within) {
        // An attempt that was aborted, or followed by another, has no entry of its own any more.
        if self.in_flight.get(key).is_some_and(|known| known.attempt == attempt) {
            self.in_flight.remove(key);
        }
        if self.halted {
            // It may have ended so because it was interrupted.
            return;
        }
        let (stream, call_id) = key.clone();
        // What comes after an attempt was given up is another command than that it was.
        let word = if late { "late" } else { "outcome" };
        let cause = Cause { within, ..Cause::own(format!("{word}:{call_id}:{attempt}"), &call_id) };
        let op = TaskOp::Outcome { call_id, attempt, end };
        self.to_task.do_send(ToTask { stream, op, cause, reply: None });
        self.tell_drained();
    }

    /// One work has ended, however it did.
    fn ended(&mut self) {
        self.working -= 1;
        if self.working == 0 {
            self.tell_halted();
        }
    }

    fn tell_halted(&mut self) {
        if let Some(Halt { reply }) = self.halting.take() {
            let _gone_is_fine = reply.send(());
        }
    }

    fn tell_drained(&mut self) {
        if self.in_flight.is_empty() && self.recalls == 0 {
            for reply in self.draining.drain(..) {
                let _gone_is_fine = reply.send(());
            }
        }
    }
}

impl Actor for Router {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(DOOR_COMMANDS);
    }
}

impl Handler<Order> for Router {
    type Result = ();

    fn handle(&mut self, mut order: Order, ctx: &mut Self::Context) {
        if self.halted {
            return;
        }
        order.within = spans::route(&order);
        let key = (order.stream.clone(), order.request.call_id.clone());
        let attempt = order.attempt;
        let cancellation = Cancellation::new();
        let entry = InFlight { attempt, cancellation: cancellation.clone(), work: None };
        self.in_flight.insert(key.clone(), entry);
        let delay = Duration::from_millis(order.delay_ms);
        let clock = Arc::clone(&self.ports.clock);
        let wait = async move {
            if !delay.is_zero() {
                clock.sleep(delay).await;
            }
        };
        ctx.spawn(
            wait.into_actor(self).map(move |(), router, ctx| router.begin(&key, order, cancellation, ctx)),
        );
    }
}

impl Handler<Abort> for Router {
    type Result = ();

    fn handle(&mut self, message: Abort, _: &mut Self::Context) {
        let Some(call) = self.in_flight.remove(&(message.stream, message.call_id)) else {
            return;
        };
        // Whoever watches it sees to the rest.
        call.cancellation.cancel();
        self.tell_drained();
    }
}

impl Handler<Recall> for Router {
    type Result = ();

    fn handle(&mut self, message: Recall, ctx: &mut Self::Context) {
        let Some(peer) = self.agent.peers.get(&message.peer).cloned() else { return };
        self.recalls += 1;
        let work = self.calls.spawn(delegate::recall(peer, message, Arc::clone(&self.ports.clock)));
        ctx.spawn(work.into_actor(self).map(|_ended, actor: &mut Self, _| {
            actor.recalls -= 1;
            actor.tell_drained();
        }));
    }
}

impl Handler<Halt> for Router {
    type Result = ();

    fn handle(&mut self, message: Halt, ctx: &mut Self::Context) {
        self.halted = true;
        for (_, call) in self.in_flight.drain() {
            call.cancellation.cancel();
            if let Some(work) = call.work {
                work.abort();
            }
        }
        self.halting = Some(message);
        if self.working == 0 {
            self.tell_halted();
        }
        ctx.run_later(HALT_WITHIN, |router, _| {
            if router.halting.is_some() {
                tracing::warn!(calls = router.working, "calls that hear no interruption are left behind");
            }
            router.tell_halted();
        });
    }
}

impl Handler<Drain> for Router {
    type Result = ();

    fn handle(&mut self, message: Drain, _: &mut Self::Context) {
        self.draining.push(message.reply);
        // What waits for its back-off is found open at the next start.
        self.in_flight.retain(|_, call| {
            if call.work.is_none() {
                call.cancellation.cancel();
            }
            call.work.is_some()
        });
        self.tell_drained();
    }
}

/// What an attempt is given beside its order.
struct Given {
    stores: Arc<ToolStores>,
    ports: Ports,
    live: LiveSource,
    cancellation: Cancellation,
    /// From 0 to 1, for its back-off.
    jitter: f64,
}

/// One attempt, from the first byte sent to the last one read. A panic is a failure, not a crash.
async fn attempt(agent: &Agent, order: Order, given: Given) -> AttemptEnd {
    let number = order.attempt;
    let work = async {
        match order.infer {
            Some(request) => {
                let request = InferRequest { deltas: given.live.deltas(), ..request };
                infer(agent, request, number, given.jitter).await
            }
            None if order.request.kind == CallKind::Delegate => {
                delegate::attempt(&agent.peers, &order.request, number, given.ports).await
            }
            None => tool(agent, order, given).await,
        }
    };
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(end) => end,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            failed(FailureClass::AfterEffect, "panic", &format!("the call panicked: {text}"))
        }
    }
}

async fn infer(agent: &Agent, request: InferRequest, attempt: u32, jitter: f64) -> AttemptEnd {
    let Some(backend) = &agent.backend else {
        let text = "the agent has no model any more";
        return failed(FailureClass::BeforeEffect, "NoModel", text);
    };
    match backend.infer(request).await {
        Ok(reply) => {
            AttemptEnd::Succeeded { result: reply.to_json(), usage: reply.usage, writes: Vec::new() }
        }
        Err(error) => infer_failed(&error, attempt, jitter),
    }
}

fn infer_failed(error: &InferError, attempt: u32, jitter: f64) -> AttemptEnd {
    let message = if error.message.is_empty() { &error.type_name } else { &error.message };
    let failure = |class| CallFailure { class, error_type: short(&error.type_name), message: short(message) };
    match error.kind {
        InferErrorKind::Transient { retry_after } => {
            let delay = retry_after.unwrap_or_else(|| retry_delay(attempt.saturating_sub(1), jitter));
            let delay = delay.min(RETRY_AFTER_MAX);
            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            AttemptEnd::Failed { failure: failure(FailureClass::AfterEffect), passing: true, delay_ms }
        }
        InferErrorKind::Malformed => {
            AttemptEnd::Failed { failure: failure(FailureClass::Rejected), passing: false, delay_ms: 0 }
        }
        InferErrorKind::Failed => {
            AttemptEnd::Failed { failure: failure(FailureClass::AfterEffect), passing: false, delay_ms: 0 }
        }
    }
}

fn failed(class: FailureClass, error_type: &str, message: &str) -> AttemptEnd {
    AttemptEnd::Failed { failure: failure(class, error_type, message), passing: false, delay_ms: 0 }
}

fn failure(class: FailureClass, error_type: &str, message: &str) -> CallFailure {
    CallFailure { class, error_type: short(error_type), message: short(message) }
}

/// An error's text stands in the log several times over: what is longer than anyone reads is cut, and said so.
fn short(text: &str) -> String {
    if text.len() <= ERROR_TEXT_BYTES {
        return text.to_owned();
    }
    let end = (0..=ERROR_TEXT_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes in all)", text.get(..end).unwrap_or_default(), text.len())
}
