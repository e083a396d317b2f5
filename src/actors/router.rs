//! The router of an agent: carries out attempts whose intent is on disk. Tools and models run on the runtime for calls;
//! timers run here, on the arbiter. The outcome of an attempt goes back to the task's actor as an ordinary command.
//!
//! [`mod@attempt`] carries out an inference, [`tool_attempt`] a tool call, [`handler_attempt`] the embedder's handler and
//! [`delegate`] a request to another agent; [`agents`] is the way of a tool or a handler to other agents; [`watch`] times an attempt out, [`probe`] asks a tool about a lost one, [`recall`]
//! stops work elsewhere, [`breakers`] refuses targets that keep failing, [`guard`] keeps the router alive when code panics.

pub(crate) mod agents;
pub(crate) mod attempt;
pub(crate) mod attempt_context;
pub(crate) mod breakers;
pub(crate) mod delegate;
pub(crate) mod guard;
pub(crate) mod handler_attempt;
pub(crate) mod probe;
pub(crate) mod recall;
pub(crate) mod tool_attempt;
pub(crate) mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, Handler, Message};
use proto_events::call::recovery::RetryWish;
use proto_events::call::{CallKind, FailureClass};
use taskreel_log::ports::Ports;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tracing::Instrument;

use crate::actors::router::attempt::attempt;
use crate::actors::router::attempt_context::{AttemptContext, failure};
use crate::actors::router::breakers::Breakers;
use crate::actors::router::watch::{AttemptReport, Key, Watch};
use crate::actors::shared::figures::{AttemptOutcome, CallLabel, Figures};
use crate::actors::shared::messages::{Abort, AttemptEnd, Cause, Forget, Order, TaskOp, ToTask};
use crate::actors::shared::parts::{AgentParts, Parts};
use crate::actors::shared::route::Route;
use crate::actors::shared::secrets::TaskSecrets;
use crate::actors::shared::spans;
use crate::actors::shared::tool_stores::ToolStores;
use crate::actors::shared::within::Within;
use crate::agent::card::Agent;
use crate::limits::{CANCEL_GRACE, SUPERVISOR_MAILBOX};
use crate::live::LiveHub;
use crate::tools::panics::caught;
use crate::tools::tool::Cancellation;

/// A request to reply when no call is in flight any more.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Drain {
    /// Told whether none was in flight when it was asked.
    pub(crate) reply: tokio::sync::oneshot::Sender<bool>,
}

/// A request to interrupt all calls, send no more, and reply with the interrupted ones when the last has ended, at
/// the latest after this time.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Halt {
    pub(crate) within: Duration,
    pub(crate) reply: tokio::sync::oneshot::Sender<Vec<Key>>,
}

/// A call in flight.
struct InFlight {
    attempt: u32,
    cancellation: Cancellation,
    work: Option<AbortHandle>,
    label: CallLabel,
}

/// The router of one agent.
pub(crate) struct Router {
    agent: Arc<Agent>,
    tool_stores: Arc<ToolStores>,
    secrets: Arc<TaskSecrets>,
    ports: Ports,
    calls: tokio::runtime::Handle,
    live: Arc<LiveHub>,
    to_task: Route<Box<ToTask>>,
    in_flight: HashMap<Key, InFlight>,
    breakers: Breakers,
    draining: Vec<tokio::sync::oneshot::Sender<bool>>,
    /// The number of attempts whose work has not ended, including interrupted ones.
    working: usize,
    /// The number of attempts that were given up and go on.
    stuck: Arc<AtomicUsize>,
    figures: Arc<Figures>,
    /// The number of other agents' tasks that are being canceled.
    recalls: usize,
    /// Whether nothing is sent and no outcome reported any more, as if the process had died.
    halted: bool,
    /// The waiting request, and the calls that it interrupted.
    halting: Option<(Halt, Vec<Key>)>,
}

impl Router {
    pub(crate) fn new(parts: &Parts, own: &AgentParts, to_task: Route<Box<ToTask>>) -> Self {
        Self {
            agent: Arc::clone(&own.agent),
            tool_stores: Arc::clone(&own.tool_stores),
            secrets: Arc::clone(&parts.secrets),
            ports: parts.ports.clone(),
            calls: parts.calls.clone(),
            live: Arc::clone(&parts.live),
            to_task,
            in_flight: HashMap::new(),
            breakers: Breakers::default(),
            draining: Vec::new(),
            working: 0,
            stuck: Arc::clone(&parts.stuck),
            figures: Arc::clone(&parts.figures),
            recalls: 0,
            halted: false,
            halting: None,
        }
    }

    /// Starts the work of an attempt on the runtime for calls; `began` is set when it takes its first step,
    /// `beats` is notified of its progress.
    fn send_off(
        &self,
        order: Box<Order>,
        cancellation: Cancellation,
        (began, beats): (Arc<AtomicBool>, Arc<Notify>),
        span: &Within,
    ) -> tokio::task::JoinHandle<AttemptEnd> {
        let (agent, stores, ports) =
            (Arc::clone(&self.agent), Arc::clone(&self.tool_stores), self.ports.clone());
        let jitter = f64::from(self.ports.ids.random().first().copied().unwrap_or(0)) / 255.0;
        let to_task = self.to_task.clone();
        let live = self.live.source(&order.stream, &order.request.call_id, order.attempt);
        live.reduced(&order.request);
        live.began();
        // Taken now: once the call is settled, they are removed.
        let secrets = self.secrets.of_call(&order.stream, &order.request);
        let work = async move {
            began.store(true, Ordering::Release);
            let context =
                AttemptContext { stores, secrets, ports, live, cancellation, beats, to_task, jitter };
            attempt(&agent, order, context).await
        };
        self.calls.spawn(work.instrument(span.0.clone()))
    }

    /// Sends an attempt, unless its target's circuit is open.
    fn send_attempt(
        &mut self,
        key: &Key,
        mut order: Box<Order>,
        cancellation: Cancellation,
        ctx: &mut Context<Self>,
    ) {
        let (attempt, target) = (order.attempt, order.request.target.clone());
        if let Some((text, left)) =
            self.breakers.refuses(&target, &(key.clone(), attempt), self.ports.clock.now())
        {
            let failure = failure(FailureClass::BeforeEffect, "CircuitOpen", &text);
            let delay_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            let end = AttemptEnd::Failed { failure, retry: RetryWish::After(delay_ms) };
            return self.finish(key, attempt, end, false, order.within);
        }
        let (is_tool, is_inference) = (order.request.kind == CallKind::Tool, order.infer.is_some());
        let tool = self.agent.tools.get(&target).filter(|_| is_tool);
        let can_be_dropped = tool.is_none_or(|tool| !tool.is_blocking());
        let bound = Duration::from_millis(order.request.timeout_ms);
        let reports = matches!(order.request.kind, CallKind::Tool | CallKind::Handler);
        let heartbeat = order.request.heartbeat_ms.filter(|_| reports).map(Duration::from_millis);
        let (began, beats) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let permit = order.permit.take();
        let span = spans::call(&order);
        let signals = (Arc::clone(&began), Arc::clone(&beats));
        let work = self.send_off(order, cancellation.clone(), signals, &span);
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
            heartbeat: heartbeat.map(|silence| (silence, beats)),
            grace: if is_inference { Duration::ZERO } else { CANCEL_GRACE },
            can_be_dropped,
            permit,
            stuck: Arc::clone(&self.stuck),
            span,
            tell: ctx.address().recipient(),
        };
        actix_rt::spawn(watch.run());
    }

    /// Reports the end of an attempt to its target's circuit.
    fn note_end(&mut self, target: &str, end: &AttemptEnd) {
        let tool = self.agent.tools.get(target).map(|tool| tool.spec().policy.get_breaker());
        let peer = || self.agent.peers.get(target).map(|peer| peer.policy.get_breaker());
        let handler = || self.agent.handler_of(target).map(|handler| handler.policy.get_breaker());
        let rule =
            tool.or_else(peer).or_else(handler).unwrap_or_else(|| self.agent.infer_policy.get_breaker());
        self.breakers.record_end(target, rule, end, self.ports.clock.now());
    }

    fn finish(&mut self, key: &Key, attempt: u32, end: AttemptEnd, late: bool, within: Within) {
        // An attempt that was aborted, or followed by another, has no entry of its own any more.
        if self.in_flight.get(key).is_some_and(|known| known.attempt == attempt) {
            let ended = self.in_flight.remove(key).filter(|_| !self.halted);
            if let Some(call) = ended {
                self.figures.attempt(call.label, AttemptOutcome::from_attempt_end(&end));
            }
        }
        if self.halted {
            // The end may be due to the interruption.
            return;
        }
        let (stream, call_id) = key.clone();
        // A late outcome is another command than the timeout or cancel that preceded it.
        let word = if late { "late" } else { "outcome" };
        let cause =
            Cause { within, ..Cause::from_system(format_args!("{word}:{call_id}:{attempt}"), &call_id) };
        let op = TaskOp::Outcome { call_id, attempt, end };
        self.to_task.do_send(Box::new(ToTask { stream, op, cause, reply: None }));
        self.reply_drained();
    }

    /// Notes that an attempt's work has ended.
    fn finish_attempt(&mut self) {
        self.working -= 1;
        if self.working == 0 {
            self.reply_halted();
        }
    }

    fn reply_halted(&mut self) {
        if let Some((Halt { reply, .. }, interrupted)) = self.halting.take() {
            let _ = reply.send(interrupted);
        }
    }

    fn reply_drained(&mut self) {
        if self.in_flight.is_empty() && self.recalls == 0 {
            for reply in self.draining.drain(..) {
                let _ = reply.send(false);
            }
        }
    }
}

/// A router that is dropped with calls in flight, because the last handle of its system was, interrupts them: nobody would
/// take their outcome. The next start finds them open, as after a crash.
impl Drop for Router {
    fn drop(&mut self) {
        for call in self.in_flight.values() {
            call.cancellation.cancel();
            if let Some(work) = &call.work {
                work.abort();
            }
        }
    }
}

impl Actor for Router {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(SUPERVISOR_MAILBOX);
    }
}

impl Handler<Box<Order>> for Router {
    type Result = ();

    fn handle(&mut self, mut order: Box<Order>, ctx: &mut Self::Context) {
        if self.halted {
            return;
        }
        let key = (order.stream.clone(), order.request.call_id.clone());
        let (attempt, target) = (order.attempt, order.request.target.clone());
        let (cancellation, label) = (Cancellation::new(), CallLabel::from_request(&order.request));
        let entry = InFlight { attempt, cancellation: cancellation.clone(), work: None, label };
        self.in_flight.insert(key.clone(), entry);
        let begun = caught(|| {
            order.within = spans::route(&order);
            self.send_attempt(&key, order, cancellation, ctx);
        });
        if let Err(panic) = begun {
            self.lose(&key, attempt, &target, &panic);
        }
    }
}

impl Handler<Abort> for Router {
    type Result = ();

    fn handle(&mut self, message: Abort, _: &mut Self::Context) {
        let Some(call) = self.in_flight.remove(&(message.stream, message.call_id)) else {
            return;
        };
        // The task that watches the attempt does the rest.
        call.cancellation.cancel();
        self.figures.attempt(call.label, AttemptOutcome::Canceled);
        self.reply_drained();
    }
}

impl Handler<Forget> for Router {
    type Result = ();

    fn handle(&mut self, message: Forget, _: &mut Self::Context) {
        actix_rt::spawn(self.secrets.forget(message.stream, &message.kept));
    }
}

impl Handler<Halt> for Router {
    type Result = ();

    fn handle(&mut self, message: Halt, ctx: &mut Self::Context) {
        self.halted = true;
        let mut interrupted = Vec::new();
        for (key, call) in self.in_flight.drain() {
            call.cancellation.cancel();
            if let Some(work) = call.work {
                work.abort();
                interrupted.push(key);
            }
        }
        interrupted.sort();
        let within = message.within;
        self.halting = Some((message, interrupted));
        if self.working == 0 {
            self.reply_halted();
        }
        ctx.run_later(within, |router, _| {
            if router.halting.is_some() {
                tracing::warn!(
                    calls = router.working,
                    "calls that do not respond to cancellation are still running at shutdown"
                );
            }
            router.reply_halted();
        });
    }
}

impl Handler<Drain> for Router {
    type Result = ();

    fn handle(&mut self, message: Drain, _: &mut Self::Context) {
        if self.in_flight.is_empty() && self.recalls == 0 {
            let _ = message.reply.send(true);
        } else {
            self.draining.push(message.reply);
        }
    }
}

impl Handler<AttemptReport> for Router {
    type Result = ();

    fn handle(&mut self, watched: AttemptReport, _: &mut Context<Self>) {
        let AttemptReport { key, attempt, target, end, late, over, span } = watched;
        let taken = caught(|| {
            if late {
                self.breakers.abandon_trial(&target, &(key.clone(), attempt));
            }
            if let Some(end) = end {
                if !late {
                    self.note_end(&target, &end);
                    spans::note_end(&span, &end);
                }
                self.finish(&key, attempt, end, late, span);
            } else {
                self.reply_drained();
            }
        });
        if let Err(panic) = taken {
            self.lose(&key, attempt, &target, &panic);
        }
        if over {
            self.finish_attempt();
        }
    }
}
